package rules

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Attribute is something of a request that a key, a match or a missing policy
// names: "ip", "header.X-API-Key". It is comparable: two attributes that read
// the same thing are ==, however they were written. The zero Attribute is none
// and is missing in every request.
type Attribute struct {
	kind kind
	bits uint8  // of kind ip: how many bits count, 0 for the usual ones
	name string // of header (canonical), body (folded), query, cookie, claim and path names
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
	kindRoute
	kindBody
	kindBasic
	kindJWT

	kinds
)

// kindNames are the attributes, or what those with a name of their own begin
// with.
var kindNames = [...]string{
	kindIP: "ip", kindHost: "host", kindMethod: "method", kindPath: "path", kindPathName: "path.",
	kindHeader: "header.", kindQuery: "query.", kindCookie: "cookie.", kindGlobal: "global",
	kindRoute: "route", kindBody: "body.", kindBasic: "basic.username",
	kindJWT: "jwt.",
}

// ParseAttribute reads the name of an attribute: ip, ip/48, host, method, path,
// path.<name>, header.<Name>, query.<name>, cookie.<name>, body.<field>,
// basic.username, jwt.<claim>, route or global. In a key a method is what was sent, so GET and
// HEAD are two, though a pattern for GET takes both.
func ParseAttribute(text string) (Attribute, *TextError) {
	if bits, ok := strings.CutPrefix(text, "ip/"); ok {
		return parseIPBits(bits)
	}
	for k := kindIP; k < kinds; k++ {
		if text == kindNames[k] && !strings.HasSuffix(text, ".") {
			return Attribute{kind: k}, nil
		}
	}
	family, name, dotted := strings.Cut(text, ".")
	if dotted {
		switch family {
		case "path":
			return parsePathName(name)
		case "header":
			return parseHeaderName(name)
		case "query":
			return parseName(kindQuery, name)
		case "cookie":
			return parseName(kindCookie, name)
		case "body":
			return parseBodyName(name)
		case "jwt":
			return parseName(kindJWT, name)
		}
	}
	return Attribute{}, &TextError{
		Len: len(text), Msg: "unknown attribute " + strconv.Quote(text), Hint: attributeHint(text, family, dotted),
	}
}

// parseIPBits reads the number of bits of ip/48.
func parseIPBits(bits string) (Attribute, *TextError) {
	n, err := strconv.ParseUint(bits, 10, 8)
	if err != nil || n < 1 || n > 128 || bits[0] == '0' || bits[0] == '+' {
		e := &TextError{Off: len("ip/"), Len: len(bits), Msg: "the bits of an address are a number from 1 to 128"}
		if err == nil && n == 0 {
			e.Hint = "write global to count all addresses together"
		}
		return Attribute{}, e
	}
	return Attribute{kind: kindIP, bits: uint8(n)}, nil
}

// parsePathName reads the name in path.<name>.
func parsePathName(name string) (Attribute, *TextError) {
	if bad := badName(name); bad >= 0 {
		return Attribute{}, &TextError{Off: len("path.") + bad, Len: min(1, len(name)-bad), Msg: nameRule}
	}
	return Attribute{kind: kindPathName, name: name}, nil
}

// nameRule is what is wrong with the name of a path segment.
const nameRule = `the name of a path segment is letters, digits, "_" and "-", and begins with a letter or "_"`

// badName returns the place at which name is none of a path segment, or -1.
func badName(name string) int {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if !isAlnum(c) && c != '_' && c != '-' || i == 0 && (c == '-' || '0' <= c && c <= '9') {
			return i
		}
	}
	if name == "" {
		return 0
	}
	return -1
}

// parseHeaderName reads the name in header.<Name>.
func parseHeaderName(name string) (Attribute, *TextError) {
	off := len("header.")
	if name == "" {
		return Attribute{}, &TextError{Off: off, Msg: "no name of a header", Hint: "write header.<Name>"}
	}
	if token, rest := cutToken(name); rest != "" {
		return Attribute{}, &TextError{Off: off + len(token), Len: len(rest), Msg: "the name of a header holds no such letter"}
	}
	if strings.Contains(name, "_") {
		return Attribute{}, &TextError{
			Off: off, Len: len(name), Msg: `a header whose name holds "_" is dropped before any rule`,
			Hint: "write header." + strings.ReplaceAll(name, "_", "-"),
		}
	}
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return Attribute{}, &TextError{Len: off + len(name), Msg: "the host is no header here", Hint: "write host"}
	}
	if slices.Contains(unseen, name) {
		return Attribute{}, &TextError{Off: off, Len: len(name), Msg: "no rule sees this header: it says how a message is framed, and is gone by then", Hint: "remove it"}
	}
	return Attribute{kind: kindHeader, name: name}, nil
}

// parseName reads the name in query.<name> or cookie.<name>.
func parseName(k kind, name string) (Attribute, *TextError) {
	family := kindNames[k]
	if name == "" {
		return Attribute{}, &TextError{
			Off: len(family), Msg: "no name after " + strconv.Quote(family), Hint: "write " + family + "<name>",
		}
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < ' ' || c == 0x7f || k == kindCookie && !isTokenByte(c) {
			return Attribute{}, &TextError{Off: len(family) + i, Len: 1, Msg: "the name holds no such letter"}
		}
	}
	return Attribute{kind: k, name: name}, nil
}

// parseBodyName reads the field in body.<field>, of one part or of several with
// dots between them. It is folded, since fields are compared without case.
func parseBodyName(name string) (Attribute, *TextError) {
	const most = 8
	off := len("body.")
	if name == "" {
		return Attribute{}, &TextError{Off: off, Msg: "no name of a field", Hint: "write body.<field>"}
	}
	if i := strings.IndexAny(name, "[]"); i >= 0 {
		plain := strings.ReplaceAll(strings.ReplaceAll(name, "]", ""), "[", ".")
		return Attribute{}, &TextError{
			Off: off + i, Len: 1, Msg: "a field inside another is written with a dot", Hint: "write body." + strings.TrimRight(plain, "."),
		}
	}
	parts := 0
	for part := range strings.SplitSeq(name, ".") {
		if parts++; part == "" || parts > most {
			return Attribute{}, &TextError{Len: off + len(name), Msg: "a field is 1 to " + strconv.Itoa(most) + " names with a dot between them"}
		}
	}
	for i, r := range name {
		if unicode.IsControl(r) || unicode.IsSpace(r) || r == utf8.RuneError || strings.ContainsRune(`"\%&+;=`, r) {
			return Attribute{}, &TextError{Off: off + i, Len: max(1, utf8.RuneLen(r)), Msg: "the name of a field holds no such letter"}
		}
	}
	return Attribute{kind: kindBody, name: string(appendFolded(nil, []byte(name)))}, nil
}

// String returns the attribute as one would write it in the file.
func (a Attribute) String() string {
	if a.bits > 0 {
		return "ip/" + strconv.Itoa(int(a.bits))
	}
	return kindNames[a.kind] + a.name
}

// IsIP reports whether a is the client's address, or the first bits of it.
func (a Attribute) IsIP() bool { return a.kind == kindIP }

// IsGlobal reports whether a is the same for every request.
func (a Attribute) IsGlobal() bool { return a.kind == kindGlobal }

// ClientChosen reports whether the client writes the value as it likes: a
// header, a query value, a cookie, a field of the body or a user name.
func (a Attribute) ClientChosen() bool {
	return a.kind == kindHeader || a.kind == kindQuery || a.kind == kindCookie || a.named()
}

// MayLack reports whether a request may be without the value.
func (a Attribute) MayLack() bool { return a.ClientChosen() || a.kind == kindJWT }

// InBody reports whether the value is in the body of the request.
func (a Attribute) InBody() bool { return a.kind == kindBody }

// named reports whether the value is what somebody calls another, perhaps: what
// is left of a limit on it is not for everybody to see.
func (a Attribute) named() bool { return a.kind == kindBody || a.kind == kindBasic }

// PathName returns the name of a path.<name> attribute, or "".
func (a Attribute) PathName() string {
	if a.kind == kindPathName {
		return a.name
	}
	return ""
}
