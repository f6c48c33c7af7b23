package main

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is a steady flow of requests, bounded: each worker waits for its answer.
type load struct {
	sent, failed atomic.Int64
	mu           sync.Mutex
	problems     []string
	stopped      chan struct{}
	wg           sync.WaitGroup
}

// flow sends about rate requests a second until finish is called. send makes
// one and says what was wrong with it.
func flow(rate int, send func() error) *load {
	const workers = 16
	l := &load{stopped: make(chan struct{})}
	for range workers {
		l.wg.Go(func() {
			tick := time.NewTicker(time.Second * workers / time.Duration(rate))
			defer tick.Stop()
			for {
				select {
				case <-l.stopped:
					return
				case <-tick.C:
				}
				l.sent.Add(1)
				if err := send(); err != nil {
					l.fail(err)
				}
			}
		})
	}
	return l
}

func (l *load) fail(err error) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.problems) < 5 {
		l.problems = append(l.problems, err.Error())
	}
}

// finish stops the flow and fails the test if a request failed.
func (l *load) finish(t testing.TB) {
	t.Helper()
	close(l.stopped)
	l.wg.Wait()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed:\n%s", n, l.sent.Load(), strings.Join(l.problems, "\n"))
	}
}
