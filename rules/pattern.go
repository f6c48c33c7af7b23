package rules

import (
	"regexp"
	"slices"
	"strings"
)

// Pattern says which requests by their method, their host and the segments of
// their path: "POST /login", "api.example.com/v1/**", "/users/:id/exports".
// Paths are compared in their normal form, so no spelling of a path escapes a
// pattern. It is immutable and safe for concurrent use.
type Pattern struct {
	text   string
	method string // "" is any
	host   *Glob  // nil is any
	segs   []segment
	rest   bool   // ends in "**"
	plain  string // the whole path, if it is text without a wildcard
	names  []string
	// re, unless nil, must take the whole path. segs and rest then are no more than
	// where an index finds the pattern.
	re     *regexp.Regexp
	source string // what re is made of
	loose  bool   // the path is compared in its loose form: see LoosePath
}

// segment is one segment of a pattern.
type segment struct {
	kind segmentKind
	text string // of segText in normal form; the name of segName
	glob *Glob  // of segGlob
}

type segmentKind uint8

const (
	segText segmentKind = iota
	segOne              // "*"
	segName             // ":name"
	segGlob             // text with "*" in it, in a match map only
)

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// Method returns the method the pattern names, or "" if it takes any. A pattern
// for GET takes HEAD too.
func (p *Pattern) Method() string { return p.method }

// Names returns the names of the segments that are available as path.<name>.
func (p *Pattern) Names() []string { return slices.Clone(p.names) }

// Matches reports whether the pattern takes the request. It takes no memory.
func (p *Pattern) Matches(f *Facts) bool {
	return (p.method == "" || methodCovers(p.method, f.Method)) &&
		(p.host == nil || p.host.matches(f.Host)) &&
		p.matchesPath(f.pathFor(p.loose))
}

// matchesPath reports whether the pattern takes a path in normal form.
func (p *Pattern) matchesPath(path string) bool {
	if p.plain != "" {
		return path == p.plain
	}
	if p.re != nil {
		return p.re.MatchString(path)
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return false
	}
	for i := range p.segs {
		if rest == "" {
			return false
		}
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		if !p.segs[i].matches(seg) {
			return false
		}
	}
	return p.rest || rest == ""
}

// matches reports whether s takes a segment of a path.
func (s *segment) matches(seg string) bool {
	switch s.kind {
	case segText:
		return seg == s.text
	case segGlob:
		return s.glob.matches(seg)
	}
	return true
}

// capture returns the segment of a path, which the pattern takes, that has that
// name.
func (p *Pattern) capture(path, name string) (string, bool) {
	rest := strings.TrimPrefix(path, "/")
	for i := range p.segs {
		var seg string
		seg, rest, _ = strings.Cut(rest, "/")
		if p.segs[i].kind == segName && p.segs[i].text == name {
			return seg, true
		}
	}
	return "", false
}

// methodCovers reports whether a match for method want takes method. GET takes
// HEAD, which costs a server as much.
func methodCovers(want, method string) bool {
	return want == method || want == "GET" && method == "HEAD"
}

// Covers reports whether every request that q takes is taken by p too. It says
// no when it cannot tell.
func (p *Pattern) Covers(q *Pattern) bool {
	if p.method != "" && !methodCovers(p.method, q.method) {
		return false
	}
	if p.host != nil && (q.host == nil || !p.host.covers(*q.host)) {
		return false
	}
	return p.coversPath(q)
}

// coversPath reports whether every path that q takes is taken by p too.
func (p *Pattern) coversPath(q *Pattern) bool {
	if p.re != nil {
		return q.re != nil && q.source == p.source || q.plain != "" && p.matchesPath(q.plain)
	}
	if len(q.segs) < len(p.segs) {
		return false
	}
	for i := range p.segs {
		if !p.segs[i].covers(&q.segs[i]) {
			return false
		}
	}
	return p.rest || len(q.segs) == len(p.segs) && !q.rest
}

// anyPath reports whether p takes every path.
func (p *Pattern) anyPath() bool { return p.re == nil && p.anywhere() }

// anywhere reports whether an index cannot tell p by the path of a request.
func (p *Pattern) anywhere() bool { return p.rest && len(p.segs) == 0 }

// covers reports whether every segment that t takes is taken by s too.
func (s *segment) covers(t *segment) bool {
	switch {
	case s.kind == segOne || s.kind == segName:
		return true
	case t.kind == segText:
		return s.matches(t.text)
	}
	return s.kind == segGlob && t.kind == segGlob && s.glob.covers(*t.glob)
}
