package proxy

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"gateway/limit"
)

// What one HTTP/2 connection may send beside requests. net/http bounds what it
// keeps in memory of a connection, and the handlers that run at once, but reads
// and answers PING, SETTINGS, WINDOW_UPDATE or empty CONTINUATION frames for as
// long as they come, and knows no bound on requests that are reset at once. No
// rule meters the former; each of the latter costs a connection to an upstream.
const (
	// For each block of what is received there must have been requests, bodies and
	// answers worth an eighth of it, or it took its time. What they are worth beyond
	// that counts for the blocks that follow, up to floodKept. A block is more than
	// net/http takes in, which is 1 MiB, before a handler has begun or gone on.
	floodBlock = 2 << 20
	floodWorth = floodBlock / 8
	floodKept  = 4 * floodWorth
	floodSpan  = 2 * time.Minute
	// requestWorth is what a request counts for, whatever its size: the client may
	// be sending a body that is refused.
	requestWorth = floodWorth

	// So many requests may be reset in resetSpan while fewer than that end in order.
	resetBlock = 500
	resetSpan  = 30 * time.Second
)

var errFlood = errors.New("a flood of frames that belong to no request")

// traffic judges what a connection receives, if it is HTTP/2: on HTTP/1 there is
// nothing but requests.
type traffic struct {
	http2 atomic.Bool
	worth atomic.Int64 // bytes that belonged to a request or an answer
	whole atomic.Int64 // requests that ended in order

	// Of this block, for Read alone.
	looked   bool // at the first bytes
	received int
	since    time.Time
	spent    int64 // of worth, for the blocks before

	mu          sync.Mutex // guards what follows
	resets      int
	firstReset  limit.Instant
	wholeBefore int64
}

// floods takes in what was received and reports whether it is too much.
func (t *traffic) floods(p []byte) bool {
	if !t.looked {
		t.looked, t.since = true, time.Now()
		if bytes.HasPrefix(p, []byte("PRI")) { // else the first request tells
			t.http2.Store(true)
		}
	}
	if !t.http2.Load() {
		return false
	}
	if t.received += len(p); t.received < floodBlock {
		return false
	}
	now, worth := time.Now(), t.worth.Load()
	bad := worth-t.spent < floodWorth && now.Sub(t.since) < floodSpan
	t.received, t.since = 0, now
	t.spent = min(max(t.spent+floodWorth, worth-floodKept), worth)
	return bad
}

// begun takes in that an HTTP/2 request has come.
func (t *traffic) begun() {
	t.worth.Add(requestWorth)
	if !t.http2.Load() {
		t.http2.Store(true)
	}
}

// ended takes in the end of an HTTP/2 request, and reports whether too many of
// them are reset: by the client, or by what it makes the server do.
func (t *traffic) ended(now limit.Instant, reset bool) bool {
	if !reset {
		t.whole.Add(1)
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resets == 0 {
		t.firstReset, t.wholeBefore = now, t.whole.Load()
	}
	if t.resets++; t.resets < resetBlock {
		return false
	}
	t.resets = 0
	return now.Sub(t.firstReset) < resetSpan && t.whole.Load()-t.wholeBefore < resetBlock
}

// ended judges the connection by the end of this exchange. A trusted peer speaks
// for many clients, who may leave when they like.
func (x *exchange) ended(now limit.Instant) {
	if x.conn == nil {
		return
	}
	if reset := x.r.Context().Err() != nil; x.conn.traffic.ended(now, reset) && !x.trusted {
		x.conn.doors.turnAway(x.conn, tooManyResets, "HTTP/2 connections are closed")
	}
}
