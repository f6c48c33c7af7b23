package proxy

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A client sends its next request when it has the last answer. So the read for it
// would nearly always find nothing: conn waits first and looks when something has
// come, which saves a call of the system in each request. What came before it began
// to wait wakes nobody, though: the next one of a client that sends several
// requests at once, or the end of one that has no more. The lookout looks after
// those, and who had something there once is always looked at first from then on.

const (
	// lookEvery is how long a connection waits at least until it is looked at.
	lookEvery = 20 * time.Millisecond
	// lookLong is how many of these it may do something else and stay in the list.
	lookLong = 50
)

// lookout looks at connections that wait for a request. The zero value is ready.
type lookout struct {
	tick atomic.Int64 // of lookEvery, while there are any; counted from 1

	mu    sync.Mutex // guards what follows
	conns []*conn
	timer *time.Timer
}

// lookedAt is what the lookout knows of a connection.
type lookedAt struct {
	since  atomic.Int64 // the tick in which it began to wait; 0 while it does not
	listed atomic.Bool  // written under lookout.mu
	busy   int          // ticks in which it did not wait; guarded by lookout.mu
}

// awaitRequest reads the beginning of a request.
func (c *conn) awaitRequest(p []byte) (int, error) {
	l := &c.doors.lookout
	c.looked.since.Store(l.tick.Load() + 1)
	if !c.looked.listed.Load() {
		l.add(c)
	}
	n, err := c.io.read(p)
	c.looked.since.Store(0)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

func (l *lookout) add(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.looked.listed.Load() {
		return
	}
	c.looked.listed.Store(true)
	c.looked.busy = 0
	l.conns = append(l.conns, c)
	if len(l.conns) > 1 {
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(lookEvery, l.look)
	} else {
		l.timer.Reset(lookEvery)
	}
}

// look is a tick.
func (l *lookout) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.tick.Add(1)
	kept := l.conns[:0]
	for _, c := range l.conns {
		if l.keepLocked(c, now) {
			kept = append(kept, c)
		}
	}
	clear(l.conns[len(kept):])
	l.conns = kept
	if len(kept) > 0 {
		l.timer.Reset(lookEvery)
	} else {
		l.conns = nil
	}
}

// keepLocked reports whether c is to be looked at later.
func (l *lookout) keepLocked(c *conn, now int64) bool {
	since := c.looked.since.Load()
	switch {
	case c.gone.Load():
		return false
	case since == 0:
		if c.looked.busy++; c.looked.busy < lookLong {
			return true
		}
	case now-since < 1:
		c.looked.busy = 0
		return true
	default:
		if c.io.look() != nothingThere {
			c.eager.Store(true)
			c.reads.kick(c.Conn)
		}
	}
	c.looked.listed.Store(false)
	if c.looked.since.Load() == since {
		return false
	}
	c.looked.listed.Store(true) // it has just begun to wait anew, and took itself for listed
	return true
}
