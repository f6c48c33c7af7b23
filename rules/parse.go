package rules

import (
	"crypto/sha256"
	"strings"
)

// parser reads the settings of a file.
type parser struct {
	*source
	file *File
	top  *section
	// compared is how much work comparing matches with each other has been.
	compared int
	asked    Facts // scratch for it
	owners   []int
	always   []*RuleSpec // some of the rules that apply to every request
	homeless bool        // some route wants an upstream, and there is none
	// hashes are the values of hash by upstream, insecure those of insecure that
	// are true.
	hashes   map[string]*node
	insecure []*node
	// blind, unless it is nil, says that secrets are not to be read, and takes the
	// nodes that hold one.
	blind       map[*node]bool
	secretFiles []string // what is not read then
	listens     []*node  // as file.Listen
	idleTLS     []*node  // settings of tls that nothing needs
	redacted    []*node  // as file.Log.Redact

	// named are the places of groups in the file by name, used those that
	// something asks for; when groupsBroken some may be missing, and when
	// membersBroken something of what they list.
	claimed                     bool    // something asks for a claim of a token
	ofProxies                   []*node // what looks at headers that only a trusted peer may set
	named                       map[string]int
	used                        map[string]bool
	groupsBroken, membersBroken bool
}

// Parse reads a configuration file as Outside.Parse does, with nothing outside.
func Parse(name string, data []byte) (*File, error) { return Outside{}.Parse(name, data) }

// Parse reads a configuration file, and those that it includes. name is what errors
// call it: the path as the
// user gave it. It looks at nothing but data and what of o data names, never
// panics, and takes well under a second and 128 MB whatever data holds.
//
// The error is an ErrorList of everything that is wrong, sorted; there is no
// File then. Warnings are in the File.
func (o Outside) Parse(name string, data []byte) (*File, error) {
	s, text := readSource(o, name, data)
	if len(s.errs) > 0 {
		return nil, s.errors()
	}
	root := s.tree(text)
	if root != nil {
		file := Defaults()
		p := &parser{source: s, file: &file, used: map[string]bool{}}
		p.read(root)
		if len(s.errs) == 0 {
			file.Name, file.Hash, file.data = name, hashOfAll(data, s.included), data
			file.included, file.listed = s.included, s.listed
			p.warnings()
			file.Warnings = s.warnings()
			return &file, nil
		}
	}
	return nil, s.errors()
}

// FindAdmin returns the admin listener that a file asks for, also when something
// else in it is wrong; and the default when it cannot be read.
func (o Outside) FindAdmin(name string, data []byte) Admin {
	file := Defaults()
	s, text := readSource(o, name, data)
	if len(s.errs) > 0 {
		return file.Admin
	}
	if root := s.tree(text); root != nil {
		p := &parser{source: s, file: &file, used: map[string]bool{}}
		p.read(root)
	}
	return file.Admin
}

// read reads the whole file into p.file. Upstreams and groups come before the
// routes that name them, and what rules inherit before the rules.
func (p *parser) read(root *node) {
	if root.shape != mapping {
		hint := settingHint(root.text)
		if strings.ContainsAny(root.text, "{;") {
			hint = "gateway import makes rules of another proxy's file"
		}
		p.misshapen(root, hint, "a file", "settings, like upstream: http://localhost:3000")
		return
	}
	p.top = p.section(root, partFile, "the file", "")
	p.top.check()
	p.fingerprint(root)

	if v := p.top.get("version"); v != nil {
		if n, ok := p.whole(v, "version", 1, maxNumber); ok && n != 1 {
			p.failAt(v, "write version: 1", "version %s: this is a later format than this version reads", quote(v.text))
		}
	}
	p.public()
	p.process()
	if v := p.top.get("jwt"); v != nil {
		p.jwt(v)
	}
	if v := p.top.get("groups"); v != nil {
		p.groups(v)
	} else {
		p.groupsBroken = p.top.has("groups")
	}
	p.where()
	p.who()
	if v := p.top.get("paths"); v != nil {
		form := ""
		p.oneOf(v, "paths", pathForms, &form)
		if p.file.LoosePaths = form == "loose"; p.file.LoosePaths {
			p.file.Block = p.file.Block.loosened()
		}
	}
	if v := p.top.get("reject"); v != nil {
		p.file.Reject = p.reject(v, p.file.Reject, "")
	}
	if v := p.top.get("rules"); v != nil {
		p.rules(v)
	} else if p.top.lacks("rules") {
		p.fail(1, 0, 1, "add rules:, or rules: [] for none", "no rules")
	}
	p.redactable()
}

// fingerprint remembers what each setting says, to tell later what has changed.
func (p *parser) fingerprint(root *node) {
	p.file.settings = make(map[string]string, len(root.keys))
	for i, key := range root.keys {
		if key.text == "rules" {
			continue // of which more is said, rule by rule
		}
		var b strings.Builder
		root.items[i].canonical(&b)
		sum := sha256.Sum256([]byte(b.String()))
		p.file.settings[key.text] = string(sum[:])
	}
}

// public reads what the public side is.
func (p *parser) public() {
	if v := p.top.get("listen"); v != nil {
		p.listen(v)
	}
	if v := p.top.get("tls"); v != nil {
		p.tls(v)
		p.listening()
	}
	if v := p.top.get("timeouts"); v != nil {
		p.timeouts(v)
	}
	if v := p.top.get("limits"); v != nil {
		p.limits(v)
	}
	if v := p.top.get("body_limit"); v != nil {
		p.size(v, "body_limit", &p.file.BodyLimit, 1, 1<<30)
	}
	if v := p.top.get("ratelimit_headers"); v != nil {
		p.oneOf(v, "ratelimit_headers", rateLimitHeaders, &p.file.RateLimitHeaders)
	}
}

func (p *parser) listen(n *node) {
	p.file.Listen = nil
	if n.shape == sequence && len(n.items) == 0 {
		p.failAt(n, "leave it out for :8080, or with tls :443", "listen is empty")
	}
	first := map[string]Pos{}
	for _, item := range p.oneOrMore(n, "listen") {
		text, ok := p.textLike(item, "listen", "an address like :8080")
		if !ok {
			continue
		}
		addr, err := parseAddress(text)
		if err != nil {
			p.failText(item, "listen", err)
			continue
		}
		if pos, twice := first[addr]; twice {
			p.failAt(item, "remove one", "listen %s is there twice; the first is at %s", quote(text), pos)
			continue
		}
		first[addr] = p.posOf(item)
		p.show(item)
		if addr == p.file.Admin.Addr && !p.top.has("admin") {
			p.failAt(item, "use another address, or give admin one", "listen %s: the admin listener has this address", quote(text))
		}
		p.file.Listen = append(p.file.Listen, Listen{Addr: addr, Pos: p.posOf(item)})
		p.listens = append(p.listens, item)
	}
}

func (p *parser) timeouts(n *node) {
	c := p.section(n, partTimeouts, "timeouts", " in timeouts")
	c.check()
	t := &p.file.Timeouts
	if v := c.get("read_header"); v != nil {
		p.duration(v, "read_header", &t.ReadHeader)
	}
	if v := c.get("read"); v != nil {
		p.duration(v, "read", &t.Read)
	}
	if v := c.get("write"); v != nil {
		p.duration(v, "write", &t.Write)
	}
	if v := c.get("idle"); v != nil {
		p.duration(v, "idle", &t.Idle)
	}
	if v := c.get("tunnel"); v != nil {
		p.duration(v, "tunnel", &t.Tunnel)
	}
}

func (p *parser) limits(n *node) {
	c := p.section(n, partLimits, "limits", " in limits")
	c.check()
	l := &p.file.Limits
	if v := c.get("header_bytes"); v != nil {
		p.size(v, "header_bytes", &l.HeaderBytes, 1<<10, 16<<20)
	}
	if v := c.get("headers"); v != nil {
		if count, ok := p.whole(v, "headers", 1, 10_000); ok {
			l.Headers = int(count)
		}
	}
	if v := c.get("url"); v != nil {
		p.size(v, "url", &l.URL, 64, 1<<20)
	}
	p.connections(c, "connections", "auto", &l.Connections)
	p.connections(c, "connections_per_ip", "none", &l.ConnectionsPerIP)
}

// connections reads a number of connections, or the word that stands for what
// holds without it.
func (p *parser) connections(c *section, name, word string, to *int64) {
	v := c.get(name)
	switch {
	case v == nil || v.shape == scalar && v.text == word:
	case v.shape == scalar && v.word == wordText:
		p.failAt(v, "write a number, or "+word, "%s %s: not a number of connections", name, quote(v.text))
	default:
		if n, ok := p.whole(v, name, 1, maxNumber); ok {
			*to = n
		}
	}
}

// process reads what concerns the process as a whole.
func (p *parser) process() {
	if v := p.top.get("shutdown_timeout"); v != nil {
		p.duration(v, "shutdown_timeout", &p.file.ShutdownTimeout)
	}
	if v := p.top.get("shutdown_delay"); v != nil {
		p.duration(v, "shutdown_delay", &p.file.ShutdownDelay)
	}
	if v := p.top.get("max_keys"); v != nil {
		if n, ok := p.whole(v, "max_keys", 1000, maxNumber); ok {
			p.file.MaxKeys = n
		}
	}
	if v := p.top.get("max_memory"); v != nil {
		p.size(v, "max_memory", &p.file.MaxMemory, 16<<20, 1<<50)
	}
	p.state()
	if v := p.top.get("store"); v != nil {
		p.store(v)
	}
	if v := p.top.get("overload"); v != nil {
		p.overload(v)
	}
	if v := p.top.get("admin"); v != nil {
		p.admin(v)
	}
	if v := p.top.get("log"); v != nil {
		p.log(v)
	}
}

// where reads where requests go.
func (p *parser) where() {
	short, named := p.top.get("upstream"), p.top.get("upstreams")
	switch {
	case p.top.has("upstream") && p.top.has("upstreams"):
		p.failAt(p.top.key("upstream"), "name it under upstreams", "upstream beside upstreams")
	case p.top.has("upstream") && p.top.has("routes"):
		p.failAt(p.top.key("upstream"), "name it under upstreams", "upstream beside routes")
	}
	if short != nil {
		p.upstream(short)
	}
	if named != nil {
		p.upstreams(named)
	}
	defer p.hashNames()
	if v := p.top.get("routes"); v != nil {
		p.routes(v)
		if p.homeless && p.top.lacks("upstream") && p.top.lacks("upstreams") {
			p.fail(1, 0, 1, "add upstreams: { api: http://localhost:3000 }", "no upstream")
		}
		return
	}
	switch {
	case !p.top.has("routes") && p.top.lacks("upstream") && p.top.lacks("upstreams"):
		p.fail(1, 0, 1, "add upstream: http://localhost:3000", "no upstream")
	case p.top.has("routes"), short != nil && named != nil:
	case len(p.file.Upstreams) == 1:
		only := p.file.Upstreams[0]
		p.file.Routes = []RouteSpec{{Name: "/**", Upstream: only.Name, Pos: only.Pos}}
	case len(p.file.Upstreams) > 1:
		p.failAt(p.top.key("upstreams"), "add routes: that name them", "no routes, but %d upstreams", len(p.file.Upstreams))
	}
}

// who reads which clients are special.
func (p *parser) who() {
	if v := p.top.get("ipv6_prefix"); v != nil {
		if n, ok := p.whole(v, "ipv6_prefix", 32, 128); ok {
			p.file.IPv6Prefix = int(n)
		}
	}
	if v := p.top.get("trusted_proxies"); v != nil {
		if v.shape == sequence {
			if len(v.items) > 0 {
				p.file.TrustedProxies = p.prefixes(v, "trusted_proxies")
			}
		} else {
			hint := ""
			if v.text == "private" || isPrefix(v.text) {
				hint = "write [" + quoteIPv6(v.text) + "]"
			}
			p.misshapen(v, hint, "trusted_proxies", "a list, like [10.0.0.0/8]")
		}
	}
	if v := p.top.get("proxy_protocol"); v != nil {
		p.file.ProxyProtocol = p.boolean(v, "proxy_protocol")
		if p.file.ProxyProtocol && (p.top.lacks("trusted_proxies") || p.top.isEmptyList("trusted_proxies")) {
			p.failAt(p.top.key("proxy_protocol"), "name your balancers: trusted_proxies: [10.0.0.0/8]",
				"proxy_protocol without trusted_proxies: nobody could connect")
		}
	}
	if v := p.top.get("exempt"); v != nil {
		p.file.Exempt = p.match(v, "exempt")
	}
	if v := p.top.get("block"); v != nil {
		p.file.Block = p.match(v, "block")
		if p.file.Block != nil && p.file.Block.Everything() {
			p.failAt(v, "", "block matches every request")
		}
	}
}
