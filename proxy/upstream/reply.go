package upstream

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// reply is the client's ResponseWriter as ReverseProxy gets it. It does what
// ReverseProxy's FlushInterval is for, where it is needed: an answer whose length is
// known is passed on after flushAfter at the latest, unless the whole of it is there
// when it begins. ReverseProxy would start a timer for each.
type reply struct {
	http.ResponseWriter
	rest int64     // bytes still to come from the server; 0: nothing has to be flushed
	body io.Reader // where they come from; nil if not so many, or the client is slow

	mu      sync.Mutex // guards what follows, and writing, while rest is not 0
	timer   *time.Timer
	pending bool // written and not flushed
	over    bool
}

// answered is told of the answer before it is passed on.
func (y *reply) answered(res *http.Response) {
	if x, direct := res.Body.(*exchange); direct && x.isThere(res.ContentLength) {
		return
	}
	if res.Body != http.NoBody && res.Request.Method != http.MethodHead { // HTTP/2 has another empty body
		y.rest = max(0, res.ContentLength)
	}
	if y.rest > largeSize {
		y.body = res.Body
	}
}

// Unwrap is for http.ResponseController.
func (y *reply) Unwrap() http.ResponseWriter { return y.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (y *reply) WriteHeader(status int) {
	if y.rest == 0 || status < 200 {
		y.ResponseWriter.WriteHeader(status)
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ResponseWriter.WriteHeader(status)
	y.flushSoonLocked()
}

// Write implements http.ResponseWriter.
func (y *reply) Write(p []byte) (int, error) {
	if y.rest == 0 {
		return y.ResponseWriter.Write(p)
	}
	n, err := y.pass(p)
	if err == nil && y.body != nil && len(p) == bufferSize {
		err = y.pour()
	}
	return n, err
}

// pour passes on what follows through a large buffer, as long as the server gives
// that much and the client takes it. ReverseProxy, which has just filled its own
// buffer, goes on with the rest, and finds out by itself what a read here has failed of.
func (y *reply) pour() error {
	large := largeBuffers.get()
	defer largeBuffers.put(large)
	for large != nil && y.rest > 0 {
		n, readErr := y.body.Read(large[:])
		if n > 0 {
			before := time.Now()
			if _, err := y.pass(large[:n]); err != nil {
				return err
			}
			if time.Since(before) > slowWrite {
				y.body = nil
				return nil
			}
		}
		if readErr != nil || n < bufferSize {
			return nil
		}
	}
	return nil
}

// slowWrite is how long a client may take for a large buffer to be given more of them.
const slowWrite = 50 * time.Millisecond

// pass writes p to the client.
func (y *reply) pass(p []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n, err := y.ResponseWriter.Write(p)
	if y.rest -= min(y.rest, int64(n)); y.rest == 0 {
		y.endLocked() // net/http flushes the end
	} else {
		y.flushSoonLocked()
	}
	return n, err
}

func (y *reply) flushSoonLocked() {
	if y.pending || y.over {
		return
	}
	y.pending = true
	if y.timer == nil {
		y.timer = time.AfterFunc(flushAfter, y.flush)
	} else {
		y.timer.Reset(flushAfter)
	}
}

// FlushError is for http.ResponseController: ReverseProxy flushes an event stream, and
// what trailers follow, while a flush of y's own may be due.
func (y *reply) FlushError() error {
	if y.rest > 0 {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.pending = false
	}
	return http.NewResponseController(y.ResponseWriter).Flush()
}

func (y *reply) flush() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.pending && !y.over {
		y.pending = false
		http.NewResponseController(y.ResponseWriter).Flush()
	}
}

// end is called when nothing more is to be written.
func (y *reply) end() {
	if y.timer != nil {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.endLocked()
	}
}

func (y *reply) endLocked() {
	y.over = true
	if y.timer != nil {
		y.timer.Stop()
	}
}
