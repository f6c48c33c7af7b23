package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is one request on its link, and the body of its answer.
type exchange struct {
	direct *direct
	link   *link
	req    *http.Request
	trace  *httptrace.ClientTrace
	flight *flight // that is told what happens, in place of trace; else nil

	look  int64 // when a read has waited long enough for the client to be looked after
	until int64 // when the answer is late; 0 is never

	out     *bytes.Buffer // what is sent in one piece
	sending *sending      // the body's sender; nil without one
	stop    func() bool   // ends the watch over the context
	cut     atomic.Bool   // the context ended, and the link with it

	stale  bool // the link was no good, and nothing was sent
	unsent bool // nothing was written
	heard  bool // a byte of the answer came

	keep  bool          // as far as request and answer say
	body  io.ReadCloser // the answer's, as net/http reads it
	state atomic.Int32  // of the body: open, ended, closed
	err   error         // what reading gives once ended
}

const (
	bodyOpen int32 = iota
	bodyEnded
	bodyClosed
)

// requests are the buffers that requests are written out in, to be sent at once.
var requests = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxRequestKept is the largest buffer that is kept.
const maxRequestKept = 16 << 10

// run sends the request and reads the header of its answer.
func (x *exchange) run() (*http.Response, error) {
	l := x.link
	l.begin(x)
	if f := x.flight; f == nil || f.cancel != nil {
		x.attend()
	}
	if f := x.flight; f != nil && f.first.span > 0 {
		x.until = f.now + int64(f.first.span)
		l.bound(x.until)
	}
	if err := x.send(); err != nil {
		return nil, x.fail(err)
	}
	if _, err := l.br.Peek(1); err != nil {
		return nil, x.fail(err)
	}
	x.heard = true
	switch {
	case x.flight != nil:
		x.flight.attempt.heard.Store(true)
	case x.trace.GotFirstResponseByte != nil:
		x.trace.GotFirstResponseByte()
	}
	res, err := x.header()
	if err != nil {
		return nil, x.fail(err)
	}
	return x.take(res)
}

// send sends the request, or has it sent: on a kept link it goes out when its
// answer is read for.
func (x *exchange) send() error {
	x.out = requests.Get().(*bytes.Buffer)
	x.out.Reset()
	if x.inOnePiece() {
		if x.flight != nil {
			x.flight.piece.Reset(x.flight.content) // perhaps once more
		}
		if err := x.req.Write(x.out); err != nil {
			return err
		}
	}
	if x.link.reused {
		x.link.asks = x
		return nil
	}
	return x.ask()
}

// inOnePiece reports whether all of the request is there to be sent.
func (x *exchange) inOnePiece() bool { return x.req.Body == nil || x.flight != nil }

// ask sends the request, or what of it is there so far.
func (x *exchange) ask() error {
	x.gotConn()
	if x.inOnePiece() {
		_, err := x.link.Write(x.out.Bytes())
		return err
	}
	x.sending = newSending(x)
	go x.sending.run()
	// Nearly always the client has sent the first of its body by now: then that goes
	// out with the header, in one piece.
	runtime.Gosched()
	x.sending.letGo()
	return nil
}

func (x *exchange) gotConn() {
	if x.flight != nil {
		x.flight.gotConn(x.link.own, x.link.reused)
	} else if x.trace.GotConn != nil {
		x.trace.GotConn(httptrace.GotConnInfo{Conn: x.link.own, Reused: x.link.reused, WasIdle: x.link.reused})
	}
}

// header reads the header of the answer, those of interim ones before it.
func (x *exchange) header() (*http.Response, error) {
	l := x.link
	for {
		res, err := http.ReadResponse(l.br, x.req)
		if err != nil {
			return nil, err
		}
		switch code := res.StatusCode; {
		case code == http.StatusSwitchingProtocols || code < 100 || code > 199:
			return res, nil
		case code == http.StatusContinue && x.sending != nil:
			x.sending.open(true)
		}
		if x.flight != nil {
			if err := x.flight.interim(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
			l.left = maxAnswerHeader
		} else if x.trace.Got1xxResponse != nil {
			if err := x.trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
			l.left = maxAnswerHeader // who looks at them bounds their number
		}
	}
}

// take makes the answer ready for its reader.
func (x *exchange) take(res *http.Response) (*http.Response, error) {
	l := x.link
	l.unbound()
	x.until = 0
	if res.StatusCode == http.StatusSwitchingProtocols && switches(res.Header) {
		if x.stop != nil && !x.stop() {
			return nil, x.fail(net.ErrClosed)
		}
		l.disarm()
		early, _ := l.br.Peek(l.br.Buffered())
		res.Body = &switched{link: l, early: bytes.Clone(early)}
		x.release()
		return res, nil
	}
	x.keep = !res.Close && !x.req.Close && res.StatusCode > 199
	if s := x.sending; s != nil && (s.open(false) || s.early()) {
		x.keep = false
	}
	hasBody := x.req.Method != http.MethodHead && res.ContentLength != 0
	if !hasBody && (x.sending == nil || x.sending.over()) {
		x.finish(true)
		return res, nil
	}
	x.body, res.Body = res.Body, x
	return res, nil
}

// attend ends the exchange when its context does, from now on.
func (x *exchange) attend() {
	ctx := x.req.Context()
	if f := x.flight; f != nil {
		f.raise()
		f.tied = true
	}
	if ctx.Done() != nil {
		x.stop = context.AfterFunc(ctx, x.cancel)
	}
}

// patience is how long a read waits until the client is looked after: most are over
// by then, and to watch somebody leave who stays is work in vain.
const patience = 50 * time.Millisecond

// beginRead is called before a read from the server, which may wait.
func (x *exchange) beginRead() {
	if x.stop != nil {
		return
	}
	now := x.flight.now
	if x.heard {
		now = mono()
	}
	x.look = now + int64(patience)
	x.link.bound(x.look)
}

// due is called when a read has waited until a deadline. It sets the next one, or
// returns why not to go on.
func (x *exchange) due() error {
	l, now := x.link, mono()
	if x.until != 0 && now >= x.until {
		return &LateError{}
	}
	if x.stop == nil && now >= x.look {
		x.attend()
	}
	if x.stop == nil {
		l.bound(x.look)
	}
	if x.until != 0 {
		l.bound(x.until)
	}
	if l.armed == 0 {
		l.net.SetReadDeadline(time.Time{})
	}
	return nil
}

// cancel ends the exchange because its context did.
func (x *exchange) cancel() {
	x.cut.Store(true)
	x.link.close()
}

// release gives back what the exchange was written out in and read through.
func (x *exchange) release() {
	x.link.rest()
	if x.out != nil && (x.sending == nil || x.sending.over()) {
		if x.out.Cap() <= maxRequestKept {
			requests.Put(x.out)
		}
	}
	x.out = nil
}

// fail ends an exchange that got no answer, and returns what it was.
func (x *exchange) fail(err error) error {
	l := x.link
	l.close()
	if x.sending != nil {
		// It reads the request. Its own reading ends when the client goes on, or
		// when conn.Close has told the body.
		x.sending.open(false)
		<-x.sending.done
	}
	if x.stop != nil {
		x.stop()
	}
	tooLong := l.left <= 0
	x.release()
	x.stale = err == errNotQuiet
	x.unsent = l.writeErr != nil && l.wrote == 0
	switch {
	case x.cut.Load():
		x.stale, x.unsent = false, false
		return context.Cause(x.req.Context())
	case x.sending != nil && x.sending.failed() != nil && !errors.Is(x.sending.failed(), net.ErrClosed):
		return x.sending.failed() // and not that the link was closed above
	case tooLong:
		return errLongHeader
	case err == io.EOF || err == errNotQuiet:
		return err
	case x.heard:
		return fmt.Errorf("reading the answer: %w", err)
	}
	return err
}

// finish ends an exchange whose answer has been read, whole or not.
func (x *exchange) finish(whole bool) {
	l := x.link
	watched := x.stop == nil || x.stop()
	keep := whole && watched && x.keep && l.clean() && (x.sending == nil || x.sending.sent())
	x.release()
	if keep {
		keep = x.direct.put(l)
	} else {
		l.close()
	}
	if x.trace != nil && x.trace.PutIdleConn != nil {
		var err error
		if !keep {
			err = errNotKept
		}
		x.trace.PutIdleConn(err)
	}
}

var (
	errNotKept    = errors.New("the connection is not kept")
	errBodyClosed = errors.New("http: read on closed response body")
)

// Read reads the body of the answer. At its end the link serves others.
func (x *exchange) Read(p []byte) (int, error) {
	switch x.state.Load() {
	case bodyEnded:
		return 0, x.err
	case bodyClosed:
		return 0, errBodyClosed
	}
	n, err := x.body.Read(p)
	if err == nil {
		return n, nil
	}
	if err != io.EOF && x.cut.Load() {
		err = context.Cause(x.req.Context())
	}
	x.err = err
	if !x.state.CompareAndSwap(bodyOpen, bodyEnded) {
		return n, errBodyClosed
	}
	x.finish(err == io.EOF)
	return n, err
}

// isThere reports whether the n bytes of the body have been read by now.
func (x *exchange) isThere(n int64) bool {
	return n > 0 && x.state.Load() == bodyOpen && int64(x.link.br.Buffered()) >= n
}

// Close ends the answer; before its end the connection ends with it. It may be
// called while Read is.
func (x *exchange) Close() error {
	if x.state.CompareAndSwap(bodyOpen, bodyClosed) {
		// What the link is read through is left to the collector: a Read may be at it.
		x.link.close()
		if x.stop != nil {
			x.stop()
		}
		if x.flight != nil {
			x.flight.tied = true
		} else if x.trace.PutIdleConn != nil {
			x.trace.PutIdleConn(errNotKept)
		}
	}
	return nil
}

// switches reports whether a 101 names what it switches to.
func switches(h http.Header) bool {
	if h.Get("Upgrade") == "" {
		return false
	}
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			if strings.EqualFold(strings.Trim(name, " \t"), "upgrade") {
				return true
			}
		}
	}
	return false
}

// switched is the body of a 101: the connection, which is the reader's from then on.
type switched struct {
	link  *link
	early []byte // read along with the answer
}

// Read implements io.Reader.
func (s *switched) Read(p []byte) (int, error) {
	if len(s.early) > 0 {
		n := copy(p, s.early)
		if s.early = s.early[n:]; len(s.early) == 0 {
			s.early = nil
		}
		return n, nil
	}
	return s.link.net.Read(p)
}

// Write implements io.Writer.
func (s *switched) Write(p []byte) (int, error) { return s.link.net.Write(p) }

// Close implements io.Closer.
func (s *switched) Close() error { return s.link.own.Close() }

// CloseWrite ends what is sent to the server.
func (s *switched) CloseWrite() error { return s.link.own.CloseWrite() }
