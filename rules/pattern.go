package rules

// Pattern is a parsed pattern: an optional method, an optional host and a path.
type Pattern struct {
	text string
}

// ParsePattern reads a pattern: [METHOD " "] [host] "/" segments.
func ParsePattern(text string) (*Pattern, *TextError) { return &Pattern{text: text}, nil }

// ParsePathPattern reads a value of `path` in a match map: a pattern without method and host, in which * may also be a
// part of a segment.
func ParsePathPattern(text string) (*Pattern, *TextError) { return &Pattern{text: text}, nil }

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// Method returns the method the pattern names, or "".
func (p *Pattern) Method() string { return "" }

// Names returns the names of its :name segments.
func (p *Pattern) Names() []string { return nil }

// Matches reports whether the pattern matches the request.
func (p *Pattern) Matches(f *Facts) bool { return false }

// Covers reports whether every request that q matches is matched by p too. It may say false where that is so.
func (p *Pattern) Covers(q *Pattern) bool { return false }
