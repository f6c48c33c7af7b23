package rules

import "strings"

// plainReader reads what most files consist of, a setting or an item in each line and
// what is in brackets, into the nodes that decode makes of what yaml.v3 reads, which
// takes ten times as long. At the first thing that is anything else (a text of
// several lines, an escape, an anchor, nothing for a value, a mistake) it gives up, and yaml.v3
// reads all of the file: it alone says what is wrong. FuzzPlainYAML compares the two.
type plainReader struct {
	*converter
	at     int    // the line that is read, counted from 0
	text   string // what is in it
	col    int    // where what comes next begins, in bytes; -1 after the last line
	values int
	parts  []*node // of the lists and maps that are being read
	varies []*node // with a $ in them
	// shares says that texts may be parts of that of the file. Those of rules, which are
	// most, live no longer than it does; others may, and would keep it in memory.
	shares bool
}

// readPlain returns the root of the file, or nil if yaml.v3 is to read it.
func (c *converter) readPlain() *node {
	r := plainReader{converter: c, at: -1, values: 1}
	if r.line(); r.text == "---" {
		r.line()
	}
	if r.col != 0 {
		return nil
	}
	root := r.mapping(0)
	if root == nil || r.col >= 0 {
		return nil
	}
	for _, n := range r.varies {
		c.substitute(n)
	}
	return root
}

// line goes to the next line that says something.
func (r *plainReader) line() {
	for r.at++; r.at < len(r.lines); r.at++ {
		r.text = r.lines[r.at]
		if r.col = spaces(r.text); r.col < len(r.text) && r.text[r.col] != '#' {
			return
		}
	}
	r.col, r.text = -1, ""
}

// spaces returns with how many spaces text begins.
func spaces(text string) int {
	for i := range len(text) {
		if text[i] != ' ' {
			return i
		}
	}
	return len(text)
}

// ends passes over spaces and reports whether the line has nothing more to say.
func (r *plainReader) ends() bool {
	before := r.col
	r.col += spaces(r.text[r.col:])
	return r.col == len(r.text) || r.text[r.col] == '#' && r.col > before
}

// begin returns a node for what begins here, or nil where that is too much.
func (r *plainReader) begin(s shape, depth int) *node {
	if r.values++; r.values >= maxValues || depth > maxDepth {
		return nil
	}
	n := r.node(r.at+1, r.col+1)
	n.shape = s
	return n
}

// isItem reports whether an item of a list begins here.
func (r *plainReader) isItem() bool {
	rest := r.text[r.col:]
	return strings.HasPrefix(rest, "- ") || rest == "-"
}

// block reads a list or a map that begins here.
func (r *plainReader) block(depth int) *node {
	if r.isItem() {
		return r.sequence(depth)
	}
	return r.mapping(depth)
}

// sequence reads a list whose first item begins here, an item a line.
func (r *plainReader) sequence(depth int) *node {
	indent, first, n := r.col, len(r.parts), r.begin(sequence, depth)
	for n != nil && r.col == indent && r.isItem() {
		r.col++
		var item *node
		switch {
		case r.ends():
			if r.line(); r.col > indent {
				item = r.block(depth + 1)
			}
		case r.isItem():
			item = r.sequence(depth + 1)
		case r.isSetting():
			item = r.mapping(depth + 1)
		default:
			item = r.value(depth + 1)
		}
		if item == nil || r.col > indent {
			return nil
		}
		r.parts = append(r.parts, item)
	}
	return r.end(n, first)
}

// isSetting reports whether the rest of the line is a setting, if it is anything that
// is read here.
func (r *plainReader) isSetting() bool {
	rest := r.text[r.col:]
	return strings.IndexByte(`"'[{`, rest[0]) < 0 && (strings.Contains(rest, ": ") || strings.HasSuffix(rest, ":"))
}

// mapping reads a map whose first setting begins here, a setting a line.
func (r *plainReader) mapping(depth int) *node {
	r.pauses.step()
	indent, first, n := r.col, len(r.parts), r.begin(mapping, depth)
	names := names{}
	for n != nil && r.col == indent {
		key := r.key(false)
		if key == nil || names.has(r.parts[first:], key.text) {
			return nil
		}
		if depth == 0 {
			r.shares = key.text == "rules"
		}
		var value *node
		if !r.ends() {
			value = r.value(depth + 1)
		} else if r.line(); r.col > indent || r.col == indent && r.isItem() {
			value = r.block(depth + 1)
		}
		if value == nil || r.col > indent {
			return nil
		}
		r.parts = append(r.parts, key, value)
	}
	return r.end(n, first)
}

// end gives n, a list or a map, the parts from first on.
func (r *plainReader) end(n *node, first int) *node {
	if n == nil {
		return nil
	}
	parts := r.parts[first:]
	r.parts = r.parts[:first]
	if n.shape == sequence {
		n.items = r.list(len(parts))
		for _, item := range parts {
			n.add(nil, item)
		}
		return n
	}
	n.keys, n.items = r.list(len(parts)/2), r.list(len(parts)/2)
	for i := 0; i < len(parts); i += 2 {
		n.add(parts[i], parts[i+1])
	}
	return n
}

// names are those of a map, to find one that is there twice.
type names map[string]bool

// has reports whether name is one of a map of which parts are read.
func (s *names) has(parts []*node, name string) bool {
	if len(parts) < 2*fewKeys {
		for i := 0; i < len(parts); i += 2 {
			if parts[i].text == name {
				return true
			}
		}
		return false
	}
	if len(*s) == 0 {
		*s = names{}
		for i := 0; i < len(parts); i += 2 {
			(*s)[parts[i].text] = true
		}
	}
	there := (*s)[name]
	(*s)[name] = true
	return there
}

// key reads a name and the colon after it.
func (r *plainReader) key(inBrackets bool) *node {
	k := r.begin(scalar, 0)
	if k == nil {
		return nil
	}
	if c := r.text[r.col]; c == '"' || c == '\'' {
		if !r.quoted(k) || r.col == len(r.text) || r.text[r.col] != ':' {
			return nil
		}
	} else if !r.name(k, inBrackets) {
		return nil
	}
	r.col++
	if r.col < len(r.text) && r.text[r.col] != ' ' {
		return nil
	}
	r.own(k)
	return k
}

// own makes the text of n a text by itself, unless it may be a part of the file's.
func (r *plainReader) own(n *node) {
	if !r.shares {
		n.text = strings.Clone(n.text)
	}
}

// name reads a name without quotes, up to the colon.
func (r *plainReader) name(k *node, inBrackets bool) bool {
	const most = 1000 // YAML has a bound for what may be a name
	from := r.col
	if !r.beginsPlain() || from == 0 && strings.HasPrefix(r.text, "...") { // which ends a document
		return false
	}
	for ; r.col < len(r.text) && r.col-from < most; r.col++ {
		switch c := r.text[r.col]; {
		case c == ':' && (r.col+1 == len(r.text) || r.text[r.col+1] == ' '):
			k.text = r.text[from:r.col]
			return k.text[len(k.text)-1] != ' ' && r.wordOf(k.text) != wordNull
		case c == '#', c < ' ', c >= 0x7f, inBrackets && strings.IndexByte(",[]{}?", c) >= 0:
			return false
		}
	}
	return false
}

// value reads what a line ends in.
func (r *plainReader) value(depth int) *node {
	n := r.inline(depth, false)
	if n == nil || !r.ends() {
		return nil
	}
	r.line()
	return n
}

// inline reads what begins here and does not go on in the next line, but in brackets.
func (r *plainReader) inline(depth int, inBrackets bool) *node {
	switch r.text[r.col] {
	case '{':
		return r.brackets(r.begin(mapping, depth), depth, '}')
	case '[':
		return r.brackets(r.begin(sequence, depth), depth, ']')
	}
	n := r.begin(scalar, depth)
	switch {
	case n == nil:
		return nil
	case r.text[r.col] == '"' || r.text[r.col] == '\'':
		if !r.quoted(n) {
			return nil
		}
	case !r.plain(n, inBrackets):
		return nil
	}
	r.own(n)
	if !r.foreign && strings.IndexByte(n.text, '$') >= 0 && (strings.Contains(n.text, "${") || strings.Contains(n.text, "$$")) {
		r.varies = append(r.varies, n)
	}
	return n
}

// brackets reads n, a list or a map, up to the bracket that closes it.
func (r *plainReader) brackets(n *node, depth int, closing byte) *node {
	r.pauses.step()
	first, names := len(r.parts), names{}
	for r.col++; n != nil && r.next(); {
		if r.text[r.col] == closing {
			r.col++
			return r.end(n, first)
		}
		if n.shape == mapping {
			key := r.key(true)
			if key == nil || names.has(r.parts[first:], key.text) || !r.next() {
				return nil
			}
			r.parts = append(r.parts, key)
		}
		item := r.inline(depth+1, true)
		if item == nil || !r.next() {
			return nil
		}
		r.parts = append(r.parts, item)
		if r.text[r.col] == ',' {
			r.col++
		} else if r.text[r.col] != closing {
			return nil
		}
	}
	return nil
}

// next goes to what comes next in brackets, perhaps in a line below. It is false where
// nothing does, or something not indented.
func (r *plainReader) next() bool {
	for r.ends() {
		if r.at++; r.at >= len(r.lines) {
			return false
		}
		r.text, r.col = r.lines[r.at], 0
		if r.text != "" && r.text[0] != ' ' {
			return false
		}
	}
	return true
}

// quoted reads a text in quotes that means what is written.
func (r *plainReader) quoted(n *node) bool {
	quote, from := r.text[r.col], r.col+1
	for i := from; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == quote:
			n.text, n.word, r.col = r.text[from:i], wordQuoted, i+1
			return quote == '"' || r.col == len(r.text) || r.text[r.col] != quote
		case c == '\\' && quote == '"', c < ' ', c >= 0x7f:
			return false
		}
	}
	return false
}

// plain reads a text without quotes.
func (r *plainReader) plain(n *node, inBrackets bool) bool {
	from := r.col
	if !r.beginsPlain() {
		return false
	}
	end := from
scan:
	for i := from; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == ' ':
			continue
		case c == '#' && r.text[i-1] == ' ', inBrackets && (c == ',' || c == '}' || c == ']'):
			break scan
		case c < ' ', c >= 0x7f, c == ':' && (i+1 == len(r.text) || r.text[i+1] == ' '):
			return false
		case inBrackets && (c == '[' || c == '{' || c == '?' || c == ':' && strings.IndexByte(",[]{}", r.text[i+1]) >= 0):
			return false
		}
		end = i + 1
	}
	n.text, r.col = r.text[from:end], end
	n.word = r.wordOf(n.text)
	return n.word != wordNull
}

// beginsPlain reports whether a text without quotes may begin here: letters, digits and
// a few signs may.
func (r *plainReader) beginsPlain() bool {
	c := r.text[r.col]
	if c == '-' && r.col+1 < len(r.text) {
		c = r.text[r.col+1]
		return isAlnum(c)
	}
	return isAlnum(c) || c == '/' || c == '.' || c == '_' || c == '$' || c == '+' || c == '('
}

// wordOf returns what YAML takes a text without quotes for.
func (r *plainReader) wordOf(text string) word {
	c := text[0]
	letter := 'a' <= c|0x20 && c|0x20 <= 'z'
	if c == '/' || c == '$' || c == '(' || c == '_' || letter && len(text) > len("false") || strings.IndexByte(text, '/') >= 0 {
		return wordText
	}
	if !letter && len(text) < 18 && text[0] != '0' && strings.Trim(text, "0123456789") == "" {
		return wordNumber
	}
	return yamlWord(text)
}
