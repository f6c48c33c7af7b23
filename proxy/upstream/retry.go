package upstream

import (
	"io"
	"net/http"
)

// another returns the server that f is tried on next, after err, or nil. again is
// how often it has been tried again already.
//
// Where no connection could be made nothing was sent, so any request goes to
// another server, once at least. What was sent is sent again only if it is
// repeatable, to another server where there is one.
func (f *flight) another(err error, again int) *Server {
	most := f.pool.spec.Retries
	_, unsent := err.(*ConnectError)
	switch {
	case unsent:
		most = max(1, most)
	case !f.repeatable(err):
		return nil
	}
	if again >= most {
		return nil
	}
	f.tried = append(f.tried, f.server)
	w := wish{key: f.key, tried: f.tried, up: true} // when requests go to all, a second one that is down is no help
	if s := f.pool.choose(&w); s != nil {
		return s
	}
	w.up = false
	if s := f.pool.choose(&w); s != nil || unsent {
		return s
	}
	w.tried = f.tried[len(f.tried)-1:] // all were tried: any but the last
	if s := f.pool.choose(&w); s != nil {
		return s
	}
	return f.server
}

// repeatable reports whether f may be sent again although a server may have it:
// it asks for nothing to be changed, has no body, and its connection broke before
// a byte of an answer: whatever net/http then calls it, the connection is to blame.
// A slow answer is waited for once only.
func (f *flight) repeatable(err error) bool {
	a := &f.attempt
	return idempotent(f.in.Method) && f.body == nil && f.content == nil && a.connected.Load() && !a.heard.Load() && a.interim.Load() == 0 &&
		!isTimeout(err) && !f.left()
}

func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// moveTo makes a copy of req for another try, at s, which gets the flight. It
// returns nil when s has no place left.
func (f *flight) moveTo(s *Server, req *http.Request) *http.Request {
	if s != f.server {
		if !s.reserve(f.pool.most) {
			return nil
		}
		f.pool.leave(f.server)
		f.server = s
	}
	a := &f.attempt
	a.connected.Store(false)
	a.reused.Store(false)
	a.heard.Store(false)
	f.first.again()
	f.now = mono()
	again, u := *req, *req.URL
	again.URL = &u
	s.direct(&again, f.path, f.pool.ownHost)
	return &again
}

// forbidRepeats keeps net/http from sending out again by itself once a server may
// have it, which it does when a kept connection turns out closed: it takes
// requests with a body of its own for unrepeatable, also when nothing is in it.
// It then looks into that body, but not into one of TRACE, which it would send in
// chunks; so TRACE is left alone.
func forbidRepeats(out *http.Request) {
	if out.Body == nil && out.Method != http.MethodTrace {
		out.Body = nothing{}
	}
}

// nothing is a body without a byte.
type nothing struct{}

// Read implements io.Reader.
func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements io.Closer.
func (nothing) Close() error { return nil }
