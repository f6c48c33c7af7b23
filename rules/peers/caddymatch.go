package peers

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gateway/rules"
)

// caddyMatchers returns what a set of matchers takes: on the line of d, or in its block,
// all of which must hold.
func caddyMatchers(d *directive) (match, error) {
	lines := d.block
	if len(d.words) > 1 {
		lines = []*directive{{file: d.file, line: d.line, words: d.words[1:], block: d.block, open: d.open}}
	}
	all := everything()
	for _, one := range lines {
		if len(one.words) == 0 {
			return nil, errors.New("a block without a matcher")
		}
		m, err := caddyMatcher(one)
		if err != nil {
			return nil, err
		}
		var ok bool
		if all, ok = all.and(m); !ok {
			return nil, errors.New("too many conditions")
		}
	}
	return all, nil
}

func caddyMatcher(d *directive) (match, error) {
	args := d.args()
	none := fmt.Errorf("matcher %s has no equal here", oneLine(d.String()))
	switch d.name() {
	case "path":
		return caddyPaths(args...)
	case "not":
		m, err := caddyMatchers(d)
		return everything().without(m), err
	case "method":
		var all []string
		for _, a := range args {
			all = append(all, strings.ToUpper(a))
		}
		if len(all) > 0 {
			return is("method", all...), nil
		}
	case "host":
		var all []string
		for _, a := range args {
			all = append(all, strings.ToLower(a))
		}
		if len(all) > 0 {
			return is("host", all...), nil
		}
	case "remote_ip", "client_ip":
		var all []string
		for _, a := range args {
			if a == "private_ranges" {
				a = "private"
			}
			if _, err := rules.ParsePrefix(a); err != nil {
				return nil, none
			}
			all = append(all, a)
		}
		if len(all) > 0 {
			return is("ip", all...), nil
		}
	case "header":
		switch {
		case len(args) == 1 && strings.HasPrefix(args[0], "!"):
			return everything().without(is("header."+headerName(args[0][1:]), "*")), nil
		case len(args) == 1:
			return is("header."+headerName(args[0]), "*"), nil
		case len(args) > 1:
			return is("header."+headerName(args[0]), args[1:]...), nil
		}
	case "query":
		all := match{}
		for _, a := range args {
			name, value, ok := strings.Cut(a, "=")
			if !ok || name == "" {
				return nil, none
			}
			all = append(all, is("query."+name, value)...)
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	return nil, none
}

// caddyPaths takes the paths that one of some patterns takes. A * at the end of one is
// any text.
func caddyPaths(patterns ...string) (match, error) {
	var all []string
	for _, p := range patterns {
		text, prefix := strings.CutSuffix(p, "*")
		switch {
		case p == "*" || p == "/*":
			return everything(), nil
		case !strings.HasPrefix(p, "/") || strings.ContainsAny(text, "*{"):
			return nil, fmt.Errorf("path %s has no equal here", oneLine(p))
		case prefix:
			all = append(all, beginning(text))
		default:
			all = append(all, pathText(p))
		}
	}
	if len(all) == 0 {
		return nil, errors.New("path of nothing")
	}
	return is("path", all...), nil
}

var placeholder = regexp.MustCompile(`\{[^{}\s]+\}`)

// caddyKey sets the key of a rule from a text with placeholders.
func caddyKey(r *imported, text string) error {
	for _, place := range placeholder.FindAllString(text, -1) {
		a := caddyAttribute(strings.Trim(place, "{}"))
		if a == "" {
			return fmt.Errorf("placeholder %s has no equal here", place)
		}
		if !slices.Contains(r.key, a) {
			r.key = append(r.key, a)
		}
	}
	chosen := slices.ContainsFunc(r.key, func(a string) bool { return strings.Contains(a, ".") })
	if chosen && !slices.Contains(r.key, "ip") {
		r.missing = "global"
		r.comment("missing: Caddy counts all requests without the key together")
	}
	return nil
}

// caddyAttribute returns what we call a placeholder.
func caddyAttribute(name string) string {
	switch name {
	case "client_ip", "remote_host", "remote", "http.request.remote.host", "http.request.remote", "http.vars.client_ip", "http.request.client_ip":
		return "ip"
	case "host", "hostport", "http.request.host", "http.request.hostport":
		return "host"
	case "method", "http.request.method":
		return "method"
	case "path", "uri", "http.request.uri.path", "http.request.uri", "http.request.orig_uri.path":
		return "path"
	case "http.auth.user.id":
		return "basic.username"
	}
	for prefix, family := range map[string]string{
		"header.": "header.", "http.request.header.": "header.", "query.": "query.", "http.request.uri.query.": "query.",
		"cookie.": "cookie.", "http.request.cookie.": "cookie.",
	} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			if family == "header." {
				rest = headerName(rest)
			}
			return family + rest
		}
	}
	return ""
}
