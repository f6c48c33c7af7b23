package rules

// Attribute is something of a request that a key, a match or a missing policy names: "ip", "header.X-API-Key". It is
// comparable: two attributes that read the same thing are ==, however they were written.
type Attribute struct {
	kind kind
	bits uint8  // of kind ip: the bits that count, 0 for the default
	name string // of header (canonical), query, cookie and path names
}

type kind uint8

const (
	kindNone kind = iota
	kindIP
	kindHost
	kindMethod
	kindPath
	kindPathName
	kindHeader
	kindQuery
	kindCookie
	kindGlobal
)

// ParseAttribute reads the name of an attribute.
func ParseAttribute(text string) (Attribute, *TextError) { return Attribute{}, nil }

// String returns the attribute as one would write it in the file.
func (a Attribute) String() string { return "" }

// IsIP reports whether a is the client's address, or a part of it.
func (a Attribute) IsIP() bool { return a.kind == kindIP }

// IsGlobal reports whether a is the same for every request.
func (a Attribute) IsGlobal() bool { return a.kind == kindGlobal }

// ClientChosen reports whether the client writes the value as it likes: a header, a query value or a cookie.
func (a Attribute) ClientChosen() bool { return false }

// ReadsQuery reports whether a is a query value.
func (a Attribute) ReadsQuery() bool { return a.kind == kindQuery }

// PathName returns the name of a path.<name> attribute, or "".
func (a Attribute) PathName() string { return "" }
