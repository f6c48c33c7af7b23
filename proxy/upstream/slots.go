package upstream

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// queue holds the requests that wait for a place at a server, in the order they
// came in. The zero queue is empty.
type queue struct {
	n atomic.Int64 // how many wait

	mu      sync.Mutex
	waiting list.List // of *waiter
}

type waiter struct {
	key uint64
	got chan *Server // takes one server, with the place reserved
}

// board reserves a place for a request at s, or at another server of the pool
// when s has none left. When no server has, it waits, at most the pool's
// connect_timeout. With a nil error, leave must follow.
func (p *Pool) board(f *flight, s *Server, key uint64) (*Server, error) {
	if p.most == 0 {
		s.inFlight.Add(1)
		return s, nil
	}
	if p.queue.n.Load() == 0 {
		if s.reserve(p.most) {
			return s, nil
		}
		if other := p.choose(&wish{key: key}); other != nil && other.reserve(p.most) {
			return other, nil
		}
	}
	return p.wait(f.watch(), key)
}

func (p *Pool) wait(ctx context.Context, key uint64) (*Server, error) {
	w := &waiter{key: key, got: make(chan *Server, 1)}
	q := &p.queue
	q.mu.Lock()
	q.n.Add(1)
	place := q.waiting.PushBack(w)
	q.mu.Unlock()
	p.serveWaiting() // a place may have come free before w was there
	var over <-chan time.Time
	if limit := p.spec.ConnectTimeout; limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		over = t.C
	}
	var err error
	select {
	case s := <-w.got:
		return s, nil
	case <-over:
		err = &BusyError{}
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case s := <-w.got: // just now
		return s, nil
	default:
	}
	q.waiting.Remove(place)
	q.n.Add(-1)
	return nil, err
}

// leave gives back the place that board reserved.
func (p *Pool) leave(s *Server) {
	s.inFlight.Add(-1)
	if p.most > 0 && p.queue.n.Load() > 0 {
		p.serveWaiting()
	}
}

// serveWaiting gives places to those that wait, first come first served, for as
// long as there are any.
func (p *Pool) serveWaiting() {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.waiting.Front(); e != nil; e = q.waiting.Front() {
		w := e.Value.(*waiter)
		s := p.choose(&wish{key: w.key})
		if s == nil {
			return
		}
		if !s.reserve(p.most) {
			continue // taken meanwhile; perhaps another server has one
		}
		q.waiting.Remove(e)
		q.n.Add(-1)
		w.got <- s
	}
}

// reserve takes a place at s, if there is one.
func (s *Server) reserve(most int64) bool {
	for {
		n := s.inFlight.Load()
		if most > 0 && n >= most {
			return false
		}
		if s.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}
