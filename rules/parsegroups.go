package rules

import (
	"crypto/sha256"
	"slices"
	"strings"
)

var groupName = lazily(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

const (
	// maxGroups is how many groups a file may have.
	maxGroups = 10_000
	// maxMembers is how many attributes a group may look at.
	maxMembers = 100
	// maxTiers is how many tiers a rule may have, and how many groups it may know.
	maxTiers = 100
)

// groups reads the named sets of clients.
func (p *parser) groups(n *node) {
	p.named = map[string]int{}
	if n.shape != mapping {
		p.wrongShape(n, "groups", "a map of names, like premium: { header.X-API-Key: [abc] }")
		p.groupsBroken = true
		return
	}
	if len(n.keys) == 0 {
		p.failAt(n, "remove it", "groups is empty")
	}
	if len(n.keys) > maxGroups {
		p.failAt(n.keys[maxGroups], "", "more than %d groups", maxGroups)
		p.groupsBroken = true
		return
	}
	before := len(p.errs)
	for i, key := range n.keys {
		g := Group{Name: key.text, Pos: p.posOf(key)}
		if !groupName().MatchString(key.text) {
			p.failAt(key, "a name is letters, digits, ., _ and -, and begins with a letter or digit", "group %s: not a name", quote(key.text))
		}
		p.members(&g, key, n.items[i])
		p.named[g.Name] = len(p.file.Groups)
		p.file.Groups = append(p.file.Groups, g)
	}
	p.groupsBroken, p.membersBroken = n.partial, len(p.errs) > before
}

// members reads what a group holds: attributes and their values.
func (p *parser) members(g *Group, name, n *node) {
	const want = "a map of attributes, like header.X-API-Key: [abc]"
	what := "group " + quote(g.Name)
	switch {
	case n.isNull() || n.shape == mapping && len(n.keys) == 0:
		p.failAt(name, "give it members, like ip: [192.0.2.0/24]", "%s is empty", what)
		return
	case n.shape != mapping:
		p.wrongShape(n, what, want)
		return
	}
	if len(n.keys) > maxMembers {
		p.failAt(n.keys[maxMembers], "", "%s looks at more than %d attributes", what, maxMembers)
		return
	}
	for i, key := range n.keys {
		value := n.items[i]
		a, ok := p.groupAttribute(key, what)
		switch {
		case !ok:
			continue
		case value.isNull():
			p.failAt(key, "give it values, or remove the line", "%s in %s has no value", quote(key.text), what)
			continue
		case slices.ContainsFunc(g.Members, func(m Members) bool { return m.Attribute == a }):
			p.failAt(key, "put all its values into one list", "%s has %s twice", what, quote(key.text))
			continue
		}
		m := Members{Attribute: a}
		if value.shape == mapping {
			m.File = p.groupFile(value, key.text, what)
		} else {
			m.values = p.memberValues(value, key.text, a)
		}
		g.Members = append(g.Members, m)
	}
}

// groupAttribute reads what a group looks at.
func (p *parser) groupAttribute(key *node, what string) (Attribute, bool) {
	if key.text == "file" {
		p.failAt(key, "name an attribute: header.X-API-Key: { file: … }", "%s: file holds values, of what is not said", what)
		return Attribute{}, false
	}
	a, err := ParseAttribute(key.text)
	if err != nil {
		line, col, width := p.within(key, err.Off, err.Len)
		msg := err.Msg
		if !strings.HasPrefix(msg, quote(key.text)+" ") && !strings.HasPrefix(msg, "unknown attribute ") {
			msg = quote(key.text) + ": " + msg
		}
		p.fail(line, col, width, err.Hint, "%s in %s", msg, what)
		return a, false
	}
	switch {
	case a.kind == kindIP && a.bits > 0:
		p.failAt(key, "write ip: with CIDRs", "%s in %s: a group holds addresses and CIDRs", quote(key.text), what)
	case a.kind == kindGlobal, a.kind == kindPathName, a.kind == kindRoute:
		p.failAt(key, "use what tells clients apart, like ip or header.<Name>", "%s in %s says nothing of a client", quote(key.text), what)
	default:
		p.looksAt(key, a)
		return a, true
	}
	return a, false
}

// groupFile reads {file: …}. It does not look at that file.
func (p *parser) groupFile(n *node, name, what string) FilePath {
	c := p.section(n, partGroupFile, quote(name)+" in "+what, " in "+what)
	c.check()
	if v := c.get("file"); v != nil {
		return p.filePath(v, "file")
	}
	if c.lacks("file") {
		p.failAt(n, "write a list of values, or { file: … }", "no file for %s in %s", quote(name), what)
	}
	return FilePath{}
}

// memberValues reads values that stand in the file itself.
func (p *parser) memberValues(n *node, name string, a Attribute) *valueSet {
	b := newValueSetBuilder(a)
	if n.shape == sequence && len(n.items) == 0 {
		p.failAt(n, "", "%s: an empty list holds nobody", name)
	}
	for _, item := range p.oneOrMore(n, name) {
		if p.full() {
			break
		}
		text, ok := p.text(item, name)
		if !ok {
			continue
		}
		if err := b.add(text); err != nil {
			p.failText(item, name, err)
		}
	}
	set := b.done()
	var text strings.Builder
	n.canonical(&text)
	set.sum = sha256.Sum256([]byte(text.String()))
	return set
}

// groupNamed reads the name of a group, and notes that it is used.
func (p *parser) groupNamed(n *node, what string) (string, bool) {
	text, ok := p.textLike(n, what, "the name of a group")
	if !ok {
		return "", false
	}
	return text, p.isGroup(n, text, what)
}

// isGroup reports whether there is a group called text, which stands at n.
func (p *parser) isGroup(n *node, text, what string) bool {
	if i, ok := p.named[text]; ok {
		g := &p.file.Groups[i]
		p.used[g.Name] = true
		if what != "known" && slices.ContainsFunc(g.Members, func(m Members) bool { return m.Attribute.InBody() }) {
			p.failAt(n, "only known of a rule that is keyed on the field can ask for it",
				"%s: group %s holds fields of the body, which is read later", what, quote(text))
			return false
		}
		return true
	}
	if p.groupsBroken || p.incomplete || p.full() {
		return false
	}
	names := make([]string, min(100, len(p.file.Groups))) // more to choose from would take its time
	for i := range names {
		names[i] = p.file.Groups[i].Name
	}
	hint := didYouMean(text, names)
	switch {
	case hint != "":
	case len(p.file.Groups) == 0:
		hint = "the file has no groups: add groups: { " + quoteless(text) + ": { ip: [192.0.2.0/24] } }"
	case len(names) <= 5:
		hint = "there is " + strings.Join(names, ", ")
	}
	p.failAt(n, hint, "%s: unknown group %s", what, quote(text))
	return false
}

// quoteless returns a name for a hint: text, if it can be the name of a group.
func quoteless(text string) string {
	if groupName().MatchString(text) {
		return text
	}
	return "premium"
}

// warnGroups says which groups nothing asks for.
func (p *parser) warnGroups() {
	for _, g := range p.file.Groups {
		if !p.used[g.Name] {
			p.warn(g.Pos, len(g.Name), "name it in tiers, known, match, exempt or block", "group %s is not used", quote(g.Name))
		}
	}
}
