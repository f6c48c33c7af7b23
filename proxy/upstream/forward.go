package upstream

import (
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// Front is the front door's part in the exchange of one request.
type Front interface {
	// Rewrite sets headers on out, the request to the upstream, whose URL, Host
	// and hop-by-hop headers are as they should be. It must not change in, the
	// client's request.
	Rewrite(out, in *http.Request)
	// Answer sees the upstream's answer, a 101 too, before anything of it goes to
	// the client, and may change it. An error goes to Fail in its place.
	Answer(res *http.Response) error
	// Fail answers r, the client's request, which got no answer from the
	// upstream; err is for Status and for the log. It must write an answer or
	// panic: to return in silence would be an empty 200.
	Fail(w http.ResponseWriter, r *http.Request, err error)
}

// Request is what Forward needs beside the client's request, and what it found.
// It is the caller's again when Forward has returned or panicked.
type Request struct {
	// Front is required.
	Front Front
	// Client tells when the client leaves; nil is the context of its request.
	Client Client
	// Server is where to send it, from Pick. Forward replaces it when another
	// server took over.
	Server *Server
	// Key is what Pick got, for when another server has to be found.
	Key uint64
	// Path is the escaped path to send, put behind the server's base path:
	// SentPath(r), or what strip_prefix leaves of it. Empty is the base path
	// alone, or / where there is none.
	Path string
	// Timeout replaces the pool's time to the first byte of an answer, unless it
	// is 0; negative is none.
	Timeout time.Duration
	// Body is the whole body of the client's request where that is known and a few KB
	// at most; else nil. It goes out in one piece with the header then, and r.Body,
	// which must give the same, may be left unread. It is read until Forward returns.
	Body []byte
	// Tunnel closes a WebSocket that has carried no byte either way for so
	// long; 0 is never.
	Tunnel time.Duration

	// Waited is the time from sending to the first byte of the answer, or to
	// the failure. Set by Forward.
	Waited time.Duration
	// Upgraded says that the client's connection became a tunnel. Set by Forward.
	Upgraded bool
	// Received and Sent count a tunnel's bytes from and to the client, without
	// the handshake. Set by Forward.
	Received, Sent int64
}

// Forward sends r to q.Server and its answer to w, through the pool's one
// ReverseProxy, and returns when the exchange is over, a tunnel's end included.
// Like ReverseProxy it panics with http.ErrAbortHandler when the answer breaks
// off midway, so that the client does not take it for complete. Cancelling r's
// context ends it, a tunnel too.
func (p *Pool) Forward(w http.ResponseWriter, r *http.Request, q *Request) {
	f := flights.Get().(*flight)
	f.Context, f.pool, f.front, f.client, f.in, f.w = r.Context(), p, q.Front, q.Client, r, w
	f.key, f.path = q.Key, q.Path
	if p.direct {
		f.content = q.Body
	}
	var err error
	if f.server, err = p.board(f, q.Server, q.Key); err != nil {
		if r.ContentLength != 0 && q.Body == nil && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // see unread
		}
		q.Front.Fail(w, r, err)
		return
	}
	defer f.land(q)

	f.reply.ResponseWriter = w
	if _, asked := r.Header["Upgrade"]; asked {
		if isWebSocket(r) {
			f.webSocket = true
			f.reply.ResponseWriter = &upgrader{ResponseWriter: w, flight: f, idle: q.Tunnel}
		} else {
			r = withoutUpgrade(r)
		}
	}
	f.first.span, f.stall = p.timeouts(q.Timeout)
	if r.ContentLength != 0 && f.content == nil || f.webSocket {
		f.share()
	}
	p.proxy.ServeHTTP(&f.reply, f.request(r))
	f.whole = true
}

// rewrite is the ReverseProxy's: it makes out the request for f's server.
func (p *Pool) rewrite(pr *httputil.ProxyRequest) {
	f, out := flightOf(pr.In.Context()), pr.Out
	f.server.direct(out, f.path, p.ownHost)
	out.URL.RawQuery = pr.In.URL.RawQuery // ReverseProxy drops what it cannot parse
	out.Trailer = nil                     // it would be announced and never sent
	out.Header = f.roomy(out.Header)
	switch {
	case f.content != nil:
		out.Body = &f.piece
	case out.Body != nil:
		f.body = &clientBody{
			src:        out.Body,
			stall:      f.stall,
			cancel:     f.cancel,
			unblamable: func() bool { return f.attempt.heard.Load() || f.left() },
			interrupt:  f.interrupt,
		}
		out.Body = f.body
	}
	f.front.Rewrite(out, f.in)
	forbidReplay(out)
	if p.spec.Retries == 0 && idempotent(out.Method) {
		forbidRepeats(out)
	}
}

// interrupt ends a read of the client's body, and with it the use of its
// connection.
func (f *flight) interrupt() {
	// A writer that knows no deadlines is a test's.
	_ = http.NewResponseController(f.w).SetReadDeadline(time.Unix(1, 0))
}

// forbidReplay keeps net/http from sending a request again because it names an
// idempotency key: only GET, HEAD, OPTIONS and TRACE are. net/http looks for the
// canonical spelling alone, and to the server both are the same.
func forbidReplay(out *http.Request) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = v
		}
	}
}

// answer is the ReverseProxy's ModifyResponse.
func (p *Pool) answer(res *http.Response) error {
	f := flightOf(res.Request.Context())
	if f.unread() && res.StatusCode != http.StatusSwitchingProtocols {
		res.Header.Set("Connection", "close")
	}
	if len(res.Trailer) > 0 && f.in.ProtoMajor == 1 && f.in.ProtoMinor > 0 && f.in.Method != http.MethodHead {
		// HTTP/2 has trailers behind a known length, HTTP/1.1 behind chunks only.
		res.Header.Del("Content-Length")
	}
	if code := res.StatusCode; code == http.StatusNoContent || code == http.StatusNotModified {
		// Never with content, so of no length either: RFC 9110, 8.6, for the former. net/http
		// drops it over HTTP/1; over HTTP/2 some clients wait for what it promises.
		res.Header.Del("Content-Length")
	}
	f.reply.answered(res)
	if err := f.front.Answer(res); err != nil {
		return err
	}
	passOn(f.w.Header(), res)
	return nil
}

// passOn puts the header of an answer into h, that of the answer to the client.
// ReverseProxy would copy it value by value, each into a slice of its own. What it
// still reads of it is left to it: a 101, and the type of an event stream whose
// length is known, which it passes on piece by piece; that of an answer of unknown
// length it passes on so whatever its type.
func passOn(h http.Header, res *http.Response) {
	if res.StatusCode == http.StatusSwitchingProtocols || res.ContentLength >= 0 && isEventStream(res.Header) {
		return
	}
	for name, values := range res.Header {
		if strings.HasSuffix(name, " ") {
			// The space that stood before the colon is dropped (RFC 9112, 5.1); net/http
			// would drop the field.
			if name = trimmedName(name); name == "" {
				continue
			}
		}
		if before := h[name]; len(before) > 0 {
			values = append(before[:len(before):len(before)], values...)
		}
		h[name] = values
	}
	res.Header = nil // the map itself may be held by whom Answer has told of it
}

// trimmedName returns a name without the spaces behind it, or nothing for one that is
// about the connection or the framing: the server may have meant it, but net/http has not
// read it so.
func trimmedName(name string) string {
	name = http.CanonicalHeaderKey(strings.TrimRight(name, " "))
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length":
		return ""
	}
	return name
}

// isEventStream reports whether ReverseProxy may take an answer for an event stream.
func isEventStream(h http.Header) bool {
	const name = "text/event-stream"
	v := strings.TrimSpace(h.Get("Content-Type"))
	return len(v) >= len(name) && strings.EqualFold(v[:len(name)], name)
}

// fail is the ReverseProxy's ErrorHandler.
func (p *Pool) fail(_ http.ResponseWriter, out *http.Request, err error) {
	f := flightOf(out.Context())
	if f.tunnel != nil {
		return // the client left during the handshake; there is nobody to answer
	}
	if f.unread() {
		f.w.Header().Set("Connection", "close")
	}
	f.front.Fail(f.w, f.in, err)
}

// unread reports whether the client's body is not read to its end, over HTTP/1,
// or its reading was interrupted.
// Its answer must close the connection: net/http else reads the body away when
// the answer begins, under the hands of the transport, and holds the answer back
// for a client that does not go on.
func (f *flight) unread() bool {
	return f.body != nil && f.in.ProtoMajor == 1 && (!f.body.ended.Load() || f.body.lost.Load())
}
