package proxy

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gateway/proxy/upstream"
	"gateway/rules"
)

// fields makes the values of header fields, each its own slice of one array.
type fields struct{ free []string }

func (f *fields) of(value string) []string {
	if len(f.free) == 0 {
		f.free = make([]string, 9) // what an ordinary request and its answer take
	}
	one := f.free[:1:1]
	one[0], f.free = value, f.free[1:]
	return one
}

// dropSpoofed takes from the request what nobody may see of it, the rules as
// little as the upstream: names with "_", which many servers read as "-", what
// only a trusted peer may set, and what some servers read as that or as a header
// that a rule has read.
func (x *exchange) dropSpoofed() {
	h := x.r.Header
	for name := range h {
		letters := lettersOf(name)
		if letters&underscore != 0 || !x.trusted && strings.HasPrefix(name, rules.ProxyPrefix) || letters&otherMark != 0 && x.isAlias(name) {
			delete(h, name)
		}
	}
	if !x.trusted {
		for _, name := range rules.ProxyHeaders {
			delete(h, name)
		}
	}
}

// isAlias reports whether a name with other marks than "-" is that of a header which
// a rule reads, or which only a trusted peer may set, for a server to which all marks
// are one: to CGI as lighttpd has it "X.Api-Key" is HTTP_X_API_KEY, and to PHP a dot is
// a "_". Other names with marks go through; some mean nothing without them, like the
// metadata of S3.
func (x *exchange) isAlias(name string) bool {
	name = http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && letters[r] == 0 {
			return r
		}
		return '-'
	}, name))
	return slices.Contains(x.keep, name) ||
		!x.trusted && (strings.HasPrefix(name, rules.ProxyPrefix) || slices.Contains(rules.ProxyHeaders, name) || name == "X-Request-Id")
}

// What lettersOf says is in a name.
const (
	underscore = 1 << iota
	otherMark  // not a letter, a digit, "-" or "_"
)

var letters = func() (of [256]uint8) {
	for c := range of {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		case c == '_':
			of[c] = underscore
		default:
			of[c] = otherMark
		}
	}
	return of
}()

// lettersOf says whether a name of a header holds more than letters, digits and "-".
func lettersOf(name string) (is uint8) {
	for i := range len(name) {
		is |= letters[name[i]]
	}
	return is
}

// hopByHop are the headers that end at the gateway, whoever reads or names them:
// they are about the client's connection, and to the upstream Connection would name
// what the next hop is to drop.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Upgrade",
}

// endToEnd returns names without those of headers that end at the gateway.
func endToEnd(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(hopByHop, name) })
}

// Rewrite implements upstream.Front: the headers of the request to the upstream.
func (x *exchange) Rewrite(out, in *http.Request) {
	h := out.Header
	out.Trailer = nil // announced by the client; never a key, never forwarded
	// What Connection names is gone from h by now; what a rule has read must reach
	// the upstream all the same, or the two see different requests.
	if len(in.Header["Connection"]) > 0 {
		for _, name := range x.keep {
			if v, ok := in.Header[name]; ok && h[name] == nil {
				h[name] = v
			}
		}
	}
	x.forwardedHeaders(h, in)
	if via := in.Header["Via"]; len(via) > 0 {
		h["Via"] = x.fields.of(strings.Join(via, ", ") + ", 1.1 gateway")
	} else {
		h["Via"] = x.fields.of("1.1 gateway")
	}
	h["X-Request-Id"] = x.fields.of(x.id)
	if edit := &x.plan.Request; !edit.Empty() {
		edit.Apply(h, x.placeholder)
	}
}

// forwardedHeaders sets who the client is. A trusted peer's word is kept and the
// peer appended; anybody else's was dropped.
func (x *exchange) forwardedHeaders(h http.Header, in *http.Request) {
	peer := x.peerName
	if peer == "" {
		peer = nameOf(x.peer)
	}
	chain, proto, host := peer, "http", in.Host
	if in.TLS != nil {
		proto = "https"
	}
	if x.trusted {
		if prior := in.Header["X-Forwarded-For"]; len(prior) > 0 {
			chain = strings.Join(prior, ", ") + ", " + peer
		}
		if v := in.Header.Get("X-Forwarded-Proto"); v != "" {
			proto = v
		}
		if v := in.Header.Get("X-Forwarded-Host"); v != "" {
			host = v
		}
		if v, ok := in.Header["Forwarded"]; ok {
			h["Forwarded"] = v
		}
	}
	client := peer
	if x.trusted {
		client = x.facts.Client.String()
	}
	h["X-Forwarded-For"] = x.fields.of(chain)
	h["X-Forwarded-Proto"] = x.fields.of(proto)
	h["X-Forwarded-Host"] = x.fields.of(host)
	h["X-Real-Ip"] = x.fields.of(client)
}

// nameOf is the address of a peer as servers are told of it.
func nameOf(peer netip.AddrPort) string { return peer.Addr().Unmap().WithZone("").String() }

// Answer implements upstream.Front. The limit headers of an ordinary answer are
// put on when its header goes out; a 101 never comes to that.
func (x *exchange) Answer(res *http.Response) error {
	x.answer.Status, x.answer.Header = res.StatusCode, res.Header
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.decorate(res.Header)
	}
	return nil
}

// Fail implements upstream.Front: the request got no answer from the upstream.
func (x *exchange) Fail(_ http.ResponseWriter, _ *http.Request, err error) {
	x.failure = err
	status := upstream.Status(err, x.leftError())
	if status == upstream.StatusClientGone && !errors.Is(err, errTooLarge) {
		x.abandon(err)
	}
	if x.w.status != 0 {
		panic(http.ErrAbortHandler) // the head is out: the client must see it break off
	}
	p := problem{status: status, detail: failureText(status, err)}
	if status == http.StatusServiceUnavailable {
		p.wait = time.Second
	}
	if errors.Is(err, errTooLarge) {
		p = bodyTooLarge
	}
	x.fail(p)
	if x.result < resultBlocked {
		x.result = resultAllowed
	}
}

// abandon ends the exchange with a client that is gone: nobody is there to read an
// answer, and none was sent, so the connection ends.
func (x *exchange) abandon(err error) {
	x.failure, x.status = err, upstream.StatusClientGone
	panic(http.ErrAbortHandler)
}

func failureText(status int, err error) string {
	switch status {
	case http.StatusBadRequest:
		return "The request body is malformed."
	case http.StatusRequestTimeout:
		return "The request body came too slowly."
	case http.StatusGatewayTimeout:
		return "The upstream did not answer in time."
	case http.StatusServiceUnavailable:
		return "No server can take this request now."
	}
	if _, ok := errors.AsType[*upstream.ConnectError](err); ok {
		return "The upstream cannot be reached."
	}
	return "The upstream gave no usable answer."
}
