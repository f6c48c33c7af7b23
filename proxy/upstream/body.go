package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// clientBody is the client's body on its way to a server. It remembers whether
// reading it failed, for a body that broke must never look like an upstream's
// failure, and cancels the request when the server takes no more of it.
type clientBody struct {
	src   io.Reader
	ended atomic.Bool // read to its end
	err   atomic.Pointer[ClientBodyError]

	stall  time.Duration // 0: no watch
	cancel context.CancelCauseFunc
	// unblamable reports that the server has begun to answer, or that the client
	// has ended the request: it may close the connection then.
	unblamable func() bool
	interrupt  func()      // ends a Read that waits for the client
	reading    atomic.Bool // a Read waits for the client
	lost       atomic.Bool // the server closed its connection

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	until time.Time // when the server is given up; zero while nothing waits for it
	over  bool      // answered or failed: no more watching
	gone  bool      // the server was given up
}

// errServerLost is what a body reads as when its server is gone.
var errServerLost = fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)

// Read reads from the client. Between two calls the server is being written to.
func (b *clientBody) Read(p []byte) (int, error) {
	b.await(false)
	if b.lost.Load() {
		return 0, errServerLost
	}
	b.reading.Store(true)
	n, err := b.src.Read(p)
	defer b.reading.Store(false)
	switch {
	case err == nil:
		b.await(true)
	case err == io.EOF:
		b.ended.Store(true)
	case b.lost.Load():
		err = errServerLost
	default:
		clients, ok := errors.AsType[*ClientBodyError](err)
		if !ok {
			clients = &ClientBodyError{err}
		}
		b.err.CompareAndSwap(nil, clients)
	}
	return n, err
}

// Close leaves the client's body open: a transport that could not connect closes
// it, and another server may still get it. ReverseProxy closes it in the end.
func (b *clientBody) Close() error { return nil }

// await starts or stops the time that the server has to take what was read.
func (b *clientBody) await(server bool) {
	if b.stall == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !server || b.over {
		b.until = time.Time{}
		return
	}
	b.until = time.Now().Add(b.stall)
	if b.timer == nil {
		b.timer = time.AfterFunc(b.stall, b.check)
	}
}

// check runs when the timer fires, which is left alone while bytes flow and set
// anew here.
func (b *clientBody) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch left := time.Until(b.until); {
	case b.over:
	case b.until.IsZero():
		b.timer.Reset(b.stall)
	case left > 0:
		b.timer.Reset(left)
	default:
		b.gone = true
		b.cancel(&StallError{})
	}
}

// clientError returns what the client's side gave. When the connection to the
// client fails in a Read, net/http cancels the request before that Read returns,
// so one that is under way gets a moment.
func (b *clientBody) clientError(cancelled bool) *ClientBodyError {
	for i := 0; cancelled && i < settleSpins && b.reading.Load(); i++ {
		time.Sleep(settlePause)
	}
	return b.err.Load()
}

// lose ends the body because its server closed the connection without an answer.
// net/http would say so only when the client sends more (golang/go#78973).
func (b *clientBody) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.gone || b.ended.Load() || b.err.Load() != nil || b.unblamable() {
		return
	}
	b.lost.Store(true)
	b.interrupt()
}

// rest ends the watch and reports whether it was too late.
func (b *clientBody) rest() (gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.gone
}

func (b *clientBody) stalled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone
}
