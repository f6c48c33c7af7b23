package rules

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"gateway/limit"
)

// idMark is what the id of a key begins with.
const idMark = "id:"

// Key is what stands for a key in memory.
type Key = limit.Digest

// KeyID returns what stands for a key where its text is not for everybody to see,
// or not known: "id:" and 32 hexadecimal digits. It is the same as long as the
// process runs.
func KeyID(d limit.Digest) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], d.Hi)
	binary.BigEndian.PutUint64(b[8:], d.Lo)
	return idMark + hex.EncodeToString(b[:])
}

// KeyName returns a name for a key of r that a request from client has had: its
// address, when the key is that, also where it stands in for one that is missing;
// "global"; else its id.
func (s *Set) KeyName(r *Rule, key limit.Digest, client netip.Addr) string {
	text := prefixText(s.addressPart(r, client))
	for _, c := range []struct {
		name     string
		fallback bool
	}{{text, false}, {text + " without " + r.KeyText, true}} {
		if d, err := s.keyOfAddress(r, client, c.fallback); err == nil && d == key {
			if !c.fallback && r.recipe.isGlobal() {
				return kindNames[kindGlobal]
			}
			return c.name
		}
	}
	return KeyID(key)
}

func (r *Recipe) isGlobal() bool { return len(r.parts) == 1 && r.parts[0].IsGlobal() }

// addressPart returns what of the address of client is a key of r, or stands in
// for one.
func (s *Set) addressPart(r *Rule, client netip.Addr) []byte {
	a := Attribute{kind: kindIP}
	if r.recipe.parts[0].IsIP() {
		a = r.recipe.parts[0]
	}
	part, _ := appendAddr(nil, client, int(a.bits), r.recipe.ipv6Bits)
	return part
}

var errNoAddress = errors.New("no key of an address")

// keyOfAddress returns the key that client has under r, if that is an address
// alone or the same for all, or the fallback.
func (s *Set) keyOfAddress(r *Rule, client netip.Addr, fallback bool) (limit.Digest, error) {
	one := r.recipe.parts[0]
	if !fallback && (len(r.recipe.parts) > 1 || !one.IsIP() && !one.IsGlobal()) {
		return limit.Digest{}, errNoAddress
	}
	key := append(r.recipe.begin(nil), tagKey)
	if fallback {
		key, one = append(r.recipe.begin(nil), tagFallback, 0), Attribute{kind: kindIP}
	}
	key, is := r.recipe.appendPart(key, one, &Facts{Client: client}, nil)
	if is != present {
		return limit.Digest{}, errNoAddress
	}
	return r.recipe.digest(s.secret, key), nil
}

// FindKey returns the digest of the key of r that values name: one for each part
// of the key, in its order, as a request would have them; an id; or, with missing,
// the address of a client that has not got the key. A part that is the same for all
// has no value. Its error says what to write instead.
func (s *Set) FindKey(r *Rule, values []string, missing bool) (limit.Digest, error) {
	if len(values) == 1 && strings.HasPrefix(values[0], idMark) {
		var b [16]byte
		if n, err := hex.Decode(b[:], []byte(values[0][len(idMark):])[:min(32, len(values[0])-len(idMark))]); err != nil || n != 16 || len(values[0]) != len(idMark)+32 {
			return limit.Digest{}, fmt.Errorf("an id is %s and 32 hexadecimal digits", idMark)
		}
		return limit.Digest{Hi: binary.BigEndian.Uint64(b[:8]), Lo: binary.BigEndian.Uint64(b[8:])}, nil
	}
	if missing {
		if len(values) != 1 {
			return limit.Digest{}, errors.New("a client without the key is named by its address alone")
		}
		switch missing := r.recipe.missing; {
		case missing.policy == missingSkip || missing.policy == missingReject:
			return limit.Digest{}, fmt.Errorf("rule %q counts nobody without its key: missing: %v", r.Name, missing)
		case missing.policy == missingAttribute && missing.attr.IsGlobal(): // one counter, whoever it is
			key, _ := r.recipe.appendFallback(r.recipe.begin(nil), &Facts{}, nil)
			return r.recipe.digest(s.secret, key), nil
		}
		addr, err := r.recipe.parseClient(Attribute{kind: kindIP}, values[0])
		if err != nil {
			return limit.Digest{}, err
		}
		return s.keyOfAddress(r, addr, true)
	}
	key, left := append(r.recipe.begin(nil), tagKey), values
	for _, a := range r.recipe.parts {
		value := ""
		if !a.IsGlobal() {
			if len(left) == 0 {
				return limit.Digest{}, fmt.Errorf("the key of rule %q is %s; give a value for %v", r.Name, r.KeyText, a)
			}
			value, left = left[0], left[1:]
		}
		var err error
		if key, err = r.recipe.appendGiven(key, a, value); err != nil {
			return limit.Digest{}, err
		}
	}
	if len(left) > 0 {
		return limit.Digest{}, fmt.Errorf("the key of rule %q is %s; there are %d values too many", r.Name, r.KeyText, len(left))
	}
	return r.recipe.digest(s.secret, key), nil
}

// appendGiven appends a part of a key whose value somebody has written down.
func (r *Recipe) appendGiven(key []byte, a Attribute, value string) ([]byte, error) {
	if a.kind == kindIP {
		addr, err := r.parseClient(a, value)
		if err != nil {
			return nil, err
		}
		key, _ = r.appendPart(key, a, &Facts{Client: addr}, nil)
		return key, nil
	}
	var text []byte
	switch {
	case a.IsGlobal():
	case a.named():
		text = appendFolded(nil, []byte(value))
	case a.kind == kindHost:
		host, err := NormalHost(value)
		if err != nil {
			return nil, fmt.Errorf("%q is no host: %w", value, err)
		}
		text = []byte(host)
	case a.kind == kindPath:
		normal := NormalPath
		if r.loose {
			normal = LoosePath
		}
		path, err := normal(value)
		if err != nil {
			return nil, fmt.Errorf("%q is no path: %w", value, err)
		}
		text = []byte(path)
	case r.loose && a.kind == kindPathName:
		text = []byte(foldCase(value))
	default:
		text = []byte(value)
	}
	if !a.IsGlobal() && isBlank(text) {
		return nil, fmt.Errorf("an empty %v is a missing key", a)
	}
	n := len(text)
	key = append(key, byte(a.kind), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	return append(key, text...), nil
}

// parseClient reads an address, or the prefix that makes one client by a. One that
// holds several is refused: whoever blocks 10.0.0.0/8 would block one address.
func (r *Recipe) parseClient(a Attribute, text string) (netip.Addr, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("%q is no IP address", text)
		}
		return addr, nil
	}
	addr, each := p.Addr(), "address"
	part, _ := appendAddr(nil, addr, int(a.bits), r.ipv6Bits)
	if len(part) == 0 || p.Bits() >= int(part[0]) {
		return addr, nil
	}
	if bits := int(part[0]); bits < addr.BitLen() {
		each = fmt.Sprintf("/%d", bits)
	}
	return netip.Addr{}, fmt.Errorf("%s is many clients, and the rule counts each %s by itself; give one, or refuse all of them with block: in the file", text, each)
}

// ByAddress reports whether KeyName names every key of r that a request has.
func (s *Set) ByAddress(r *Rule) bool {
	return len(r.recipe.parts) == 1 && (r.recipe.parts[0].IsIP() || r.recipe.parts[0].IsGlobal())
}

// KeyText returns the key that f has under r as text, and whether it may be shown:
// it may not if the client writes a part of it as it likes, for that may be a
// secret. The rule must apply to f.
func (s *Set) KeyText(r *Rule, f *Facts) (string, bool) {
	w := s.byRule.way(r.Index, f)
	if w == nil {
		return "", false
	}
	lack := r.recipe.lack(f, w) != ""
	var parts []string
	for _, k := range r.recipe.parted(f, w, lack) {
		if k.Attribute.ClientChosen() || k.Attribute.kind > kindBasic {
			return "", false
		}
		parts = append(parts, shortenName(quoteOdd(k.Value)))
	}
	text := strings.Join(parts, " + ")
	if lack {
		text += " without " + r.KeyText
	}
	return text, text != ""
}

// shortenName returns what of a name is worth showing.
func shortenName(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
