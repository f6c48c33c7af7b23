package rules

import (
	"net/http"
	"slices"
	"strings"
)

// HeaderEdit changes the header of a message. The zero HeaderEdit changes nothing.
type HeaderEdit struct {
	// Set replaces fields, or adds them; sorted by name.
	Set []HeaderSet
	// Remove are the canonical names of fields that are taken out; sorted.
	Remove []string
}

// HeaderSet is a header field whose value may hold {ip}, {request_id}, {tier}
// and {route}.
type HeaderSet struct {
	Name  string // canonical
	Value Template
}

// Empty reports whether there is nothing to change.
func (e *HeaderEdit) Empty() bool { return len(e.Remove) == 0 && len(e.Set) == 0 }

// Apply makes the changes to h. value returns what a placeholder stands for.
func (e *HeaderEdit) Apply(h http.Header, value func(name string) string) {
	for _, name := range e.Remove {
		delete(h, name)
	}
	for i := range e.Set {
		h[e.Set[i].Name] = []string{e.Set[i].Value.fill(value)}
	}
}

// Complete sets only what h does not have yet.
func (e *HeaderEdit) Complete(h http.Header, value func(name string) string) {
	for i := range e.Set {
		if s := &e.Set[i]; h[s.Name] == nil {
			h[s.Name] = []string{s.Value.fill(value)}
		}
	}
}

// headerPlaces are the placeholders in the value of a header.
var headerPlaces = []string{"ip", "request_id", "tier", "route"}

// ofConnection are the headers that belong to a connection or to the framing of
// a message.
var ofConnection = []string{
	"Connection", "Content-Length", "Http2-Settings", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// ofRequest and ofResponse are the headers that the gateway itself sets of what
// upstreams and clients get, and all that begin with X-Forwarded of a request.
var (
	ofRequest  = []string{"Expect", "Forwarded", "Host", "Via", "X-Real-Ip", "X-Request-Id"}
	ofResponse = []string{
		"Content-Encoding", "Date", "Grpc-Message", "Grpc-Status", "Ratelimit", "Ratelimit-Policy", "Retry-After", "X-Request-Id",
	}
)

// ownedRequest reports whether the gateway sets the header of what upstreams get.
func ownedRequest(name string) bool {
	return slices.Contains(ofConnection, name) || slices.Contains(ofRequest, name) || strings.HasPrefix(name, "X-Forwarded")
}

// ownedResponse reports whether the gateway sets the header of what clients get.
func ownedResponse(name string) bool {
	return slices.Contains(ofConnection, name) || slices.Contains(ofResponse, name)
}

// routeHeaders reads the headers that a route changes.
func (p *parser) routeHeaders(n *node, r *RouteSpec, where string) {
	where = strings.Replace(where, " in ", " of ", 1)
	c := p.section(n, partHeaders, "headers", " in headers"+where)
	c.check()
	if v := c.get("request"); v != nil {
		r.Request = p.headerEdit(v, "request", where, ownedRequest)
	}
	if v := c.get("response"); v != nil {
		r.Response = p.headerEdit(v, "response", where, ownedResponse)
	}
}

// headerEdit reads the changes to one message.
func (p *parser) headerEdit(n *node, message, where string, isOurs func(string) bool) HeaderEdit {
	c := p.section(n, partEdit, message, " in headers of the "+message+where)
	c.check()
	var e HeaderEdit
	if v := c.get("set"); v != nil {
		for _, h := range p.headers(v, isOurs) {
			value := parseTemplate(h.Value)
			if err := value.unknownPlace(headerPlaces); err != nil {
				p.failText(v.field(h.Name), "header "+quote(h.Name), err)
				continue
			}
			e.Set = append(e.Set, HeaderSet{Name: h.Name, Value: value})
		}
	}
	v := c.get("remove")
	if v == nil {
		return e
	}
	for _, item := range p.oneOrMore(v, "remove") {
		text, ok := p.text(item, "remove")
		if !ok {
			continue
		}
		name := http.CanonicalHeaderKey(text)
		switch {
		case !isToken(text):
			p.failAt(item, "", "header %s: not a header's name", quote(text))
		case isOurs(name):
			p.failAt(item, "", "header %s is set by the gateway", quote(text))
		case slices.ContainsFunc(e.Set, func(s HeaderSet) bool { return s.Name == name }):
			p.failAt(item, "set replaces what is there; leave it out here", "header %s is both set and removed", quote(text))
		case slices.Contains(e.Remove, name):
			p.failAt(item, "remove one", "header %s is named twice", quote(text))
		default:
			e.Remove = append(e.Remove, name)
		}
	}
	slices.Sort(e.Remove)
	return e
}

// field returns the value of the header of that canonical name in a map of
// headers, or the map.
func (n *node) field(name string) *node {
	for i, key := range n.keys {
		if http.CanonicalHeaderKey(key.text) == name {
			return n.items[i]
		}
	}
	return n
}

// key returns the key of a setting of a map, or nil.
func (n *node) key(name string) *node {
	for _, key := range n.keys {
		if key.text == name {
			return key
		}
	}
	return nil
}
