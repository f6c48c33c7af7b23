package upstream

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// LateError says that a server did not answer in time.
type LateError struct{}

// Error implements error.
func (*LateError) Error() string { return "no answer in time" }

// Timeout reports true: it is the upstream that was too slow.
func (*LateError) Timeout() bool { return true }

// firstByte gives a server so long to begin its answer, from when the request
// has been written. It is not left to the transport, whose timeout is the same
// for all requests: a route may have its own, also a longer one.
type firstByte struct {
	span   time.Duration // 0: no bound
	cancel context.CancelCauseFunc

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	began bool // the span of this try
	over  bool // answered or failed
	late  bool
}

// timeouts returns the time to the first byte of an answer and how long a server
// may take no more of a body, for a request whose Timeout is given; 0 is no bound.
func (p *Pool) timeouts(given time.Duration) (first, stall time.Duration) {
	switch {
	case given == 0:
		return p.spec.Timeout, p.stall
	case given < 0:
		return 0, 0
	}
	return given, max(given, minStall)
}

// start runs whenever a request has been written. The transport calls it, perhaps
// after the answer, and more than once in a try: over HTTP/2 it sends what a server
// refuses up to seven times by itself, with pauses that add up to a minute.
func (b *firstByte) start(info httptrace.WroteRequestInfo) {
	if b.span == 0 || info.Err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over || b.late || b.began:
		return
	case b.timer == nil:
		b.timer = time.AfterFunc(b.span, b.expire)
	default:
		b.timer.Reset(b.span)
	}
	b.began = true
}

// again gives another try its own span, from when it has been written.
func (b *firstByte) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began = false
}

func (b *firstByte) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.late = true
		b.cancel(&LateError{})
	}
}

// stop ends the watch and reports whether it was too late.
func (b *firstByte) stop() (late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.late
}

func (b *firstByte) isLate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.late
}
