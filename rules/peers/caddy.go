package peers

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/rules"
)

// caddy imports a Caddyfile.
type caddy struct {
	importer
	snippets map[string][]*directive
	bytes    int
}

// Caddy imports the rate_limit directives, of caddy-ratelimit, in a Caddyfile.
func Caddy(s Source) (*Result, error) {
	c := &caddy{importer: importer{program: "caddy", source: s}, snippets: map[string][]*directive{}}
	if strings.HasPrefix(strings.TrimSpace(string(s.Data)), "{\"") {
		return nil, fmt.Errorf("%s: this is JSON; a Caddyfile is read", s.Name)
	}
	all, err := c.parse(s, 0)
	if err != nil {
		return nil, err
	}
	var sites []*directive
	for _, d := range all {
		switch {
		case len(d.words) == 0:
			c.options(d.block)
		case d.open && strings.HasPrefix(d.name(), "(") && strings.HasSuffix(d.name(), ")"):
		case d.open && !strings.HasPrefix(d.name(), "&("):
			sites = append(sites, d)
		}
	}
	if len(sites) == 0 && slices.ContainsFunc(all, func(d *directive) bool { return len(d.words) > 0 && d.name() == "rate_limit" }) {
		sites = append(sites, &directive{file: s.Name, line: 1, words: []string{":80"}, block: all, open: true}) // a part of a Caddyfile
	}
	for _, site := range sites {
		var hosts []string
		whole := false
		for _, word := range site.words {
			for address := range strings.SplitSeq(word, ",") {
				if address == "" {
					continue
				}
				host := siteHost(address)
				whole = whole || host == ""
				hosts = append(hosts, host)
			}
		}
		when := everything()
		if !whole && len(hosts) > 0 {
			when = is("host", hosts...)
		}
		c.walk(site.block, when, map[string]match{}, map[string]error{}, 0)
	}
	return c.result()
}

// siteHost returns the host in the address of a site; "" for any.
func siteHost(address string) string {
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		rest = address
	}
	host, _, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.ToLower(host)
}

// parse reads a file, and puts what it imports in the place of import.
func (c *caddy) parse(s Source, depth int) ([]*directive, error) {
	if c.bytes += len(s.Data); c.bytes > maxSource {
		return nil, fmt.Errorf("%s: with all that it imports it is larger than 4 MiB", s.Name)
	}
	all, err := parseCaddy(s.Name, string(s.Data))
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if len(d.words) > 0 && d.open && strings.HasPrefix(d.name(), "(") {
			c.snippets[strings.Trim(d.name(), "()")] = d.block
		}
	}
	return c.imports(all, depth)
}

func (c *caddy) imports(all []*directive, depth int) ([]*directive, error) {
	var with []*directive
	for _, d := range all {
		if len(d.words) < 2 || d.name() != "import" {
			copied := *d
			var err error
			if copied.block, err = c.imports(d.block, depth); err != nil {
				return nil, err
			}
			with = append(with, &copied)
			continue
		}
		if depth > 10 {
			return nil, fmt.Errorf("%s:%d: imports are nested over 10 deep", d.file, d.line)
		}
		more, err := c.imported(d, depth)
		if err != nil {
			return nil, err
		}
		if with = append(with, more...); len(with) > 10_000 {
			return nil, fmt.Errorf("%s:%d: more than 10,000 lines are imported", d.file, d.line)
		}
	}
	return with, nil
}

var snippetArgument = regexp.MustCompile(`\{args(?:\.|\[)([0-9]{1,3})\]?\}`)

// imported returns what an import stands for.
func (c *caddy) imported(d *directive, depth int) ([]*directive, error) {
	if block, ok := c.snippets[d.words[1]]; ok {
		args := d.words[2:]
		if c.bytes += 64 * count(block); c.bytes > maxSource {
			return nil, fmt.Errorf("%s:%d: with all that it imports the file is too large", d.file, d.line)
		}
		return c.imports(filledBlock(block, args), depth+1)
	}
	if c.source.Read == nil {
		c.note(d.file, d.line, "%s: not read", d)
		return nil, nil
	}
	pattern := d.words[1]
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(d.file), pattern)
	}
	files, err := c.source.Read(pattern)
	if err != nil || len(files) == 0 {
		c.note(d.file, d.line, "%s: there is no such file or snippet", d)
	}
	var all []*directive
	for _, f := range files {
		more, err := c.parse(f, depth+1)
		if err != nil {
			c.note(d.file, d.line, "%s: %v", d, err)
			continue
		}
		all = append(all, more...)
	}
	return all, nil
}

func count(block []*directive) int {
	n := len(block)
	for _, d := range block {
		n += count(d.block)
	}
	return n
}

// filledBlock returns a copy of a snippet with its arguments filled in.
func filledBlock(block []*directive, args []string) []*directive {
	all := make([]*directive, len(block))
	for i, d := range block {
		one := *d
		one.words = make([]string, len(d.words))
		for j, w := range d.words {
			one.words[j] = snippetArgument.ReplaceAllStringFunc(w, func(place string) string {
				n, _ := strconv.Atoi(snippetArgument.FindStringSubmatch(place)[1])
				if n < len(args) {
					return args[n]
				}
				return ""
			})
		}
		one.block = filledBlock(d.block, args)
		all[i] = &one
	}
	return all
}

// options reads of the global options who may say who the client is.
func (c *caddy) options(block []*directive) {
	for _, d := range block {
		if len(d.words) > 2 && d.name() == "trusted_proxies" && d.words[1] == "static" {
			for _, peer := range d.words[2:] {
				if peer == "private_ranges" {
					peer = "private"
				}
				if _, err := rules.ParsePrefix(peer); err != nil {
					c.note(d.file, d.line, "%s: put %s into trusted_proxies", d, peer)
				} else if !slices.Contains(c.trusted, peer) {
					c.trusted = append(c.trusted, peer)
				}
			}
		}
		c.options(d.block)
	}
}

// walk looks for rate_limit in a block that takes the requests of when.
func (c *caddy) walk(block []*directive, when match, named map[string]match, broken map[string]error, depth int) {
	for _, d := range block {
		if len(d.words) > 0 && strings.HasPrefix(d.name(), "@") {
			m, err := caddyMatchers(d)
			named[d.name()], broken[d.name()] = m, err
		}
	}
	// takes returns the requests that go to a directive.
	takes := func(d *directive, without match) (match, bool) {
		own := everything()
		if len(d.words) > 1 {
			switch first := d.words[1]; {
			case strings.HasPrefix(first, "@"):
				if broken[first] != nil || named[first] == nil {
					err := broken[first]
					if err == nil {
						err = errors.New("there is no such matcher")
					}
					c.note(d.file, d.line, "%s: %v", d, err)
					return nil, false
				}
				own = named[first]
			case strings.HasPrefix(first, "/") || first == "*":
				m, err := caddyPaths(first)
				if err != nil {
					c.note(d.file, d.line, "%s: %v", d, err)
					return nil, false
				}
				own = m
			}
		}
		m, ok := when.and(own)
		if !ok {
			c.note(d.file, d.line, "%s: too many conditions for one rule", d)
			return nil, false
		}
		return m.without(without), true
	}
	for _, d := range block {
		if len(d.words) == 0 {
			continue
		}
		switch d.name() {
		case "rate_limit":
			if m, ok := takes(d, nil); ok {
				c.rateLimit(d, m)
			}
		case "route":
			if m, ok := takes(d, nil); ok {
				c.walk(d.block, m, cloned(named), broken, depth+1)
			}
		}
	}
	var before match
	for _, d := range handles(block) { // only the first that takes a request handles it
		m, ok := takes(d, before)
		if !ok {
			continue
		}
		c.walk(d.block, m, cloned(named), broken, depth+1)
		if own, ok := takes(d, nil); ok {
			before = append(before, own...)
		}
	}
}

func cloned(named map[string]match) map[string]match {
	all := make(map[string]match, len(named))
	for name, m := range named {
		all[name] = m
	}
	return all
}

// handles returns the handle directives in the order in which Caddy asks them: by the
// length of their path, then those with another matcher, then those without.
func handles(block []*directive) []*directive {
	var all []*directive
	for _, d := range block {
		if len(d.words) > 0 && (d.name() == "handle" || d.name() == "handle_path") {
			all = append(all, d)
		}
	}
	rank := func(d *directive) int {
		switch {
		case len(d.words) < 2:
			return 2
		case strings.HasPrefix(d.words[1], "/"):
			return -len(strings.TrimSuffix(d.words[1], "*"))
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *directive) int { return rank(a) - rank(b) })
	return all
}

// rateLimit makes a rule of each zone.
func (c *caddy) rateLimit(d *directive, when match) {
	jitter, zones := "", 0
	for _, one := range d.block {
		if len(one.words) == 0 {
			continue
		}
		switch one.name() {
		case "jitter":
			if share, err := strconv.ParseFloat(strings.Join(one.args(), ""), 64); err == nil && share > 0 && share <= 1 {
				jitter = strconv.Itoa(int(share*100+0.5)) + "%"
			}
		case "distributed", "storage":
			c.note(one.file, one.line, "%s: each gateway counts for itself, unless its store is shared", one.name())
		case "zone":
			zones++
		}
	}
	for _, one := range d.block {
		if len(one.words) == 0 || one.name() != "zone" {
			continue
		}
		r := c.zone(one, when)
		if r == nil {
			continue
		}
		r.jitter = jitter
		if zones > 1 {
			r.comment("Caddy charges the zones before the one that refuses; ours charges none")
		}
		name := "limit"
		if len(one.words) > 1 {
			name = one.words[1]
		}
		c.add(name, r)
	}
}

func (c *caddy) zone(d *directive, when match) *imported {
	r := &imported{file: d.file, line: d.line, from: d.String(), match: when, algorithm: "sliding_window_log"}
	var number rate
	key := ""
	for _, one := range d.block {
		if len(one.words) == 0 {
			continue
		}
		value := strings.Join(one.args(), " ")
		var err error
		switch one.name() {
		case "key":
			key = value
		case "events", "max_events":
			number.count, err = strconv.ParseInt(value, 10, 64)
		case "window":
			number.period, err = span(value)
		case "match":
			var m match
			if m, err = caddyMatchers(&directive{file: one.file, line: one.line, words: []string{"match"}, block: one.block, open: true}); err == nil {
				var ok bool
				if r.match, ok = r.match.and(m); !ok {
					err = errors.New("too many conditions for one rule")
				}
			}
		case "ipv6_prefix":
			if value != "64" {
				r.comment("ipv6_prefix %s: set ipv6_prefix, which is for all rules", value)
			}
		case "ipv4_prefix":
			if value != "32" {
				r.comment("ipv4_prefix %s: key ip/%s counts so many bits", value, value)
			}
		}
		if err != nil {
			c.note(one.file, one.line, "zone left out: %s: %v", one, err)
			return nil
		}
	}
	text, ok := number.text()
	if !ok {
		c.note(d.file, d.line, "%s left out: %d events in %v are no rate", d, number.count, number.period)
		return nil
	}
	r.limit = text
	if number.period%time.Second != 0 {
		r.comment("window %v: a time here is whole seconds, so that all of %s may come at once", number.period, text)
	}
	if err := caddyKey(r, key); err != nil {
		c.note(d.file, d.line, "%s left out: %v", d, err)
		return nil
	}
	if slices.Contains(r.key, "ip") && !slices.ContainsFunc(d.block, func(one *directive) bool { return len(one.words) > 0 && one.name() == "ipv6_prefix" }) {
		r.comment("Caddy counts each IPv6 address by itself, ours each /64 (ipv6_prefix)")
	}
	return r
}
