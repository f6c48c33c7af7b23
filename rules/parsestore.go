package rules

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// storePrefix is what names of keys may begin with.
var storePrefix = lazily(`^[A-Za-z0-9._-]{1,24}$`)

// storeURLPattern is what a url looks like to an editor.
const storeURLPattern = `(?:redis|valkey)s?://(?:[^/?#@]*@)?[^/?#@,:]+(?::[0-9]{1,5})?(?:/[0-9]*)?|rediss?-sentinel://(?:[^/?#@]*@)?[^/?#@]+/[^/?#]+(?:/[0-9]*)?`

// The least and the most that a decision may wait for a store.
const (
	leastStoreTimeout = time.Millisecond
	mostStoreTimeout  = 5 * time.Second
)

// store reads memory, or {redis: …}.
func (p *parser) store(n *node) {
	if n.shape != mapping {
		text, ok := p.textLike(n, "store", "memory or { redis: … }")
		switch {
		case !ok || text == "memory":
		case text == "redis" || strings.Contains(text, "://"):
			p.failAt(n, "write store: { redis: { url: \"redis://10.0.0.5:6379\", replicas: 2 } }", "store: the store is a map")
		default:
			p.failAt(n, didYouMean(text, []string{"memory"}), "store %s: must be memory or { redis: … }", quote(text))
		}
		return
	}
	c := p.section(n, partStore, "store", " in store")
	c.check()
	v := c.get("redis")
	if v == nil {
		if c.lacks("redis") {
			p.failAt(n, "add redis: { url: \"redis://10.0.0.5:6379\", replicas: 2 }, or write store: memory", "store: where?")
		}
		return
	}
	p.redis(v)
}

func (p *parser) redis(n *node) {
	if n.shape == scalar {
		p.failAt(n, `write { url: "redis://10.0.0.5:6379", replicas: 2 }`, "redis must be a map of settings")
		return
	}
	c := p.section(n, partRedis, "redis", " in redis")
	c.check()
	if n.shape != mapping {
		return
	}
	s := &StoreSpec{Timeout: 50 * time.Millisecond, Prefix: "gw", Pos: p.posOf(n)}
	p.file.Store = s
	if v := c.get("url"); v != nil {
		p.storeURLs(v, s)
	} else if c.lacks("url") {
		p.failAt(n, "add url: \"redis://10.0.0.5:6379\"", "redis without url")
	}
	if v := c.get("password"); v != nil {
		if s.Password.IsSet() {
			p.failAt(c.key("password"), "keep one of the two", "password, and one in url")
		}
		s.Password = p.secret(v, "password")
	}
	if v := c.get("ca"); v != nil {
		if s.CA = p.filePath(v, "ca"); !s.TLS && len(s.Addrs) > 0 {
			p.failAt(c.key("ca"), "write rediss://", "ca for a store that is spoken to without TLS")
		}
	}
	if v := c.get("timeout"); v != nil {
		p.duration(v, "timeout", &s.Timeout)
		if s.Timeout < leastStoreTimeout || s.Timeout > mostStoreTimeout {
			p.failAt(v, "50ms is usual: each request waits for it", "timeout %s: must be from 1ms to 5s", durationText(s.Timeout))
		}
	}
	if v := c.get("prefix"); v != nil {
		if text, ok := p.textLike(v, "prefix", "text like gw"); ok {
			if s.Prefix = text; !storePrefix().MatchString(text) {
				p.failAt(v, "it is 1 to 24 of A-Z, a-z, 0-9, ., - and _", "prefix %s: not one", quote(text))
			}
		}
	}
	if v := c.get("replicas"); v != nil {
		if count, ok := p.whole(v, "replicas", 1, 100_000); ok {
			s.Replicas = count
		}
	} else if c.lacks("replicas") {
		p.failAt(n, "add replicas: and how many gateways share the store; while it is away each counts with its part of a limit", "redis without replicas")
	}
	if s.Replicas == 0 {
		s.Replicas = 1 // which is an error by now
	}
}

// storeURLs reads the url of a store, or those of the nodes of a cluster.
func (p *parser) storeURLs(n *node, s *StoreSpec) {
	first := map[string]Pos{}
	items := p.oneOrMore(n, "url")
	if n.shape == sequence && len(n.items) == 0 {
		p.failAt(n, "name a server: redis://10.0.0.5:6379", "url is empty")
	}
	for i, item := range items {
		text, ok := p.textLike(item, "url", "a URL like redis://10.0.0.5:6379")
		if !ok {
			continue
		}
		one, err := parseStoreURL(text)
		if err != nil {
			msg, hint := item.origin.hide("url: "+err.Msg, err.Hint)
			if e := p.fail(item.line(), item.col(), 1, hint, "%s", msg); strings.ContainsAny(text, "@?") {
				e.excerpt = "" // it may hold a password
			}
			continue
		}
		if one.password == "" {
			p.show(item)
		} else if item.origin == nil {
			p.warnAt(item, "write password: { file: … }, { env: … } or { credential: … }", "a password stands in this file: whoever reads the file has it")
		}
		if one.password != "" && p.blind != nil {
			p.blind[item] = true
		}
		switch {
		case i == 0:
			s.Master, s.TLS, s.DB, s.Username = one.master, one.tls, one.db, one.username
			if one.password != "" {
				s.Password = Secret{Pos: p.posOf(item), value: &one.password}
			}
		case s.Master != "" || one.master != "":
			p.failAt(item, "write the sentinels in one url: redis-sentinel://a:26379,b:26379/name", "several urls are nodes of a cluster, which has no sentinels")
		case one.tls != s.TLS || one.username != s.Username || one.password != s.Password.Reveal() && one.password != "":
			p.failAt(item, "write all in the same way", "url: the nodes of a cluster are spoken to in one way")
		}
		if len(items) > 1 && one.db != 0 {
			p.failAt(item, "leave the number out", "url: a cluster has one database")
		}
		for _, a := range one.addrs {
			if pos, twice := first[a]; twice {
				p.failAt(item, "remove one", "url: %s is there twice; the first is at %s", a, pos)
				continue
			}
			first[a] = p.posOf(item)
			s.Addrs = append(s.Addrs, a)
		}
	}
}

// storeURL is what one url says.
type storeURL struct {
	addrs              []string
	master             string
	tls                bool
	db                 int
	username, password string
}

// parseStoreURL reads a url. No error repeats it, since it may hold a password.
func parseStoreURL(text string) (s storeURL, err *TextError) {
	const like = "write it like redis://10.0.0.5:6379, rediss://redis.internal, or redis-sentinel://a:26379,b:26379/name"
	scheme, rest, ok := strings.Cut(text, "://")
	port, sentinel := "6379", false
	switch scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		s.tls = true
	case "redis-sentinel":
		port, sentinel = "26379", true
	case "rediss-sentinel":
		port, sentinel, s.tls = "26379", true, true
	default:
		ok = false
	}
	if !ok {
		return s, &TextError{Msg: "not the URL of a store", Hint: like}
	}
	rest, path, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(rest+path, "?#") {
		return s, &TextError{Msg: "it holds a ? or #", Hint: "leave out what follows it; in a password write %3F or %23"}
	}
	hosts := rest
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, cause := url.Parse("redis://" + rest[:i] + "@host")
		if cause != nil {
			return s, &TextError{Msg: "its password cannot be read", Hint: "write what is no letter or digit as % and two hexadecimal digits, or give password: apart"}
		}
		s.username = user.User.Username()
		s.password, _ = user.User.Password()
		hosts = rest[i+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, ok := storeAddr(host, port)
		if !ok {
			return s, &TextError{Msg: "no host and port in it", Hint: like}
		}
		s.addrs = append(s.addrs, addr)
	}
	if len(s.addrs) > 1 && !sentinel {
		return s, &TextError{Msg: "several servers in one", Hint: `write the nodes of a cluster as a list: ["redis://a:6379", "redis://b:6379"]`}
	}
	if sentinel {
		if s.master, path, _ = strings.Cut(path, "/"); s.master == "" {
			return s, &TextError{Msg: "no name of what the sentinels look after", Hint: "write it behind the servers: redis-sentinel://a:26379,b:26379/name"}
		}
	}
	if path != "" {
		db, cause := strconv.Atoi(path)
		if cause != nil || db < 0 || db > 65_535 {
			return s, &TextError{Msg: "what follows the server is the number of a database", Hint: "write it like redis://10.0.0.5:6379/0, or leave it out"}
		}
		s.db = db
	}
	return s, nil
}

// storeAddr returns host:port of a host that may have a port.
func storeAddr(host, port string) (string, bool) {
	if h, p, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		return host, err == nil && n > 0 && h != ""
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.ContainsAny(host, " []") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// countable reports a rule that the store of the file cannot count.
func (p *parser) countable(c *section, r *RuleSpec) {
	if !r.shares(p.file.Store) {
		return
	}
	for plan := range r.plans() {
		if plan.Rate.Permits == 0 && plan.Concurrency == 0 {
			continue // which is an error by now
		}
		if _, err := r.numbers(plan, nil); err != nil {
			continue
		}
		if _, err := r.shared(plan, "", "", nil); err == nil {
			continue
		}
		const hint = "add store: memory to the rule, and each gateway counts it by itself"
		plain := *r
		plain.Penalty = PenaltySpec{}
		if _, err := plain.shared(plan, "", "", nil); err == nil {
			p.failAt(c.key("penalty"), hint, "penalty: so large a number in so long a period: the store cannot count it")
		} else {
			p.fail(plan.LimitPos.Line, plan.LimitPos.Col, 1, hint, "limit %s: so large a number in so long a period: the store cannot count it", quote(plan.Limit))
		}
		return
	}
}
