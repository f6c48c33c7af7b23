package upstream

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Client tells what becomes of the client of one request.
type Client interface {
	// Watch returns a context that ends when the client leaves. Whoever waits longer
	// than a moment calls it; before nobody may be looking.
	Watch() context.Context
	// Left reports whether the client has left by now.
	Left() bool
}

// flight is the state of one Forward. It is the context of the request too, so
// that the pool's one ReverseProxy can find it. Flights are used again, but for
// those that somebody may still hold on to.
type flight struct {
	context.Context // the client's, or one that can be cancelled below it: see raise

	pool      *Pool
	front     Front
	client    Client // or nil
	in        *http.Request
	out       *http.Request // what ReverseProxy gets; made once
	header    http.Header   // of what goes to the server, in place of ReverseProxy's
	w         http.ResponseWriter
	reply     reply
	server    *Server
	key       uint64
	tried     []*Server // those that gave no answer
	path      string
	webSocket bool
	waited    time.Duration
	attempt   attempt
	now       int64 // of this try
	relay     interimFunc
	hooked    bool // into the trace
	exchange  exchange

	body    *clientBody // nil without one, and with content
	content []byte      // the whole body, or nil
	piece   piece       // content, as what is sent has it

	first  firstByte
	stall  time.Duration           // that a server may take no more of the body; 0 is no bound
	cancel context.CancelCauseFunc // once raised
	tunnel *tunnel                 // once the client's connection is taken over

	tied  bool // others may know of it, also when it has landed
	whole bool // it has come to its end in order
}

// piece is a body that is there as a whole.
type piece struct{ bytes.Reader }

// Close implements io.Closer.
func (*piece) Close() error { return nil }

type flightKey struct{}

var flights = sync.Pool{New: func() any { return new(flight) }}

// Value implements context.Context.
func (f *flight) Value(key any) any {
	if key == (flightKey{}) {
		return f
	}
	return f.Context.Value(key)
}

// never is what a flight that cannot be cancelled yet is done by. ReverseProxy
// wants to know that there is something; to wait for the client's own context would
// make a channel for each request.
var never = make(chan struct{})

// Done implements context.Context.
func (f *flight) Done() <-chan struct{} {
	if f.cancel == nil {
		return never
	}
	return f.Context.Done()
}

func flightOf(ctx context.Context) *flight { return ctx.Value(flightKey{}).(*flight) }

// raise makes f a context that ends when the client leaves, and that can be
// cancelled. A request that is answered at once needs neither.
func (f *flight) raise() {
	if f.cancel == nil {
		f.Context, f.cancel = context.WithCancelCause(f.watch())
		f.first.cancel = f.cancel
	}
}

// watch returns a context that ends when the client leaves.
func (f *flight) watch() context.Context {
	if f.client == nil {
		return f.in.Context()
	}
	return f.client.Watch()
}

// left reports whether the client has left.
func (f *flight) left() bool {
	if f.client == nil {
		return f.in.Context().Err() != nil
	}
	return f.client.Left()
}

// share is to be called before f is handed to anybody who may keep it, as context
// of whatever is done in other goroutines. A nil flight is nobody's.
func (f *flight) share() {
	if f != nil {
		f.raise()
		f.tied = true
	}
}

// clock is the time of this try, tick what sets it anew when some has passed.
func (f *flight) clock() int64 {
	if f == nil {
		return mono()
	}
	return f.now
}

func (f *flight) tick() {
	if f != nil {
		f.now = mono()
	}
}

// newExchange returns an empty exchange for the next try.
func (f *flight) newExchange() *exchange {
	if f == nil || f.exchange.stop != nil { // which may just run
		return &exchange{}
	}
	f.exchange = exchange{}
	return &f.exchange
}

// request returns r in the context of f. It is what r.WithContext does, without a
// new Request each time.
func (f *flight) request(r *http.Request) *http.Request {
	if f.out == nil {
		f.out = new(http.Request).WithContext(f)
	}
	assign(f.out, r)
	return f.out
}

// assign makes to the same as from, but for its context.
func assign(to, from *http.Request) {
	to.Method, to.URL, to.Proto, to.ProtoMajor, to.ProtoMinor = from.Method, from.URL, from.Proto, from.ProtoMajor, from.ProtoMinor
	to.Header, to.Body, to.GetBody, to.ContentLength = from.Header, from.Body, from.GetBody, from.ContentLength
	to.TransferEncoding, to.Close, to.Host, to.Trailer = from.TransferEncoding, from.Close, from.Host, from.Trailer
	to.Form, to.PostForm, to.MultipartForm = from.Form, from.PostForm, from.MultipartForm
	to.RemoteAddr, to.RequestURI, to.TLS, to.Response, to.Pattern = from.RemoteAddr, from.RequestURI, from.TLS, from.Response, from.Pattern
}

var noRequest http.Request

const (
	usualFields = 14 // for which a header is made: for one more it would have twice the places to be cleared
	maxFields   = 64 // of a header that is kept
)

// roomy returns h in a header that has room for what the front door adds, and was
// there before. ReverseProxy's has room for what the client sent.
func (f *flight) roomy(h http.Header) http.Header {
	if f.header == nil {
		f.header = make(http.Header, usualFields)
	}
	maps.Copy(f.header, h)
	return f.header
}

// land tells q what happened.
func (f *flight) land(q *Request) {
	f.reply.end()
	if f.cancel != nil {
		f.cancel(nil)
	}
	f.pool.leave(f.server)
	q.Server, q.Waited = f.server, f.waited
	if f.tunnel != nil {
		q.Upgraded = true
		q.Received, q.Sent = f.tunnel.received.Load(), f.tunnel.sent.Load()
	}
	if f.whole && !f.tied && f.cancel == nil && f.reply.timer == nil {
		assign(f.out, &noRequest)
		clear(f.tried)
		header := f.header
		if len(header) > maxFields {
			header = nil
		}
		clear(header)
		*f = flight{out: f.out, header: header, tried: f.tried[:0]}
		flights.Put(f)
	}
}
