package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"gateway/proxy/upstream"
	"gateway/rules"
)

// read takes from the request what rules look at (step 3). A malformed request
// is answered here, and read returns false; no rule and no upstream sees it.
func (x *exchange) read(snap *Snapshot) bool {
	r, f := x.r, &x.facts
	x.limits, x.headers, x.keep, x.redact, x.wordings = snap.timeouts, snap.headers, snap.keep, snap.redact, snap.wordings
	x.meet()
	x.takeBody()
	var client netip.Addr
	client, x.trusted = rules.ClientAddr(x.peer, r.Header, snap.rules.TrustedProxies)
	x.id = requestID(r, x.trusted)
	f.Now = x.start
	f.Method, f.Client, f.Header, f.RawQuery = r.Method, client, r.Header, r.URL.RawQuery
	if p := x.malformed(snap); p.status != 0 {
		x.fail(p)
		return false
	}
	x.watchForwarded()
	x.dropSpoofed()
	var err error
	if f.Host, err = rules.NormalHost(r.Host); err != nil {
		x.fail(problem{status: http.StatusBadRequest, detail: sentence(err)})
		return false
	}
	f.RawPath = upstream.SentPath(r)
	if x.path, err = rules.ReadPath(f.RawPath); err != nil {
		x.fail(problem{status: http.StatusBadRequest, detail: sentence(err)})
		return false
	}
	f.Path = x.path.Normal
	if snap.rules.File.LoosePaths {
		if _, err = f.LoosePath(); err != nil {
			x.fail(problem{status: http.StatusBadRequest, detail: sentence(err)})
			return false
		}
	}
	return true
}

// takeBody puts x.body in the place of the request's body, if it has one.
func (x *exchange) takeBody() {
	if r := x.r; hasBody(r) {
		x.body = &body{rc: http.NewResponseController(x.w.ResponseWriter), in: r.Body, span: x.limits.Read, http2: r.ProtoMajor >= 2, conn: x.conn}
		r.Body = x.body // the server keeps the one it closes
	}
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// malformed returns the problem with a request that no rule should see, or one
// with status 0.
func (x *exchange) malformed(snap *Snapshot) problem {
	r := x.r
	switch {
	case r.Method == http.MethodConnect:
		return problem{status: http.StatusMethodNotAllowed, detail: "This gateway makes no tunnels: CONNECT is not allowed."}
	case r.Method == "PRI":
		return problem{status: http.StatusBadRequest, detail: "PRI is no request method."}
	case r.RequestURI == "*" || r.URL.Path == "*":
		return problem{status: http.StatusBadRequest, detail: "The request target * names no resource."}
	case int64(len(r.RequestURI)) > snap.limits.URL:
		return problem{status: http.StatusRequestURITooLong, detail: "The request target is too long."}
	case !isToken(r.Method):
		return problem{status: http.StatusBadRequest, detail: "The request method has characters that no method has."}
	case strings.ContainsAny(r.RequestURI, " #"):
		return problem{status: http.StatusBadRequest, detail: "The request target has a space or a # in it; write %20 or %23."}
	case !isTarget(r.RequestURI):
		return problem{status: http.StatusBadRequest, detail: "The request target is neither a path nor a URL with a host."}
	case !withinHeaderLimits(r, snap.limits):
		return problem{status: http.StatusRequestHeaderFieldsTooLarge, detail: "The request has too many or too large header fields."}
	case badExpect(r):
		return problem{status: http.StatusExpectationFailed, detail: "The only expectation this gateway knows is 100-continue."}
	}
	return x.readUpgrade()
}

// isToken says that s can be a method (RFC 9110, 9.1). HTTP/2 carries any bytes in
// its place, and in that of the target: a space there would end it for a server of
// HTTP/1, a # for many.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isTarget says that s, which net/http could read, is a path, or a URL as it is sent to
// a proxy (RFC 9112, 3.2). It also reads "host:80", and "x:/path" of any scheme.
func isTarget(s string) bool {
	if strings.HasPrefix(s, "/") {
		return true
	}
	scheme, rest, ok := strings.Cut(s, "://")
	return ok && !strings.ContainsAny(scheme, ":/?") && rest != "" && rest[0] != '/' && rest[0] != '?'
}

func withinHeaderLimits(r *http.Request, l rules.Limits) bool {
	fields, bytes := 0, int64(0)
	for name, values := range r.Header {
		fields += len(values)
		for _, v := range values {
			bytes += int64(len(name) + len(v) + len(": \r\n"))
		}
	}
	return fields <= l.Headers && bytes <= l.HeaderBytes
}

func badExpect(r *http.Request) bool {
	e, ok := r.Header["Expect"]
	return ok && (len(e) != 1 || !strings.EqualFold(e[0], "100-continue"))
}

// readUpgrade lets one kind of upgrade through: a WebSocket handshake. Any other
// would hand the client a tunnel past every rule (golang/go#80416), so its
// headers are dropped and the request goes on as what else it is.
func (x *exchange) readUpgrade() problem {
	h := x.r.Header
	if len(h["Upgrade"]) == 0 && len(h["Http2-Settings"]) == 0 {
		return problem{}
	}
	if !isWebSocket(h) || x.r.ProtoMajor >= 2 {
		x.dropUpgrade()
		return problem{}
	}
	if x.r.Method != http.MethodGet || x.r.ContentLength != 0 || len(x.r.TransferEncoding) > 0 {
		return problem{status: http.StatusBadRequest, detail: "A WebSocket handshake is a GET without a body."}
	}
	x.upgrade = true
	delete(h, "Http2-Settings")
	return problem{}
}

func isWebSocket(h http.Header) bool {
	up := h["Upgrade"]
	return len(up) == 1 && strings.EqualFold(strings.TrimSpace(up[0]), "websocket") && hasToken(h["Connection"], "upgrade")
}

func (x *exchange) dropUpgrade() {
	h := x.r.Header
	delete(h, "Upgrade")
	delete(h, "Http2-Settings")
}

// hasToken says that a list header holds the token, without regard to case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// connKey is the context key under which a request finds its connection.
type connKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// meet finds the connection of the request, on which one has come herewith, and
// its other end.
func (x *exchange) meet() {
	c, _ := x.r.Context().Value(connKey{}).(*conn)
	if c == nil {
		x.peer, _ = netip.ParseAddrPort(x.r.RemoteAddr)
		return
	}
	c.hear()
	if x.r.ProtoMajor == 1 && x.r.TLS == nil {
		x.line = c
	}
	x.peerName = c.peerName
	if x.peer = c.peer; x.r.ProtoMajor >= 2 {
		x.conn = c
		c.traffic.begun()
		return
	}
	x.attend(c)
}
