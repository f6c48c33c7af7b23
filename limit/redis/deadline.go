package redis

import (
	"context"
	"sync/atomic"
	"time"
)

// deadline is a context that ends at an instant and is never canceled, so that calls
// which begin at about the same time can share one and its timer.
type deadline struct {
	begun time.Time
	ends  time.Time
	done  chan struct{}
}

func newDeadline(within time.Duration) *deadline {
	now := time.Now()
	d := &deadline{begun: now, ends: now.Add(within), done: make(chan struct{})}
	time.AfterFunc(within, func() { close(d.done) })
	return d
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.ends, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.done }

// Err implements context.Context.
func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value implements context.Context.
func (d *deadline) Value(any) any { return nil }

// deadlines are those of one length.
type deadlines struct{ last atomic.Pointer[deadline] }

// in returns a deadline for what begins now: at most within from then, and less by at
// most a thirty-second of that.
func (d *deadlines) in(within time.Duration, now time.Time) *deadline {
	last := d.last.Load()
	if last != nil && now.Sub(last.begun) < within/32 {
		return last
	}
	next := newDeadline(within)
	d.last.CompareAndSwap(last, next)
	return next
}
