package upstream

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"
)

// maxInterim is how many interim answers (1xx) one request may get; net/http
// knows no limit once somebody looks at them.
const maxInterim = 8

// leg is the RoundTripper of every pool: the way to the server and back of the
// flight in the request's context.
type leg struct{}

// attempt is what became of the last try. The transport's goroutines write it.
type attempt struct {
	connected atomic.Bool  // a connection was there to send on
	reused    atomic.Bool  // and had carried a request before
	heard     atomic.Bool  // a byte of an answer came
	interim   atomic.Int32 // 1xx so far, in all tries
}

// interimFunc takes in an answer before the answer.
type interimFunc func(code int, h textproto.MIMEHeader) error

// RoundTrip implements http.RoundTripper.
func (leg) RoundTrip(req *http.Request) (*http.Response, error) {
	f := flightOf(req.Context())
	f.now = mono()
	start := f.now
	res, err := f.try(req)
	for again := 0; err != nil; again++ {
		next := f.another(err, again)
		if next == nil {
			break
		}
		moved := f.moveTo(next, req)
		if moved == nil {
			break
		}
		res, err = f.try(moved)
	}
	if _, unsent := err.(*ConnectError); unsent && f.pool.choice.Load().dead {
		err = &DownError{err}
	}
	f.waited = time.Duration(mono() - start)
	if f.first.stop() && err == nil {
		res.Body.Close() // what came at last has just been cancelled
		err = &LateError{}
	}
	if f.body != nil && f.body.rest() && err == nil {
		// The watch has just cancelled what was answered at last.
		res.Body.Close()
		err = &StallError{}
	}
	if err != nil {
		return nil, err
	}
	f.pool.waits.Add(DurationBounds, f.waited)
	return res, nil
}

// hook hooks f into the trace that ReverseProxy has put into its own request.
// A second trace would be merged with it by reflection, at each request.
func (f *flight) hook(t *httptrace.ClientTrace) {
	if f.hooked {
		return
	}
	f.hooked = true
	t.GotConn = func(info httptrace.GotConnInfo) {
		f.gotConn(info.Conn, info.Reused)
		// A server may take not even the header.
		if f.body != nil {
			f.body.await(true)
		} else {
			f.first.start(httptrace.WroteRequestInfo{})
		}
	}
	t.GotFirstResponseByte = func() { f.attempt.heard.Store(true) }
	t.WroteRequest = f.first.start
	t.Got1xxResponse = f.interim
}

// gotConn is told that there is a connection to send on.
func (f *flight) gotConn(c net.Conn, reused bool) {
	a := &f.attempt
	a.reused.Store(reused)
	a.connected.Store(true)
	if !f.overHTTP1() {
		return
	}
	if own := http1(c); own != nil {
		if reused {
			own.settle()
		}
		own.carry(f.body)
	}
}

// interim is told of an answer before the answer.
func (f *flight) interim(code int, h textproto.MIMEHeader) error {
	a := &f.attempt
	a.heard.Store(false) // the answer is still to come
	if a.interim.Add(1) > maxInterim {
		return &AnswerError{fmt.Sprintf("more than %d interim answers", maxInterim)}
	}
	if code == http.StatusSwitchingProtocols {
		// HTTP/2 has none; passed on to a client of HTTP/1 it would be the final one.
		return &AnswerError{"101 over HTTP/2"}
	}
	if code == http.StatusContinue || !f.in.ProtoAtLeast(1, 1) {
		// The client gets its 100 when the transport, told so by the
		// server's, begins to read the body. HTTP/1.0 knows no 1xx.
		return nil
	}
	dropHopByHop(h)
	return f.relay(code, h)
}

// try sends req to f's server once and judges what comes back.
func (f *flight) try(req *http.Request) (*http.Response, error) {
	var res *http.Response
	var err error
	trace := httptrace.ContextClientTrace(req.Context())
	if f.relay == nil {
		f.relay = trace.Got1xxResponse
	}
	switch t := f.transport().(type) {
	case *direct:
		if f.body == nil && !f.webSocket {
			res, err = t.carry(req, f)
			break
		}
		f.hook(trace)
		res, err = t.RoundTrip(req)
	default:
		f.share()
		f.hook(trace)
		res, err = t.RoundTrip(req)
	}
	if err == nil {
		if err = f.refuse(res); err == nil {
			f.server.answered(res.StatusCode)
			return res, nil
		}
		res.Body.Close()
	}
	return nil, f.blame(err)
}

// transport returns what carries f.
func (f *flight) transport() http.RoundTripper {
	switch s := f.server; {
	case !f.overHTTP1():
		return s.prior
	case s.h1direct != nil:
		return s.h1direct
	default:
		return s.h1
	}
}

// overHTTP1 reports whether f goes over a connection that is not HTTP/2 from the
// first byte. A WebSocket always does.
func (f *flight) overHTTP1() bool { return !f.server.h2c || f.webSocket }

// refuse says what makes an answer unfit to be passed on.
func (f *flight) refuse(res *http.Response) error {
	switch code := res.StatusCode; {
	case code == http.StatusSwitchingProtocols && !f.webSocket:
		return &AnswerError{"101 to a request without an upgrade"}
	case code == http.StatusSwitchingProtocols && !switchesToWebSocket(res):
		return &AnswerError{"101 to another protocol than asked for"}
	case code != http.StatusSwitchingProtocols && (code < 200 || code > 999):
		return &AnswerError{fmt.Sprintf("status %03d", code)}
	}
	return nil
}

// blame finds whose fault err is, counts it against the server if it is the
// server's, and returns it as Status can tell it.
func (f *flight) blame(err error) error {
	left := f.left()
	if b := f.body; b != nil {
		// To interrupt the body cancels the context too, so that comes first.
		switch clients := b.clientError(left); {
		case b.lost.Load():
			left, err = false, errServerLost
		case clients != nil:
			return clients
		case b.stalled():
			err = &StallError{}
		}
	}
	if _, late := err.(*LateError); late || f.first.isLate() {
		left, err = false, &LateError{}
	}
	if left {
		return err
	}
	a := &f.attempt
	if !a.connected.Load() && isOurs(err) {
		return &ConnectError{err} // no server is the worse for it
	}
	f.server.failures.Add(1)
	if !a.connected.Load() && isNetwork(err) {
		err = &ConnectError{err}
		f.pool.failed(f.server)
	} else if !a.reused.Load() && !a.heard.Load() && !isTimeout(err) && isNetwork(err) {
		f.pool.failed(f.server)
	}
	return err
}

// dropHopByHop removes what belongs to the connection from an interim answer,
// which ReverseProxy passes on as it is (golang/go#81319).
func dropHopByHop(h textproto.MIMEHeader) {
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	for _, name := range [...]string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	} {
		h.Del(name)
	}
}
