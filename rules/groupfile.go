package rules

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxGroupFile is the most bytes of a file with the values of a group.
	maxGroupFile = 64 << 20
	// maxGroupValues is how many values it may hold; each takes some 50 bytes.
	maxGroupValues = 5_000_000
	// maxGroupErrors is how many errors in one such file are told of.
	maxGroupErrors = 10
)

// GroupFiles returns the paths of the files that groups name, each once, in the
// order of the file.
func (f *File) GroupFiles() []string {
	var paths []string
	seen := map[string]bool{}
	for i := range f.Groups {
		for j := range f.Groups[i].Members {
			if path := f.Groups[i].Members[j].File.Path; path != "" && !seen[path] {
				seen[path] = true
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// ReadGroups returns f with what the files of its groups hold, as read returns it
// for each of their paths; f itself is as before. prev, which may be nil, is the
// Set in force: what is the same there is taken over. Read errors should not name
// the path.
//
// The error is an ErrorList: of files that cannot be read or hold nothing, at the
// place where they are named, and of lines in them. It never shows a value that
// could be a secret.
func (f *File) ReadGroups(prev *Set, read func(path string) ([]byte, error)) (*File, error) {
	if len(f.GroupFiles()) == 0 {
		return f, nil
	}
	next := *f
	next.Groups = make([]Group, len(f.Groups))
	known := prev.valueSets()
	var errs ErrorList
	for i, g := range f.Groups {
		next.Groups[i] = g
		next.Groups[i].Members = make([]Members, len(g.Members))
		for j, m := range g.Members {
			if m.File.Path != "" {
				var bad ErrorList
				m.values, bad = readMembers(&g, &m, known, read)
				errs = append(errs, bad...)
			}
			next.Groups[i].Members[j] = m
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return &next, nil
}

// readMembers reads the file of m, a part of g.
func readMembers(g *Group, m *Members, known map[contents]*valueSet, read func(string) ([]byte, error)) (*valueSet, ErrorList) {
	data, err := read(m.File.Path)
	if err == nil && len(data) > maxGroupFile {
		err = fmt.Errorf("more than %d MiB", maxGroupFile>>20)
	}
	if err != nil {
		return nil, ErrorList{m.File.Error(fmt.Sprintf("group %s: file %q: %v", quote(g.Name), m.File.Path, err), "")}
	}
	key := contents{m.Attribute, sha256.Sum256(data)}
	if set := known[key]; set != nil {
		return set, nil
	}
	b := newValueSetBuilder(m.Attribute)
	if errs := readLines(b, m.File.Path, string(data)); len(errs) > 0 {
		return nil, errs
	}
	set := b.done()
	if set.sum = key.sum; set.listed == 0 {
		return nil, ErrorList{m.File.Error(
			fmt.Sprintf("group %s: file %q holds no value", quote(g.Name), m.File.Path), "to have no such group, remove it here")}
	}
	known[key] = set
	return set, nil
}

// contents are the values of an attribute as a text lists them.
type contents struct {
	attribute Attribute
	sum       [sha256.Size]byte
}

// valueSets returns what the groups of s have read, by what it was read from.
func (s *Set) valueSets() map[contents]*valueSet {
	all := map[contents]*valueSet{}
	if s == nil {
		return all
	}
	for _, g := range s.File.Groups {
		for _, m := range g.Members {
			if m.File.Path != "" {
				all[contents{m.Attribute, m.values.sum}] = m.values
			}
		}
	}
	return all
}

// readLines adds the values in text, one a line. A line is empty, a comment that
// begins with "#", or a value that may have such a comment after a space.
func readLines(b *valueSetBuilder, path, text string) (errs ErrorList) {
	text = strings.TrimPrefix(text, "\ufeff")
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		value := lineValue(line)
		if value == "" {
			continue
		}
		if b.set.listed == maxGroupValues {
			return append(errs, &Error{Pos: Pos{File: path, Line: n}, Len: 1, Msg: fmt.Sprintf("more than %d values", maxGroupValues)})
		}
		err := badLine(value)
		if err == nil {
			err = b.add(value)
		}
		if err == nil {
			continue
		}
		if len(errs) == maxGroupErrors {
			return append(errs, &Error{Pos: Pos{File: path}, Len: 1, Msg: fmt.Sprintf("more than %d errors; the rest are not shown", maxGroupErrors)})
		}
		errs = append(errs, lineError(path, n, line, strings.Index(line, value)+err.Off, err, b.attribute.IsIP()))
	}
	return errs
}

// lineValue returns the value on a line, without spaces and comment.
func lineValue(line string) string {
	for i := 0; i < len(line); i++ {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
		}
	}
	return strings.Trim(line, " \t")
}

// badLine says why a line is no text that a value can be.
func badLine(value string) *TextError {
	switch {
	case len(value) > maxText:
		return &TextError{Len: 1, Msg: fmt.Sprintf("a value of %d bytes; the most is %d", len(value), maxText)}
	case !utf8.ValidString(value):
		return &TextError{Len: 1, Msg: "this is no text in UTF-8"}
	}
	if i := strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return &TextError{Off: i, Len: 1, Msg: fmt.Sprintf("control character U+%04X", value[i])}
	}
	return nil
}

// lineError places an error at byte off of a line. The line is shown only if it
// cannot be a secret.
func lineError(path string, n int, line string, off int, e *TextError, show bool) *Error {
	off = min(off, len(line))
	err := &Error{
		Pos: Pos{File: path, Line: n, Col: utf8.RuneCountInString(line[:off]) + 1}, Len: 1,
		Msg: oneLine(e.Msg), Hint: oneLine(e.Hint),
	}
	if show {
		err.Len = max(1, utf8.RuneCountInString(line[off:min(len(line), off+e.Len)]))
		err.excerpt, err.caret = excerpt(line, off)
	}
	return err
}

// unread returns the first part of a group whose file has not been read, or nil.
func (f *File) unread() *Members {
	for i := range f.Groups {
		for j := range f.Groups[i].Members {
			if m := &f.Groups[i].Members[j]; m.values == nil {
				return m
			}
		}
	}
	return nil
}
