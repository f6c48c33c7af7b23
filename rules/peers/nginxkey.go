package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// nginxMap is a map or geo block: the value of a variable by that of others.
type nginxMap struct {
	at      *directive
	geo     bool
	source  string
	entries []mapEntry
	other   string // default
}

type mapEntry struct{ key, value string }

// piece is a part of a value: text, or an attribute of ours.
type piece struct{ text, attribute string }

// way is one value that a text with variables may have, and when it has it.
type way struct {
	when   match
	pieces []piece
}

// keyWay is one key that a zone may have, and when it has it.
type keyWay struct {
	when       match
	attributes []string // none is one counter for all
	missing    string
	comments   []string
}

// defineMap reads a map or geo block.
func (n *nginx) defineMap(d *directive) {
	m := &nginxMap{at: d, geo: d.name() == "geo"}
	args := d.args()
	switch {
	case m.geo && len(args) == 1:
		m.source = "$remote_addr"
	case len(args) == 2:
		m.source = args[0]
	default:
		return
	}
	for _, one := range d.block {
		switch name := one.name(); {
		case name == "volatile" || name == "hostnames":
		case name == "default" && len(one.words) == 2:
			m.other = one.words[1]
		case m.geo && (name == "ranges" || name == "proxy" || name == "delete" || name == "proxy_recursive"):
			n.note(one.file, one.line, "%s in geo: not imported", one)
		case len(one.words) == 2:
			m.entries = append(m.entries, mapEntry{name, one.words[1]})
		}
	}
	n.maps[strings.TrimPrefix(args[len(args)-1], "$")] = m
}

var variableName = regexp.MustCompile(`\$(?:\{([A-Za-z0-9_]+)\}|([A-Za-z0-9_]+))`)

// keys returns the keys that a zone counts by; none where it counts nothing.
func (n *nginx) keys(text string) ([]keyWay, error) {
	ways, err := n.ways(text, 0)
	if err != nil {
		return nil, err
	}
	var all []keyWay
	for _, w := range ways {
		k := keyWay{when: w.when}
		empty := true
		for _, p := range w.pieces {
			empty = empty && p.text == "" && p.attribute == ""
			if p.attribute != "" && !slices.Contains(k.attributes, p.attribute) {
				k.attributes = append(k.attributes, p.attribute)
			}
		}
		if empty {
			continue // nginx limits no request with an empty key
		}
		chosen := func(a string) bool { return strings.Contains(a, ".") }
		switch {
		case slices.Contains(k.attributes, "ip"):
			k.comments = append(k.comments, "nginx counts each IPv6 address by itself, ours each /64 (ipv6_prefix)")
		case !slices.ContainsFunc(k.attributes, chosen):
		case len(k.attributes) == 1:
			k.missing = "skip"
		default:
			k.missing = "skip"
			k.comments = append(k.comments, "nginx counts by what of the key there is; ours passes requests that lack a part of it")
		}
		same := func(other keyWay) bool { return slices.Equal(other.attributes, k.attributes) }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].when = append(all[i].when, k.when...)
		} else {
			all = append(all, k)
		}
	}
	return all, nil
}

// ways returns the values that a text may have.
func (n *nginx) ways(text string, depth int) ([]way, error) {
	if depth > 10 {
		return nil, errors.New("maps use each other over 10 deep")
	}
	all := []way{{when: everything()}}
	add := func(more []way) error {
		var next []way
		for _, a := range all {
			for _, b := range more {
				when, ok := a.when.and(b.when)
				if !ok || len(next) > maxClauses {
					return errors.New("too many cases")
				}
				next = append(next, way{when, slices.Concat(a.pieces, b.pieces)})
			}
		}
		all = next
		return nil
	}
	plain := func(text string) error {
		if text == "" {
			return nil
		}
		return add([]way{{everything(), []piece{{text: text}}}})
	}
	from := 0
	for _, at := range variableName.FindAllStringSubmatchIndex(text, -1) {
		if err := plain(text[from:at[0]]); err != nil {
			return nil, err
		}
		from = at[1]
		name := strings.Trim(text[at[0]:at[1]], "${}")
		more, err := n.variable(name, depth)
		if err != nil {
			return nil, err
		}
		if err := add(more); err != nil {
			return nil, err
		}
	}
	return all, plain(text[from:])
}

// variable returns the values of a variable.
func (n *nginx) variable(name string, depth int) ([]way, error) {
	if m := n.maps[name]; m != nil {
		return n.mapped(m, depth)
	}
	if a := attributeOf(name); a != "" {
		return []way{{everything(), []piece{{attribute: a}}}}, nil
	}
	return nil, fmt.Errorf("variable $%s has no equal here", name)
}

// attributeOf returns what we call a variable of nginx.
func attributeOf(name string) string {
	dashed := func(text string) string { return strings.ReplaceAll(text, "_", "-") }
	switch name {
	case "binary_remote_addr", "remote_addr", "proxy_protocol_addr", "realip_remote_addr":
		return "ip"
	case "host", "http_host", "server_name":
		return "host"
	case "uri", "document_uri", "request_uri":
		return "path"
	case "request_method":
		return "method"
	case "remote_user":
		return "basic.username"
	}
	for prefix, family := range map[string]string{"http_": "header.", "arg_": "query.", "cookie_": "cookie."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			if family == "header." {
				rest = headerName(dashed(rest))
			}
			return family + rest
		}
	}
	return ""
}

// headerName writes the name of a header as it usually is.
func headerName(name string) string {
	parts := strings.Split(strings.ToLower(name), "-")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "-")
}

// mapped returns the values that a map may have.
func (n *nginx) mapped(m *nginxMap, depth int) ([]way, error) {
	sources, err := n.ways(m.source, depth+1)
	if err != nil {
		return nil, err
	}
	var all []way
	for _, s := range sources {
		var more []way
		switch {
		case m.geo:
			more, err = n.geo(m, s, depth)
		default:
			more, err = n.look(m, s, depth)
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); len(all) > maxClauses {
			return nil, errors.New("too many cases")
		}
	}
	return all, nil
}

// valueOf adds the values of text where s holds as well.
func (n *nginx) valueOf(s match, text string, depth int) ([]way, error) {
	ways, err := n.ways(text, depth+1)
	for i := range ways {
		var ok bool
		if ways[i].when, ok = s.and(ways[i].when); !ok {
			return nil, errors.New("too many cases")
		}
	}
	return ways, err
}

// look returns the values that a map has for one of its source.
func (n *nginx) look(m *nginxMap, s way, depth int) ([]way, error) {
	text, attribute := "", ""
	for _, p := range s.pieces {
		if attribute != "" {
			return nil, fmt.Errorf("the map of %s has no equal here", m.source)
		}
		text, attribute = text+p.text, p.attribute
	}
	if attribute == "" {
		return n.lookText(m, s, text, depth)
	}
	var all []way
	var taken match // by the entries so far
	add := func(when match, value string, whole piece) error {
		here, ok := s.when.and(when.without(taken))
		if !ok {
			return errors.New("too many cases")
		}
		taken = append(taken, when...)
		if whole.attribute != "" && (value == "$1" || value == "${1}") {
			all = append(all, way{here, []piece{whole}})
			return nil
		}
		more, err := n.valueOf(here, value, depth)
		all = append(all, more...)
		return err
	}
	for _, first := range []bool{true, false} { // texts come before regular expressions
		for _, e := range m.entries {
			if strings.HasPrefix(e.key, "~") == first {
				continue
			}
			when, whole, ok, err := entryMatch(e.key, text, attribute)
			if err != nil {
				return nil, fmt.Errorf("the entry %q of the map of %s: %w", e.key, m.source, err)
			}
			if !ok {
				continue
			}
			if err := add(when, e.value, whole); err != nil {
				return nil, err
			}
		}
	}
	return all, add(everything(), m.other, piece{})
}

// lookText returns the value that a map has for a text.
func (n *nginx) lookText(m *nginxMap, s way, text string, depth int) ([]way, error) {
	for _, e := range m.entries {
		if strings.EqualFold(strings.TrimPrefix(e.key, `\`), text) && !strings.HasPrefix(e.key, "~") {
			return n.valueOf(s.when, e.value, depth)
		}
	}
	for _, e := range m.entries {
		pattern, ok := strings.CutPrefix(e.key, "~")
		if !ok {
			continue
		}
		if folded, ok := strings.CutPrefix(pattern, "*"); ok {
			pattern = "(?i)" + folded
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("the entry %q of the map of %s: %w", e.key, m.source, err)
		}
		if found := re.FindStringSubmatch(text); found != nil {
			value := e.value
			for i, group := range found {
				value = strings.ReplaceAll(value, fmt.Sprintf("$%d", i), strings.ReplaceAll(group, "$", ""))
			}
			return n.valueOf(s.when, value, depth)
		}
	}
	return n.valueOf(s.when, m.other, depth)
}

// wholeCapture is a regular expression that takes all of what comes after a text.
var wholeCapture = regexp.MustCompile(`^\^([A-Za-z0-9:_/|.@-]*)(?:\((\.[+*])\)|(\.[+*]))\$?$`)

// entryMatch returns when a source, text and then an attribute, is what the entry of
// a map is for; false if it never is. whole is what $1 stands for.
func entryMatch(key, text, attribute string) (when match, whole piece, ok bool, err error) {
	pattern, isRegexp := strings.CutPrefix(key, "~")
	if !isRegexp {
		key = strings.TrimPrefix(key, `\`)
		rest, begins := strings.CutPrefix(key, text)
		if !begins {
			return nil, piece{}, false, nil
		}
		when, err := isValue(attribute, rest)
		return when, piece{}, err == nil, err
	}
	found := wholeCapture.FindStringSubmatch(pattern)
	if found == nil || strings.Contains(found[1], ".") {
		return nil, piece{}, false, errors.New("a regular expression has no equal here")
	}
	switch begin := found[1]; {
	case begin == text:
		if found[2]+found[3] == ".+" {
			when, err = present(attribute)
		} else {
			when = everything()
		}
		return when, piece{attribute: attribute}, err == nil, err
	case strings.HasPrefix(begin, text) || strings.HasPrefix(text, begin):
		return nil, piece{}, false, errors.New("a regular expression has no equal here")
	}
	return nil, piece{}, false, nil
}

// present takes requests in which the attribute is not empty.
func present(attribute string) (match, error) {
	if strings.Contains(attribute, ".") && !strings.HasPrefix(attribute, "basic.") {
		return is(attribute, "*"), nil
	}
	return everything(), nil
}

// isValue takes requests in which an attribute is a text.
func isValue(attribute, text string) (match, error) {
	switch {
	case text == "":
		there, err := present(attribute)
		return everything().without(there), err
	case attribute == "ip":
		if _, err := netip.ParseAddr(text); err != nil {
			return nil, errors.New("not an address")
		}
	case attribute == "path":
		if !strings.HasPrefix(text, "/") {
			return nil, errors.New("not a path")
		}
		return is("path", pathText(text)), nil
	case attribute == "host":
		text = strings.ToLower(text)
	case attribute == "method":
		text = strings.ToUpper(text)
	case strings.HasPrefix(attribute, "basic."):
		return nil, errors.New("no rule can be matched by a user's name")
	case !literal(text):
		return nil, errors.New("a * is no text here")
	}
	return is(attribute, text), nil
}

// geo returns the values that a geo block has. Of two networks in which an address is,
// the smaller one says.
func (n *nginx) geo(m *nginxMap, s way, depth int) ([]way, error) {
	if len(s.pieces) != 1 || s.pieces[0].attribute != "ip" {
		return nil, errors.New("geo of anything but the client's address has no equal here")
	}
	type network struct {
		prefix netip.Prefix
		value  string
	}
	var all []network
	for _, e := range m.entries {
		p, err := netip.ParsePrefix(e.key)
		if a, other := netip.ParseAddr(e.key); err != nil && other == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q in geo: not a network", e.key)
		}
		all = append(all, network{p.Masked(), e.value})
	}
	var ways []way
	var listed []string
	values := []string{}
	for _, one := range all {
		listed = append(listed, one.prefix.String())
		if !slices.Contains(values, one.value) {
			values = append(values, one.value)
		}
	}
	for _, value := range values {
		var when match
		for _, one := range all {
			if one.value != value {
				continue
			}
			var inner []string
			for _, other := range all {
				if other.value != value && other.prefix.Bits() > one.prefix.Bits() && one.prefix.Contains(other.prefix.Addr()) {
					inner = append(inner, other.prefix.String())
				}
			}
			m := is("ip", one.prefix.String())
			if len(inner) > 0 {
				m = m.without(is("ip", inner...))
			}
			when = append(when, m...)
		}
		here, ok := s.when.and(when)
		if !ok {
			return nil, errors.New("too many networks")
		}
		more, err := n.valueOf(here, value, depth)
		if err != nil {
			return nil, err
		}
		ways = append(ways, more...)
	}
	rest := everything()
	if len(listed) > 0 {
		rest = rest.without(is("ip", listed...))
	}
	here, ok := s.when.and(rest)
	if !ok {
		return nil, errors.New("too many networks")
	}
	more, err := n.valueOf(here, m.other, depth)
	return append(ways, more...), err
}
