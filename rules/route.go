package rules

import (
	"strings"
	"time"
)

// RouteSpec is a route as the file says it: which requests, and what becomes of
// them. A route has an Upstream, a Redirect or a Respond.
type RouteSpec struct {
	// Name is the match as it is written, shortened; "/**" without one. It is the
	// route's name in logs and metrics.
	Name string
	// Match are the requests it takes; nil is all of them.
	Match *Match
	// Upstream is the name of the pool; "" where the gateway itself answers.
	Upstream string
	// StripPrefix is a path in normal form that is cut from what the upstream
	// gets; "" is nothing.
	StripPrefix string
	// Rewrite is the path the upstream gets instead of the client's; the zero
	// Template is none.
	Rewrite Template
	// Timeout replaces the upstream's time to the first byte of an answer, unless
	// it is 0; negative is none.
	Timeout time.Duration
	// Priority says when it is refused for overload.
	Priority Priority
	// MaxBody is the most bytes of a request's body; 0 is no bound.
	MaxBody int64
	// Request changes the headers of what the upstream gets, Response those of
	// what the client gets.
	Request, Response HeaderEdit
	// Redirect sends the client elsewhere; nil is none.
	Redirect *Redirect
	// Respond is a fixed answer; nil is none.
	Respond *Respond
	Pos     Pos
}

// Redirect sends a client elsewhere.
type Redirect struct {
	// To is a path of this gateway, or the URL of another host.
	To Template
	// Status is 301, 302, 303, 307 or 308.
	Status int
}

// Respond is a fixed answer of the gateway's own.
type Respond struct {
	// Status is 200 to 599, 200 unless the file says otherwise.
	Status int
	// Body is sent as it is. ContentType is its type, text/plain unless the file
	// says otherwise; "" without a body.
	Body, ContentType string
}

// Route is a compiled route. It refers to no Set, so that a tunnel may hold it.
type Route struct {
	RouteSpec
	hash *Recipe // what the balance of its upstream hashes, or nil
}

// Path returns the escaped path the upstream gets of a request that the route
// took: rewritten, cut, or as the client sent it. It reports false when the
// captures of a rewrite put together a path that can be read in two ways.
func (r *Route) Path(f *Facts, p Path) (string, bool) {
	switch {
	case !r.Rewrite.Empty():
		path := r.Rewrite.fill(func(name string) string { return r.capture(f, p, name) })
		folded, err := ReadPath(path)
		return path, err == nil && !folded.Dots
	case r.StripPrefix != "":
		if rest, ok := p.Cut(r.StripPrefix); ok {
			return rest, true
		}
	}
	return p.Forward(), true
}

// Location returns where the route's Redirect sends a request. Without a query
// of its own it keeps the client's. A path never becomes another host.
func (r *Route) Location(f *Facts, p Path) string {
	to := r.Redirect.To.fill(func(name string) string { return escapePath(r.capture(f, p, name)) })
	if to[0] == '/' {
		to = "/" + strings.TrimLeft(to, `/\`)
	}
	if f.RawQuery != "" && !strings.Contains(r.Redirect.To.text, "?") {
		to += "?" + escapeQuery(f.RawQuery)
	}
	return to
}

// capture returns what the placeholder path.<name> stands for: of what is
// forwarded of the path, the segment that the pattern which took the request
// names so, or what its "**" took.
func (r *Route) capture(f *Facts, p Path, placeholder string) string {
	name := strings.TrimPrefix(placeholder, "path.")
	pattern := r.Match.pattern(f)
	if pattern == nil {
		return ""
	}
	// What is forwarded has the segments of the normal form, but for empty ones.
	rest := p.Forward()
	for i := range pattern.segs {
		rest = strings.TrimLeft(rest, "/")
		seg := firstSegment(rest)
		if pattern.segs[i].kind == segName && pattern.segs[i].text == name {
			return seg
		}
		rest = rest[len(seg):]
	}
	if name == restName && pattern.rest {
		return strings.TrimLeft(rest, "/")
	}
	return ""
}

// restName is what "**" is called in a rewrite or a redirect, unless a segment
// of the pattern has the name.
const restName = "rest"

// pattern returns the pattern by which m takes the request, or nil.
func (m *Match) pattern(f *Facts) *Pattern {
	if m == nil {
		return nil
	}
	for i := range m.Any {
		if c := &m.Any[i]; c.matches(f) {
			if c.Pattern != nil {
				return c.Pattern
			}
			return c.path(f)
		}
	}
	return nil
}
