package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
)

// Included is a file that a pattern of `include` stands for.
type Included struct {
	// Path is the pattern's with its wildcards filled in.
	Path string
	// Data is what it holds, unless it could not be read: Err says why, to the operator,
	// and should not repeat the path.
	Data []byte
	Err  string
}

const (
	// maxPatternsIncluded is how many patterns an include may have.
	maxPatternsIncluded = 100
	// maxIncluded is how many files they may stand for.
	maxIncluded = 1000
)

// includable are the settings that an included file may have.
var includable = []string{"upstreams", "groups", "routes", "rules"}

// sourcePart is where an included file begins in the lines of a source.
type sourcePart struct {
	name string
	base int // the lines before its first
}

// tree reads data, the text of s, with the files that it includes, as one tree. It
// returns nil when there is none that can be looked at; everything wrong is in s.
func (s *source) tree(data []byte) *node {
	root := decode(s, data)
	if root == nil || root.shape != mapping || root.key("include") == nil {
		return root
	}
	i := includer{source: s, root: root, at: root.key("include"), bytes: len(data), values: int(root.size), seen: map[string]bool{}}
	i.include(root.named("include"))
	root.remove("include")
	root.partial = root.partial || len(s.errs) > 0
	if root.key("rules") == nil {
		root.put("rules", &node{shape: sequence, row: i.at.row, column: i.at.column})
	}
	return root
}

// includer puts what included files hold into the tree of the file itself.
type includer struct {
	*source
	root          *node
	at            *node // the name of the setting
	bytes, values int   // of all files so far
	seen          map[string]bool
}

// include reads the patterns and what they stand for.
func (i *includer) include(n *node) {
	patterns := i.oneOrMore(n, "include")
	if n.isNull() {
		i.failAt(i.at, "give it a value, or remove the line", `"include" has no value`)
		return
	}
	if len(patterns) > maxPatternsIncluded {
		i.failAt(patterns[maxPatternsIncluded], "", "include: more than %d patterns", maxPatternsIncluded)
		return
	}
	for _, item := range patterns {
		pattern, ok := i.pattern(item)
		if !ok {
			continue
		}
		files := i.outside.include(pattern)
		if i.listed == nil {
			i.listed = map[string][]Included{}
		}
		i.listed[pattern] = files
		if len(files) == 0 {
			if hasMeta(pattern) {
				msg, hint := item.origin.hide("include "+quote(item.text)+": there is no such file", "")
				i.warn(i.posOf(item), i.width(item), hint, "%s", msg)
			} else {
				i.incomplete = true
				i.failAt(item, "a pattern like conf.d/*.yaml may stand for none", "include %s: there is no such file", quote(item.text))
			}
		}
		for _, f := range files {
			i.add(item, f)
		}
	}
}

// pattern reads a pattern and returns it as a path.
func (s *source) pattern(n *node) (string, bool) {
	text, ok := s.textLike(n, "include", "a pattern like conf.d/*.yaml")
	if !ok {
		return "", false
	}
	_, err := filepath.Match(text, "")
	switch {
	case text == "":
		s.failAt(n, "write a pattern like conf.d/*.yaml", "include is empty")
	case strings.HasSuffix(text, "/"):
		s.failAt(n, "write "+text+"*.yaml", "include %s: a folder, not files", quote(text))
	case strings.Contains(text, "**"):
		s.failAt(n, "write a pattern for each depth: conf.d/*.yaml, conf.d/*/*.yaml", "include %s: ** is no pattern of files", quote(text))
	case err != nil:
		s.failAt(n, "a bracket that is text is written \\[", "include %s: a bracket is not closed", quote(text))
	case filepath.IsAbs(text):
		return filepath.Clean(text), true
	default:
		return filepath.Join(s.folder(), text), true
	}
	return "", false
}

// hasMeta reports whether a pattern may stand for several files, or none.
func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }

// add adds a file that the pattern at n stands for.
func (i *includer) add(n *node, f Included) {
	name := quote(f.Path)
	switch {
	case i.seen[f.Path]:
		return
	case filepath.Clean(f.Path) == filepath.Clean(i.name):
		i.failAt(n, "keep included files in a folder of their own: conf.d/*.yaml", "include %s: that is this file itself", name)
		return
	case len(i.seen) == maxIncluded:
		i.failAt(n, "", "include: more than %d files", maxIncluded)
		i.incomplete = true
		return
	}
	i.seen[f.Path] = true
	if f.Err != "" {
		i.failAt(n, "", "include %s: %s", name, f.Err)
		i.incomplete = true
		return
	}
	i.included = append(i.included, f)
	if i.bytes += len(f.Data); i.bytes > maxFile {
		i.failAt(n, "", "with %s all files together are larger than 2 MiB, which is the most", name)
		i.incomplete = true
		return
	}
	sub, text := readSource(i.outside, f.Path, f.Data)
	sub.isIncluded = true
	var root *node
	if len(sub.errs) == 0 {
		root = decode(sub, text)
	}
	base := len(i.lines)
	for _, e := range sub.errs {
		e.at += base
		i.errs = append(i.errs, e)
	}
	i.moreErrs += sub.moreErrs
	i.incomplete = i.incomplete || root == nil && len(sub.errs) > 0
	if root == nil {
		return
	}
	if i.values += int(root.size); i.values > maxValues {
		i.failAt(n, "", "with %s all files together hold more than %d values", name, maxValues)
		i.incomplete = true
		return
	}
	i.parts = append(i.parts, sourcePart{f.Path, base})
	i.lines = append(i.lines, sub.lines...)
	root.moveDown(base, map[*node]bool{})
	i.merge(root)
}

// moveDown adds so many lines to the place of n and of all below it.
func (n *node) moveDown(lines int, seen map[*node]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	n.row += int32(lines)
	for _, key := range n.keys {
		key.moveDown(lines, seen)
	}
	for _, item := range n.items {
		item.moveDown(lines, seen)
	}
}

// merge puts the settings of an included file to those that are there.
func (i *includer) merge(root *node) {
	if root.shape != mapping {
		i.wrongShape(root, "an included file", "settings: "+list(includable))
		return
	}
	i.root.partial = i.root.partial || root.partial
	for j, key := range root.keys {
		value := root.items[j]
		switch {
		case key.text == "include":
			i.failAt(key, "name its files in "+i.name, "include inside an included file")
		case key.text == "upstream":
			i.failAt(key, "name it under upstreams", "upstream in an included file, which may have %s", list(includable))
		case !slices.Contains(includable, key.text) && slices.Contains(partFile.names(), key.text):
			i.failAt(key, "move it to "+i.name, "%s in an included file, which may have %s", key.text, list(includable))
		case !slices.Contains(includable, key.text):
			i.failAt(key, partFile.suggest(key.text), "unknown setting %s in an included file, which may have %s", quote(key.text), list(includable))
		case value.isNull():
			i.failAt(key, "give it a value, or remove the line", "%s has no value", quote(key.text))
		default:
			i.put(key, value)
		}
	}
}

// put adds a setting of an included file to that of the same name.
func (i *includer) put(key, value *node) {
	name, want, shape := key.text, "a list", sequence
	if name == "upstreams" || name == "groups" {
		want, shape = "a map of names", mapping
	}
	if value.shape != shape {
		i.wrongShape(value, name, want)
		return
	}
	there := i.root.named(name)
	if there == i.root {
		i.root.keys, i.root.items = append(i.root.keys, key), append(i.root.items, value)
		return
	}
	if there.shape != shape {
		return // which is said of it
	}
	both := *there
	both.partial = both.partial || value.partial
	both.keys, both.items = slices.Clip(there.keys), append(slices.Clip(there.items), value.items...)
	if shape == mapping {
		both.items = slices.Clip(there.items)
		for j, k := range value.keys {
			if first := there.key(k.text); first != nil {
				i.failAt(k, "give each its own name", "%s %s is there twice; the first is at %s", strings.TrimSuffix(name, "s"), quote(k.text), i.posOf(first))
				continue
			}
			both.keys, both.items = append(both.keys, k), append(both.items, value.items[j])
		}
	}
	i.root.put(name, &both)
}

// Includes returns the patterns of the files that a configuration file includes, as
// paths, also when something else in it is wrong; none when it cannot be read.
func (o Outside) Includes(name string, data []byte) []string {
	if !bytes.Contains(data, []byte("include")) && bytes.IndexByte(data, '\\') < 0 { // nor is it written with escapes
		return nil
	}
	s, text := readSource(Outside{Env: o.Env}, name, data)
	if len(s.errs) > 0 {
		return nil
	}
	root := decode(s, text)
	if root == nil || root.shape != mapping || root.key("include") == nil {
		return nil
	}
	var patterns []string
	for _, item := range s.oneOrMore(root.named("include"), "include") {
		if pattern, ok := s.pattern(item); ok && len(patterns) < maxPatternsIncluded {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// Includes reports whether the file has an `include`.
func (f *File) Includes() bool { return f.listed != nil }

// Included returns the paths of the files that f includes, in the order in which they
// count.
func (f *File) Included() []string {
	paths := make([]string, len(f.included))
	for i := range paths {
		paths[i] = f.included[i].Path
	}
	return paths
}

// hashOfAll returns the hash of a file and of those it includes.
func hashOfAll(data []byte, included []Included) string {
	sum := sha256.Sum256(data)
	if len(included) > 0 {
		var b bytes.Buffer
		b.Write(sum[:])
		for _, f := range included {
			of := sha256.Sum256(f.Data)
			b.WriteString(f.Path)
			b.WriteByte(0)
			b.Write(of[:])
		}
		sum = sha256.Sum256(b.Bytes())
	}
	return hex.EncodeToString(sum[:])
}
