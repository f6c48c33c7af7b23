package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// node is a value of the file. Aliases have been replaced by what they stand
// for, so a node may be reached in several ways; nothing changes it.
type node struct {
	text  string  // of a scalar
	keys  []*node // of a map, as many as items
	items []*node
	// origin says what of the text was substituted; nil is nothing.
	origin *origin
	// A file has many nodes, and so they are kept small.
	row, column int32
	size        int32 // values in it, aliases counted as what they stand for
	shape       shape
	word        word // of a scalar: what YAML takes it for
	open        bool // it is still being read
	// partial says that settings of the map were refused and are not in it.
	partial bool
}

// line and col return where n begins, counted from 1.
func (n *node) line() int { return int(n.row) }
func (n *node) col() int  { return int(n.column) }

type shape uint8

const (
	broken shape = iota // reported already; readers pass over it
	scalar
	sequence
	mapping
)

// word is what YAML takes a scalar for.
type word uint8

const (
	wordText   word = iota // plain text
	wordQuoted             // in quotes, or a block
	wordNull
	wordBool
	wordNumber // whole or not, in any of YAML's notations
)

// decode reads data, the text of s, as one YAML document. It returns nil when
// there is none that can be looked at; everything wrong is in s.
func decode(s *source, data []byte) *node {
	dec := yaml.NewDecoder(&pausingReader{r: bytes.NewReader(data)})
	var doc, second yaml.Node
	err := decodeNext(dec, &doc)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failSyntax(err)
		return nil
	}
	if err == nil {
		if err := decodeNext(dec, &second); !errors.Is(err, io.EOF) {
			s.failSecond(&doc, &second)
			return nil
		}
	}
	if nothing := len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null"; nothing && s.isIncluded {
		if len(bytes.TrimSpace(data)) == 0 {
			s.fail(1, 0, 1, "remove it, or write a comment into it", "the file is empty")
		}
		return nil
	} else if nothing {
		s.fail(1, 0, 1, "", "the file is empty; it needs an upstream and rules")
		return nil
	}
	if n := countNodes(&doc); n > maxValues {
		s.fail(1, 0, 1, "", "the file holds %d values; the most is %d", n, maxValues)
		return nil
	}
	c := converter{source: s, anchors: map[*yaml.Node]*node{}}
	return c.convert(doc.Content[0], 0)
}

// decodeNext decodes a document. The parser is not trusted not to panic.
func decodeNext(dec *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return dec.Decode(into)
}

var yamlLine = lazily(`^(?:yaml: )?(?:line (\d+): )?`)

// failSyntax reports what the parser could not read.
func (s *source) failSyntax(err error) {
	text := err.Error()
	at := yamlLine().FindStringSubmatch(text)
	text = text[len(at[0]):]
	line, _ := strconv.Atoi(at[1])
	if line > 0 && countsFromZero(text) {
		line++
	}
	line = min(max(1, line), len(s.lines))
	if strings.Contains(text, "exceeded max depth") {
		s.fail(line, 0, 1, "", "lists and maps are nested over %d deep", maxDepth)
		return
	}
	s.explainSyntax(text, line)
}

// countsFromZero reports whether an error of yaml.v3 names the line before the
// one it means: those of its parser do, those of its scanner do not.
func countsFromZero(text string) bool {
	rest, ok := strings.CutPrefix(text, "did not find expected ")
	if !ok {
		return false
	}
	for _, what := range []string{"key", "node content", "',' or", "'-' indicator", "<"} {
		if strings.HasPrefix(rest, what) {
			return true
		}
	}
	return false
}

// failSecond reports a second document, where it begins.
func (s *source) failSecond(doc, second *yaml.Node) {
	const msg = "a second document begins here; a file holds one"
	for n := doc.Line + 1; n <= len(s.lines); n++ {
		if line := s.line(n); line == "---" || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "---\t") {
			s.fail(n, 1, 3, "remove it, or the line ---", msg)
			return
		} else if line == "..." {
			s.fail(n, 1, 3, "remove what follows, or the line ...", "the document ends here; a file holds one")
			return
		}
	}
	s.fail(max(1, second.Line), 0, 1, "", msg)
}

func countNodes(n *yaml.Node) int {
	count := 1
	for _, kid := range n.Content {
		count += countNodes(kid)
	}
	return count
}

// converter turns the parser's tree into ours and refuses on the way what no
// setting may hold.
type converter struct {
	*source
	anchors     map[*yaml.Node]*node
	aliased     int // values that aliases stand for
	substituted int // bytes of the values of variables
	pauses      pauses
	nodes       []node  // made ahead: a file has many, and all are dropped together
	links       []*node // the same, for their keys and items
}

// node returns a node for a value at y.
func (c *converter) node(y *yaml.Node) *node {
	const ahead = 128
	if len(c.nodes) == 0 {
		c.nodes = make([]node, ahead)
	}
	n := &c.nodes[0]
	c.nodes = c.nodes[1:]
	n.row, n.column, n.size = int32(y.Line), int32(y.Column), 1
	return n
}

// list returns an empty list that n nodes can be appended to.
func (c *converter) list(n int) []*node {
	const ahead = 512
	if n > ahead/8 {
		return make([]*node, 0, n)
	}
	if len(c.links) < n {
		c.links = make([]*node, ahead)
	}
	list := c.links[:0:n]
	c.links = c.links[n:]
	return list
}

func (c *converter) convert(y *yaml.Node, depth int) *node {
	if y.Kind == yaml.AliasNode {
		return c.alias(y)
	}
	n := c.node(y)
	n.open = true
	if y.Anchor != "" {
		c.anchors[y] = n
		n.column += anchorWidth(c.from(n.line(), n.col()))
	}
	switch {
	case y.Style&yaml.TaggedStyle != 0:
		c.fail(n.line(), n.col(), utf8.RuneCountInString(y.Tag), "write the value alone", "tag %s is not accepted", quote(y.Tag))
	case depth > maxDepth:
		c.fail(n.line(), n.col(), 1, "", "lists and maps are nested over %d deep", maxDepth)
	case y.Kind == yaml.ScalarNode:
		c.scalar(n, y)
	case y.Kind == yaml.SequenceNode:
		n.shape = sequence
		n.items = c.list(len(y.Content))
		for _, item := range y.Content {
			n.add(nil, c.convert(item, depth+1))
		}
	case y.Kind == yaml.MappingNode:
		n.shape = mapping
		c.mapping(n, y, depth)
	}
	n.open = false
	return n
}

// alias returns what an alias stands for. All aliases of a file together may
// stand for as many values as a file may have.
func (c *converter) alias(y *yaml.Node) *node {
	n := c.node(y)
	width := utf8.RuneCountInString(y.Value) + 1
	target := c.anchors[y.Alias]
	switch {
	case target == nil || target.open:
		c.fail(n.line(), n.col(), width, "", "alias *%s stands for a value that holds it", y.Value)
		return n
	case c.aliased > maxValues:
		return n
	}
	if c.aliased += int(target.size); c.aliased > maxValues {
		c.fail(n.line(), n.col(), width, "", "with alias *%s the file holds more than %d values", y.Value, maxValues)
		return n
	}
	return target
}

func (n *node) add(key, item *node) {
	if key != nil {
		n.keys = append(n.keys, key)
	}
	n.items = append(n.items, item)
	n.size += item.size
}

func (c *converter) scalar(n *node, y *yaml.Node) {
	n.shape, n.text = scalar, y.Value
	switch y.ShortTag() {
	case "!!null":
		n.word = wordNull
	case "!!bool":
		n.word = wordBool
	case "!!int", "!!float":
		n.word = wordNumber
	}
	if y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		n.word = wordQuoted
	}
	if !c.foreign && (strings.Contains(n.text, "${") || strings.Contains(n.text, "$$")) {
		c.substitute(n)
	}
}

func (c *converter) mapping(n *node, y *yaml.Node, depth int) {
	c.pauses.step()
	var seen map[string]*node // of a map of more than a few
	if len(y.Content) > 2*fewKeys {
		seen = make(map[string]*node, len(y.Content)/2)
	}
	n.keys, n.items = c.list(len(y.Content)/2), c.list(len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, partial := y.Content[i], n.partial
		k := c.node(key)
		k.shape, k.text = scalar, key.Value
		n.partial = true
		switch {
		case key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0 || key.ShortTag() == "!!null":
			c.fail(k.line(), k.col(), 1, "", "the name of a setting must be plain text")
			continue
		case key.Tag == "!!merge":
			c.fail(k.line(), k.col(), 2, "write the settings out", "merge keys (<<) are not accepted")
			continue
		}
		if key.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			k.word = wordQuoted
		}
		if key.Anchor != "" {
			k.column += anchorWidth(c.from(k.line(), k.col()))
		}
		first := seen[k.text]
		if seen == nil {
			first = n.key(k.text)
		}
		if first != nil {
			c.failAt(k, "", "%s is given twice; the first is at %s", quote(k.text), c.pos(first.line(), first.col()))
			continue
		}
		n.partial = partial
		if seen != nil {
			seen[k.text] = k
		}
		n.add(k, c.convert(y.Content[i+1], depth+1))
	}
}

// fewKeys is how many keys are looked through without a map.
const fewKeys = 16

// anchorWidth returns how many characters an anchor takes at the start of text,
// with the space after it.
func anchorWidth(text string) int32 {
	if !strings.HasPrefix(text, "&") {
		return 0
	}
	name, value, ok := strings.Cut(text, " ")
	if !ok {
		return 0
	}
	return int32(utf8.RuneCountInString(name) + 1 + len(value) - len(strings.TrimLeft(value, " ")))
}
