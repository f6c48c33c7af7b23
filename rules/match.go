package rules

// Match says which requests: those that any of its clauses matches. A nil *Match matches everything.
type Match struct {
	Any []Clause
}

// Clause matches a request if all that is set in it does. The zero Clause matches everything.
type Clause struct {
	Pattern *Pattern   // of a match written as a pattern
	Paths   []*Pattern // any of; made by ParsePathPattern
	Methods []string   // any of; made by ParseMethod; GET covers HEAD
	Hosts   []Glob     // any of; made by ParseHostGlob
	IP      Prefixes   // any of, unless it is empty
	Values  []Is       // all of
}

// Is wants one of some values for an attribute.
type Is struct {
	Attribute Attribute // a header, a query value or a cookie
	Globs     []Glob    // any of; made by ParseGlob
}

// Glob is text in which * stands for any run of characters, also none.
type Glob struct {
	text string
}

// ParseGlob reads a value of a match map.
func ParseGlob(text string) (Glob, *TextError) { return Glob{text}, nil }

// ParseHostGlob reads a value of `host` in a match map: a host, in which * stands for any run of characters.
func ParseHostGlob(text string) (Glob, *TextError) { return Glob{text}, nil }

// ParseMethod reads a value of `method` in a match map.
func ParseMethod(text string) (string, *TextError) { return text, nil }

// String returns the glob in its normal form.
func (g Glob) String() string { return g.text }

// Matches reports whether the match takes the request.
func (m *Match) Matches(f *Facts) bool { return m == nil }

// Everything reports whether m takes every request.
func (m *Match) Everything() bool { return m == nil }

// Never says why m can take no request at all; it is empty if m can, or if nobody can tell.
func (m *Match) Never() string { return "" }

// ReadsQuery reports whether m looks at the query.
func (m *Match) ReadsQuery() bool { return false }

// Captures reports whether every alternative of m has a path segment of that name. If one has not, it returns how that
// one is written.
func (m *Match) Captures(name string) (without string, ok bool) { return "", false }

// Covers reports whether every request that n takes is taken by m too. It may say false where that is so.
func (m *Match) Covers(n *Match) bool { return false }
