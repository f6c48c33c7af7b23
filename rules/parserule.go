package rules

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/limit"
)

var (
	ruleName     = lazily(`^[a-z0-9][a-z0-9_-]{0,62}$`) // see isRuleName
	upstreamName = lazily(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
)

// rules reads the list of rules.
func (p *parser) rules(n *node) {
	if n.shape == mapping {
		hint := `begin each rule with a dash: "- name: per-ip"`
		if len(n.keys) > 0 && strings.HasPrefix(n.keys[0].text, "-") {
			hint = `after "-" a space is missing`
		}
		p.misshapen(n, hint, "rules", "a list")
		return
	}
	items := p.list(n, "rules")
	named := 0
	for _, item := range items {
		if item.key("name") != nil {
			named++
		}
	}
	first := make(map[string]*node, named)
	list := slices.Grow(p.file.Rules, named) // they are large, and are neither to be moved as they become more, nor copied
	var nameless RuleSpec
	var pauses pauses
	for i, item := range items {
		pauses.step()
		r, n := &nameless, len(list)
		if n < cap(list) {
			r = &list[:n+1][n]
		}
		p.readRule(item, i, r)
		p.rule = ""
		if r.Name == "" {
			continue
		}
		at := item.named("name")
		if before := first[r.Name]; before != nil {
			p.rule = r.Name
			p.failAt(at, "counters belong to a name; give each rule its own", "rule name %s is used twice; the first is at %s", quote(r.Name), p.posOf(before))
			p.rule = ""
			continue
		}
		first[r.Name] = at
		list = list[:n+1]
	}
	p.file.Rules = list
}

// isRuleName reports whether ruleName takes text, which takes less time so.
func isRuleName(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || i > 0 && (c == '-' || c == '_')) {
			return false
		}
	}
	return 0 < len(text) && len(text) <= 63
}

// named returns the value of a setting of a map, or the map itself.
func (n *node) named(name string) *node {
	for i, key := range n.keys {
		if key.text == name {
			return n.items[i]
		}
	}
	return n
}

// readRule reads the rule number i, counted from 0, into r.
func (p *parser) readRule(n *node, i int, r *RuleSpec) {
	*r = RuleSpec{
		MatchText: "/**", Algorithm: tokenBucket, Fail: "local", MaxKeys: p.file.MaxKeys, Reject: p.file.Reject, Pos: p.posOf(n),
	}
	name := n.named("name")
	where := ""
	if name != n && name.shape == scalar && isRuleName(name.text) {
		r.Name, where = name.text, " in rule "+quote(name.text)
		p.rule = r.Name
	} else {
		where = " in rule " + strconv.Itoa(i+1)
	}
	if n.shape != mapping {
		p.misshapen(n, settingHint(n.text), "a rule", "a map of settings")
		return
	}
	c := &section{source: p.source, node: n, part: partRule, where: where} // of which there are so many that none is to be left behind
	c.check()
	p.ruleName(c, r.Name, where)
	if v := c.get("match"); v != nil {
		r.Match, r.MatchText = p.match(v, "match"), matchText(v)
		if p.file.LoosePaths {
			r.Match = r.Match.loosened()
		}
		if v.shape == sequence && len(v.items) == 0 {
			p.failAt(v, "leave it out to take every request", "match: an empty list matches nothing")
		}
	}
	if v := c.get("algorithm"); v != nil {
		p.oneOf(v, "algorithm", algorithms, &r.Algorithm)
	}
	if v := c.get("dry_run"); v != nil {
		r.DryRun = p.boolean(v, "dry_run")
	}
	if v := c.get("max_keys"); v != nil {
		if keys, ok := p.whole(v, "max_keys", 1000, maxNumber); ok {
			r.MaxKeys = keys
		}
	}
	if v := c.get("reject"); v != nil {
		r.Reject = p.reject(v, r.Reject, where)
	}
	p.key(c, r)
	p.calendar(c, r)
	p.maxWait(c, r)
	p.numbers(c, r, where)
	p.tiers(c, r)
	p.candidate(c, r)
	p.known(c, r)
	p.costs(c, r)
	p.penalty(c, r)
	p.turns(c, r)
	if v := c.get("store"); v != nil {
		if text, ok := p.textLike(v, "store", "memory"); ok && text != "memory" {
			p.failAt(v, "write store: memory, or leave it out for the file's store", "store %s: a rule has only memory for itself", quote(text))
		}
		r.InProcess = true
	}
	p.countable(c, r)
}

// ruleName reports a name that is missing or bad.
func (p *parser) ruleName(c *section, name, where string) {
	const want = "a name is 1 to 63 of a-z, 0-9, - and _, beginning with a letter or digit"
	v := c.get("name")
	switch {
	case c.lacks("name"):
		p.failAt(c.node, "add name: …", "no name%s", where)
	case v != nil && name == "":
		if text, ok := p.text(v, "name"); ok {
			p.failAt(v, want, "name %s: not a name", quote(text))
		}
	}
}

// key reads key and missing.
func (p *parser) key(c *section, r *RuleSpec) {
	r.KeyPos = r.Pos
	at := c.node
	if v := c.get("key"); v != nil {
		at = v
		r.KeyPos = p.posOf(v)
		r.Key = p.keyParts(v)
	}
	if len(r.Key) == 0 {
		r.Key = []Attribute{{kind: kindIP}}
	}
	if v := c.get("missing"); v != nil {
		if text, ok := p.text(v, "missing"); ok {
			missing, err := ParseMissing(text)
			if err != nil {
				p.failText(v, "missing", err)
			} else if a, is := missing.Attribute(); is && text != "ip" && slices.Contains(r.Key, a) {
				p.failAt(v, "name another attribute, or ip, skip or reject", "missing %s: it is what is missing", quote(text))
			} else {
				p.looksAt(v, missing.attr)
				r.Missing = missing
			}
		}
	}
	p.pathNames(r, at)
	if r.Match.OnlyGET() {
		for _, a := range r.Key {
			p.bodyOfGET(a, at)
		}
		p.bodyOfGET(r.Missing.attr, c.get("missing"))
	}
}

// bodyOfGET reports a field of the body as the key of requests that have none.
func (p *parser) bodyOfGET(a Attribute, at *node) {
	if a.InBody() {
		p.failAt(at, "take a value of the query, or match the method that has the body: POST /login",
			"%s: the rule matches only GET, which has no body", a)
	}
}

func (p *parser) keyParts(v *node) []Attribute {
	var parts []Attribute
	if v.shape == sequence && len(v.items) == 0 {
		p.failAt(v, "write global for one counter of all requests", "key: an empty list")
	}
	const most = 16
	if len(v.items) > most {
		p.failAt(v, "", "key: a list of %d attributes; the most is %d", len(v.items), most)
		return nil
	}
	for _, item := range p.oneOrMore(v, "key") {
		if item.shape == mapping && len(item.keys) == 1 && item.items[0].shape == scalar {
			hint := ""
			if family := item.keys[0].text; attributeNames[family] { // { header: X }
				hint = "write " + family + "." + item.items[0].text
			}
			p.misshapen(item, hint, "key", "text")
			continue
		}
		text, ok := p.text(item, "key")
		if !ok {
			continue
		}
		a, err := ParseAttribute(text)
		switch several := severalAttributes(text); {
		case several != nil:
			p.failAt(item, "write a list: ["+strings.Join(several, ", ")+"]", "key %s: more than one attribute", quote(text))
		case err != nil:
			p.failText(item, "key", err)
		case slices.Contains(parts, a):
			p.failAt(item, "remove it", "key %s is named twice", quote(text))
		default:
			p.looksAt(item, a)
			parts = append(parts, a)
		}
	}
	return parts
}

// severalAttributes returns the attributes that are written as one text, or nil.
func severalAttributes(text string) []string {
	all := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;+|&", r) })
	if len(all) < 2 || slices.ContainsFunc(all, func(one string) bool { return !namesAttribute(one) }) {
		return nil
	}
	return all
}

// namesAttribute reports whether text is an attribute.
func namesAttribute(text string) bool {
	_, err := ParseAttribute(text)
	return err == nil
}

// pathNames reports a path.<name> of the key that some pattern of the match does
// not have.
func (p *parser) pathNames(r *RuleSpec, at *node) {
	for _, name := range pathNames(r.Key, r.Missing) {
		switch without, ok := r.Match.Captures(name); {
		case ok:
		case without == "":
			p.failAt(at, "write a match with /:"+name+" in it", "path.%s: the rule has no match with :%s in it", name, name)
		case strings.HasPrefix(without, regexpMark):
			p.failAt(at, "write patterns with :"+name+" instead", "path.%s: a regular expression names no segment", name)
		default:
			p.failAt(at, "put :"+name+" into each pattern", "path.%s: pattern %s has no :%s", name, quote(without), name)
		}
	}
}

// numbers reads limit or concurrency, and burst, and makes sure that a Bucket can
// be made of them.
func (p *parser) numbers(c *section, r *RuleSpec, where string) {
	if v := c.get("concurrency"); v != nil {
		p.concurrency(c, v, r)
		return
	}
	p.rate(c, r, &r.PlanSpec, where)
}

// rate reads limit and burst.
func (p *parser) rate(c *section, r *RuleSpec, to *PlanSpec, where string) {
	limitNode, burstNode := c.get("limit"), c.get("burst")
	if c.lacks("limit") && c.lacks("concurrency") {
		p.failAt(c.node, "add limit: 100/m", "no limit%s", where)
	}
	if burstNode != nil {
		if r.Algorithm == leakyBucket {
			p.failAt(c.key("burst"), "remove it", "burst with leaky_bucket, which lets one request leave at a time")
		} else if !hasBurst(r.Algorithm) {
			p.failAt(c.key("burst"), "remove it", "burst with %s, which lets its whole limit through at once", r.Algorithm)
		} else if burst, ok := p.whole(burstNode, "burst", 1, maxNumber); ok {
			to.Burst, to.BurstGiven = burst, true
		}
	}
	if limitNode == nil {
		return
	}
	if limitNode.shape == sequence {
		p.misshapen(limitNode, "a rule has one limit; make two rules of it", "limit", "a rate like 100/m")
		return
	}
	text, ok := p.textLike(limitNode, "limit", "a rate like 100/m")
	if !ok {
		return
	}
	p.show(limitNode)
	read, zone := plainRate, (*limit.Zone)(nil)
	if c.has("calendar") || r.Zone != "" { // what is wrong with that has been said
		read, zone = calendarRate, limit.NewZone(time.UTC)
	}
	rate, err := read(text)
	if err != nil {
		p.failText(limitNode, "limit", err)
		return
	}
	to.Limit, to.Rate, to.LimitPos = text, rate, p.posOf(limitNode)
	if hasBurst(r.Algorithm) && !to.BurstGiven {
		to.Burst = rate.Permits
	}
	if r.Algorithm == leakyBucket {
		p.hasPlace(limitNode, r, to)
		return
	}
	if _, err := r.numbers(to, zone); err != nil {
		if burstNode == nil {
			burstNode = limitNode
		}
		p.failAt(burstNode, "", "limit %s with burst %d: the bucket would take over 100 years to fill", quote(text), to.Burst)
	}
}

// concurrency reads how many requests may be in progress, and reports what goes
// with a limit only.
func (p *parser) concurrency(c *section, v *node, r *RuleSpec) {
	r.Algorithm = concurrency
	p.slots(v, &r.PlanSpec)
	if c.has("limit") {
		p.failAt(c.key("limit"), "make two rules of it", "limit with concurrency: a rule counts one or the other")
	}
	if c.has("burst") {
		p.failAt(c.key("burst"), "remove it", "burst with concurrency: so many requests may be in progress, however they come")
	}
	if c.has("algorithm") {
		p.failAt(c.key("algorithm"), "remove it", "algorithm with concurrency: requests in progress are counted in one way")
	}
	if c.has("calendar") {
		p.failAt(c.key("calendar"), "remove it", "calendar with concurrency: requests in progress are counted whatever the date")
	}
	if c.has("max_wait") {
		p.failAt(c.key("max_wait"), "remove it", "max_wait with concurrency: nobody knows when a request ends")
	}
	for _, name := range []string{"limit", "burst", "algorithm"} {
		c.get(name) // read, so that nothing else is said about it
	}
}

// slots reads a number of requests in progress.
func (p *parser) slots(v *node, to *PlanSpec) {
	if n, ok := p.whole(v, "concurrency", 1, maxNumber); ok {
		to.Concurrency, to.LimitPos = n, p.posOf(v)
		to.Limit = strconv.FormatInt(n, 10)
	}
}
