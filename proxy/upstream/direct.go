package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// direct is a RoundTripper for one server that speaks HTTP/1.1. A request runs in
// the goroutine of its caller: net/http's transport has two goroutines to each
// connection and hands every request and answer over to them by channels, which
// costs more than the rest of its work. What is parsed and written out is so by
// net/http, as there.
//
// A request with a body has a goroutine that sends it, for the answer may come
// before its end, unless all of it is there and short. Such a request is never sent
// again. One without is sent a second time, on a fresh connection, where a kept one
// turns out closed: if nothing of it was written, or if it is a GET, HEAD, OPTIONS or
// TRACE and nothing was answered.
//
// As many connections are open at most as there were requests at one time, so the
// pool's bound on those bounds them too.
//
// The zero direct is not useful. It is safe for concurrent use.
type direct struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	port  string        // where the host has none
	keep  time.Duration // an idle connection; 0 is for ever
	links links
}

// RoundTrip implements http.RoundTripper. It uses the hooks GetConn, GotConn,
// GotFirstResponseByte, Got1xxResponse, WroteRequest and PutIdleConn of a
// httptrace.ClientTrace in the context.
func (d *direct) RoundTrip(req *http.Request) (*http.Response, error) {
	return d.carry(req, nil)
}

// carry is RoundTrip for a request without a body, with an empty one, or with the
// content of f, that tells f what happens and not the hooks of a trace. With a nil f
// it is RoundTrip.
func (d *direct) carry(req *http.Request, f *flight) (*http.Response, error) {
	if err := sendable(req); err != nil {
		closeBody(req)
		return nil, err
	}
	ctx := req.Context()
	var trace *httptrace.ClientTrace
	if f == nil {
		if trace = httptrace.ContextClientTrace(ctx); trace == nil {
			trace = &httptrace.ClientTrace{}
		}
	}
	bare := req // without a body, if it has none
	repeatable := idempotent(req.Method)
	if req.Body != nil && isNothing(req) {
		_, unrepeatable := req.Body.(nothing)
		repeatable = repeatable && !unrepeatable
		plain := *req
		plain.Body, plain.ContentLength = nil, 0
		bare = &plain
	}
	for fresh := false; ; {
		if ctx.Err() != nil {
			closeBody(req)
			return nil, context.Cause(ctx)
		}
		if trace != nil && trace.GetConn != nil {
			trace.GetConn(d.address(req.URL.Host))
		}
		l, err := d.get(ctx, req.URL.Host, fresh, f)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		x := f.newExchange()
		x.direct, x.link, x.req, x.trace, x.flight = d, l, bare, trace, f
		res, err := x.run()
		_, late := err.(*LateError)
		switch {
		case err == nil:
			res.Request = req
			return res, nil
		case x.stale:
			continue
		case l.reused && bare.Body == nil && !late && (x.unsent || repeatable && !x.heard) && ctx.Err() == nil:
			fresh = true
			continue
		}
		closeBody(req)
		return nil, err
	}
}

// isNothing reports whether the body of req is one without a byte.
func isNothing(req *http.Request) bool {
	_, ok := req.Body.(nothing)
	return ok || req.Body == http.NoBody
}

// closeBody closes the body of req, once more where it has been closed.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// sendable says what keeps req from being sent, as net/http's transport does.
func sendable(req *http.Request) error {
	switch {
	case req.URL == nil:
		return errors.New("http: nil Request.URL")
	case req.Header == nil:
		return errors.New("http: nil Request.Header")
	case req.URL.Host == "":
		return errors.New("http: no Host in request URL")
	case req.Method != "" && !isToken(req.Method):
		return errors.New("invalid method")
	}
	for _, h := range [...]http.Header{req.Header, req.Trailer} {
		for name, values := range h {
			if !isToken(name) {
				return errors.New("invalid name of a header field")
			}
			for _, v := range values {
				if !isFieldValue(v) {
					return errors.New("invalid value of header field " + name)
				}
			}
		}
	}
	return nil
}

// tokens are the octets of a token: RFC 9110, 5.6.2.
var tokens = func() (t [256]bool) {
	for c := range t {
		t[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		t[c] = true
	}
	return t
}()

func isToken(s string) bool {
	for i := range len(s) {
		if !tokens[s[i]] {
			return false
		}
	}
	return s != ""
}

// isFieldValue reports whether s holds no control character but the tab.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// address is what is dialled for the host of a URL.
func (d *direct) address(host string) string {
	if i := len(host) - 1; i >= 0 && host[i] != ']' {
		for ; i >= 0 && '0' <= host[i] && host[i] <= '9'; i-- {
		}
		if i >= 0 && host[i] == ':' && i < len(host)-1 {
			return host
		}
	}
	if i := len(host) - 1; i >= 0 && host[i] == ':' {
		host = host[:i]
	}
	return host + ":" + d.port
}

// CloseIdleConnections closes the connections that are idle, and each other one
// when its request ends, until the next request.
func (d *direct) CloseIdleConnections() { d.links.closeIdle() }
