package rules

import (
	"net/url"
	"strings"
)

// Redaction says what of a request a log must not show beside what it never shows.
// It is immutable.
type Redaction struct {
	// Query are the names of the parameters whose values are not shown: what rules and
	// groups read (see Set.QueryKeys), and what the file lists.
	Query []string
	// Referer and UserAgent say that these headers are not shown.
	Referer, UserAgent bool

	segments []namedSegment
}

// namedSegment is a segment of a path that is not shown where the pattern takes the path.
type namedSegment struct {
	pattern *Pattern
	name    string
}

// Blank is what stands in a log for what is not shown.
const Blank = "***"

// Redaction returns what of a request under s a log must not show.
func (s *Set) Redaction() *Redaction {
	r := &Redaction{Query: s.QueryKeys()}
	for _, a := range s.File.Log.Redact {
		switch {
		case a == referer:
			r.Referer = true
		case a == userAgent:
			r.UserAgent = true
		case a.kind == kindQuery:
			r.Query = append(r.Query, a.name)
		default:
			for _, p := range s.File.naming(a.name) {
				r.segments = append(r.segments, namedSegment{p, a.name})
			}
		}
	}
	return r
}

// naming returns the patterns of routes and rules that name a segment of their path so.
func (f *File) naming(name string) []*Pattern {
	var list []*Pattern
	for i := range f.Routes {
		list = append(list, f.Routes[i].Match.naming(name)...)
	}
	for i := range f.Rules {
		list = append(list, f.Rules[i].Match.naming(name)...)
	}
	return list
}

// Path returns the normal form of a path, escaped, without the segments that are
// not to be shown. It is not ok when there are none in it: then the path may be
// shown as it was sent. Methods and hosts do not matter, so that a request which
// a rule or route does not take shows no more than one that it takes; of a path
// that has no normal form, "", nothing is shown.
func (r *Redaction) Path(normal string) (shown string, ok bool) {
	if normal == "" && len(r.segments) > 0 {
		return Blank, true
	}
	var parts []string
	for _, s := range r.segments {
		path := normal
		if s.pattern.loose {
			loose, err := LoosePath((&url.URL{Path: normal}).EscapedPath())
			if err != nil || strings.Count(loose, "/") != strings.Count(normal, "/") {
				return Blank, true // which segment of it is meant cannot be told
			}
			path = loose
		}
		if !s.pattern.matchesPath(path) {
			continue
		}
		if parts == nil {
			parts = strings.Split(strings.TrimPrefix(normal, "/"), "/")
			for i := range parts {
				parts[i] = url.PathEscape(parts[i])
			}
		}
		for i := range s.pattern.segs {
			if g := &s.pattern.segs[i]; g.kind == segName && g.text == s.name {
				parts[i] = Blank
			}
		}
	}
	if parts == nil {
		return "", false
	}
	return "/" + strings.Join(parts, "/"), true
}
