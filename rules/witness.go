package rules

import (
	"net/http"
	"net/netip"
	"strings"
)

// witness makes f a request that m takes and reports whether one was found. What
// is to take every request that m takes must take it too.
func (m *Match) witness(f *Facts) bool {
	f.Reset()
	f.Method, f.Host, f.Path, f.Client = "GET", "x", "/", netip.IPv6Loopback()
	if m == nil {
		return true
	}
	if len(m.Any) == 0 {
		return false
	}
	c := &m.Any[0]
	if c.namesGroups() {
		return false // who is in them is not known yet
	}
	if paths := c.paths(); len(paths) > 0 {
		f.Path = paths[0].examplePath()
	}
	if methods := c.methods(); len(methods) > 0 {
		f.Method = methods[0]
	}
	if hosts := c.hosts(); len(hosts) > 0 {
		f.Host = hosts[0].example()
	}
	if !c.IP.Empty() {
		f.Client = c.IP.spans[0].from
	}
	for i := range c.Values {
		if is := &c.Values[i]; is.Attribute.kind == kindHeader && len(is.Globs) > 0 {
			if f.Header == nil {
				f.Header = http.Header{}
			}
			f.Header[is.Attribute.name] = []string{is.Globs[0].example()}
		}
	}
	return c.matches(f)
}

// example returns a text that g takes.
func (g *Glob) example() string { return strings.ReplaceAll(g.text, "*", "x") }

// examplePath returns a path that p takes.
func (p *Pattern) examplePath() string {
	if len(p.segs) == 0 {
		return "/"
	}
	var b strings.Builder
	b.Grow(len(p.text))
	for i := range p.segs {
		b.WriteByte('/')
		switch s := &p.segs[i]; s.kind {
		case segText:
			b.WriteString(s.text)
		case segGlob:
			b.WriteString(s.glob.example())
		default:
			b.WriteByte('x')
		}
	}
	return b.String()
}

// mayCover returns the places, ascending, of all matches of x that may take every
// request that m takes. It uses f as scratch, and owners for what it returns.
func (x *index) mayCover(m *Match, f *Facts, owners []int) []int {
	var found []uint32
	if m.witness(f) {
		found = x.find(f)
	} else {
		found = sorted(x.root.all(nil))
	}
	owners = owners[:0]
	for _, n := range found {
		if owner := int(x.ways[n].owner); len(owners) == 0 || owners[len(owners)-1] != owner {
			owners = append(owners, owner)
		}
	}
	return owners
}
