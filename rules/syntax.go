package rules

import (
	"strings"
	"unicode/utf8"
)

// explainSyntax reports what the YAML parser said about a line. The usual causes
// are looked for first, because the parser's own words help nobody and its line
// is often only near; they have a column.
func (s *source) explainSyntax(text string, line int) {
	open := ""
	if name, ok := strings.CutPrefix(text, "unknown anchor '"); ok {
		open = strings.TrimSuffix(name, "' referenced")
	}
	bad, last := s.badQuote(), len(s.lines)
	if bad != nil && bad.closed == bad.line {
		last = bad.line
	} else if bad != nil {
		last = bad.line - 1 // what follows is not what it looks like
	}
	json := s.isJSON()
	for n := max(1, line-1); n <= last; n++ {
		c := lineScan{line: s.line(n), alias: open, previous: s.before(n), json: json}
		if c.scan(); c.msg != "" {
			col := utf8.RuneCountInString(c.line[:c.at]) + 1
			s.fail(n, col, utf8.RuneCountInString(c.line[c.at:c.end]), c.hint, "%s", c.msg)
			return
		}
	}
	if bad != nil {
		s.failQuote(bad)
		return
	}
	if strings.Contains(text, "expected key") || strings.Contains(text, "'-' indicator") {
		if n, indent := s.oddIndent(line); n > 0 {
			s.fail(n, indent+1, 1, "", "this line is indented by %d, which fits none of the lines above it", indent)
			return
		}
	}
	s.fail(line, 0, 1, "", "this is no YAML: %s", plainWords(text))
}

// oddIndent returns the first line, from line on, that ends a list or map without
// going back to where something above it began; 0 if there is none.
func (s *source) oddIndent(line int) (n, indent int) {
	var begun []int // where the lists and maps began that are not over
	for i, text := range s.lines {
		rest := strings.TrimLeft(text, " ")
		if indent = len(text) - len(rest); rest == "" || rest[0] == '#' {
			continue
		}
		last := len(begun)
		for len(begun) > 0 && begun[len(begun)-1] > indent {
			begun = begun[:len(begun)-1]
		}
		ended := len(begun) < last
		if len(begun) == 0 || begun[len(begun)-1] < indent {
			if ended && i+1 >= line {
				return i + 1, indent
			}
			begun = append(begun, indent)
		}
		for at := indent; strings.HasPrefix(text[at:], "- "); {
			at += 2 + len(text[at+2:]) - len(strings.TrimLeft(text[at+2:], " "))
			begun = append(begun, at)
		}
	}
	return 0, 0
}

// plainWords says what the parser means.
func plainWords(text string) string {
	switch {
	case strings.Contains(text, "',' or ']'"):
		return `a list that begins with "[" is not closed with "]", or a comma is missing`
	case strings.Contains(text, "',' or '}'"):
		return `a map that begins with "{" is not closed with "}", or a comma is missing`
	case strings.Contains(text, "unexpected end of stream"): // should it not have been found
		return "a quote is not closed"
	case strings.Contains(text, "could not find expected ':'"):
		return `a line is neither "name: value" nor an item of a list`
	case strings.Contains(text, "did not find expected key"), strings.Contains(text, "'-' indicator"):
		return "a line is indented differently from those it belongs to"
	}
	return text
}

// isJSON reports whether the first thing in the file is a bracket, as in JSON.
func (s *source) isJSON() bool {
	for _, line := range s.lines {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			return text[0] == '{'
		}
	}
	return false
}

// settingHint says what to write instead of text that stands where settings should,
// as it does when they are written in another way.
func settingHint(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if m := keyGlued().FindStringSubmatch(first); m != nil && isSetting(m[1]) {
		return "write " + m[1] + ": " + first[len(m[1])+1:] + `, with a space after ":"`
	}
	if m := otherSetting().FindStringSubmatch(text); m != nil && isSetting(m[2]) && m[3] != ":" {
		return "write " + m[2] + ": and the value"
	}
	return ""
}

// before returns the last line before n that says something.
func (s *source) before(n int) string {
	for n--; n > 0; n-- {
		if text := strings.TrimSpace(s.line(n)); text != "" && text[0] != '#' {
			return s.line(n)
		}
	}
	return ""
}

// lineScan looks for the usual mistakes in one line. It reads YAML only as far
// as it must to find them.
type lineScan struct {
	line     string
	previous string // the last line before it that says something
	json     bool   // the file is JSON, in which people write comments
	alias    string // the alias nobody defined, if that is what is wrong

	at, end   int // what is wrong, in bytes
	msg, hint string
}

var (
	bareAddress = lazily(`^\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\](:\d+)?`)
	keyOnly     = lazily(`^[A-Za-z_][A-Za-z0-9_.-]*:[ \t]`)
	keyGlued    = lazily(`^([a-z0-9_]+):[^\s:/]`)
	// otherSetting is a setting with what people write before and after it.
	otherSetting = lazily(`^(-|(?:- ?)?\x{a0}+|)([a-z0-9_]+)[ \x{a0}]*(：|=|:(?:[ \t]|$))`)
)

func (c *lineScan) found(at, end int, msg, hint string) {
	if c.msg == "" {
		c.at, c.end, c.msg, c.hint = at, max(end, at+1), msg, hint
	}
}

func (c *lineScan) scan() {
	i := len(c.line) - len(strings.TrimLeft(c.line, " \t"))
	if i == len(c.line) || c.line[i] == '#' {
		return
	}
	if tab := strings.IndexByte(c.line[:i], '\t'); tab >= 0 {
		c.found(tab, tab+1, "a tab in the indentation", "YAML takes only spaces there")
		return
	}
	if strings.HasPrefix(c.line, "%YAML") {
		c.found(0, len(c.line), "a file of another version of YAML", "remove the line")
		return
	}
	if c.json && strings.HasPrefix(c.line[i:], "//") {
		c.found(i, len(c.line), "a comment begins with #", "")
		return
	}
	indent := i
	for strings.HasPrefix(c.line[i:], "- ") {
		i += 2
		i += len(c.line[i:]) - len(strings.TrimLeft(c.line[i:], " "))
	}
	if key := c.key(i); key > 0 {
		if c.deeperThanValue(indent) && i == indent {
			c.found(i, i+key-1, "this line is indented deeper than the one above it, which has its value already", "")
			return
		}
		i += key
		i += len(c.line[i:]) - len(strings.TrimLeft(c.line[i:], " \t"))
		c.value(i, len(c.line), true)
		return
	}
	if m := keyGlued().FindStringSubmatch(c.line[i:]); m != nil && isSetting(m[1]) {
		c.found(i, i+len(m[1])+1, `after "`+m[1]+`:" a space is missing`, "write "+m[1]+": "+strings.TrimSpace(c.line[i+len(m[1])+1:]))
		return
	}
	if c.unlikeYAML(i) {
		return
	}
	c.value(i, len(c.line), false)
}

// unlikeYAML finds a setting at i that is written as elsewhere: "-name: a" without
// the space of a list's item, "name = a", or with a space or colon that are not those
// of YAML though they look like them.
func (c *lineScan) unlikeYAML(i int) bool {
	m := otherSetting().FindStringSubmatch(c.line[i:])
	if m == nil || !isSetting(m[2]) {
		return false
	}
	dash, name, mark := m[1], m[2], m[3]
	end, msg := i+len(m[0]), ""
	switch {
	case dash == "-":
		end, msg = i+1, `after "-" a space is missing`
		dash = "- "
	case strings.Contains(dash, "\u00a0"):
		msg = "a no-break space, which YAML takes for text"
		dash = strings.ReplaceAll(dash, "\u00a0", " ")
	case mark == "=":
		msg = `a setting is written "name: value"`
	case mark == "：":
		msg = "a wide colon, which YAML takes for text"
	default:
		return false
	}
	c.found(i, end, msg, "write "+dash+name+": "+strings.TrimSpace(c.line[i+len(m[0]):]))
	return true
}

// key returns the length of the "name: " at i, or 0.
func (c *lineScan) key(i int) int {
	if raw, ok := quoted(c.line[i:]); ok {
		if strings.HasPrefix(c.line[i+len(raw):]+" ", ": ") {
			return min(len(raw)+2, len(c.line)-i)
		}
		return 0
	}
	return min(len(keyOnly().FindString(c.line[i:]+" ")), len(c.line)-i)
}

// deeperThanValue reports whether the line is indented deeper than the one
// before, although that is "name: value" and so can hold no more settings.
func (c *lineScan) deeperThanValue(indent int) bool {
	trimmed := strings.TrimLeft(c.previous, " ")
	for strings.HasPrefix(trimmed, "- ") {
		trimmed = strings.TrimLeft(trimmed[2:], " ")
	}
	name := keyOnly().FindString(trimmed)
	value := strings.TrimSpace(trimmed[len(name):])
	return name != "" && value != "" && indent > len(c.previous)-len(trimmed) &&
		!strings.ContainsAny(value[:1], "|>&#\"'[{")
}

// value looks at the value line[i:end]; single says that it is a setting's, so
// that no other "name: " can follow in the line.
func (c *lineScan) value(i, end int, single bool) {
	if end = i + len(stripComment(c.line[i:end])); end == i {
		return
	}
	rest := c.line[i:end]
	if address := bareAddress().FindString(rest); address != "" {
		c.found(i, i+len(address), "an address in [] without quotes", `write "`+address+`"`)
		return
	}
	if raw, ok := quoted(rest); ok {
		if after := strings.TrimSpace(rest[len(raw):]); single && after != "" && !strings.Contains(",]}", after[:1]) {
			c.found(i+len(raw), end, "text after the closing quote", "put all of the value between the quotes")
		}
		return
	}
	switch first := rest[0]; first {
	case '@', '%', '`':
		c.found(i, end, "a value cannot begin with "+string(first), `put it in quotes: "`+rest+`"`)
		return
	case '*':
		name := rest[1:]
		if name == "" || !isWord(name) || name == c.alias {
			c.found(i, end, "a value cannot begin with *", `put it in quotes: "`+rest+`"`)
		}
		return
	case '[', '{':
		c.flow(i+1, end)
		if n := flowLength(rest); single && n > 0 && c.msg == "" {
			after := strings.TrimLeft(rest[n:], " \t")
			if after != "" && !strings.Contains(",]}", after[:1]) {
				c.found(end-len(after), end, "text after the closing "+rest[n-1:n], "remove it, or put all of the value between quotes")
			}
		}
		return
	case '|', '>', '&', '!':
		return
	}
	if at := strings.Index(rest, ": "); single && at >= 0 {
		c.found(i, end, `": " inside a value without quotes`, `put it in quotes: "`+rest+`"`)
	} else if single && strings.HasSuffix(rest, ":") {
		c.found(i, end, `":" at the end of a value without quotes`, `put it in quotes: "`+rest+`"`)
	}
}

// flowLength returns the length of the list or map in brackets that text begins with,
// or 0 if it does not end in it.
func flowLength(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"', '\'':
			raw, ok := quoted(text[i:])
			if !ok {
				return 0
			}
			i += len(raw) - 1
		}
	}
	return 0
}

// flow looks at the values of a list or map in brackets, line[i:end].
func (c *lineScan) flow(i, end int) {
	for i < end && c.msg == "" {
		switch b := c.line[i]; {
		case b == ' ' || b == ',' || b == ']' || b == '}' || b == '[' && !bareAddress().MatchString(c.line[i:end]) || b == '{':
			i++
			continue
		case b == '"' || b == '\'':
			raw, ok := quoted(c.line[i:end])
			if !ok {
				return
			}
			i += len(raw)
			continue
		}
		if key := keyOnly().FindString(c.line[i:end]); key != "" {
			i += len(key)
			continue
		}
		if next := strings.IndexAny(c.line[i:end], ",]} "); c.line[i] == ':' && next > 1 {
			c.found(i, i+next, "a value inside [ ] or { } cannot begin with :", `put it in quotes: "`+c.line[i:i+next]+`"`)
			return
		}
		if strings.HasPrefix(c.line[i:end], "${") {
			if next := strings.IndexByte(c.line[i:end], '}'); next > 0 {
				c.found(i, i+next+1, "a substitution inside [ ] or { } without quotes", `write "`+c.line[i:i+next+1]+`"`)
			}
			return
		}
		next := strings.IndexAny(c.line[i:end], ",]}")
		if next < 0 || c.line[i] == '[' {
			next = end - i
		}
		c.value(i, i+next, false)
		i += next
	}
}

// stripComment returns text without the comment at its end and spaces before it.
func stripComment(text string) string {
	if strings.HasPrefix(text, "#") {
		return ""
	}
	for i := 1; i < len(text); i++ {
		if text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
			text = text[:i]
			break
		}
	}
	return strings.TrimRight(text, " \t")
}

func isWord(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_' && r != '-'
	}) < 0
}
