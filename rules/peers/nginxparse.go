package peers

import (
	"errors"
	"fmt"
	"strings"
)

// directive is a statement of nginx: words, and a block perhaps.
type directive struct {
	file  string
	line  int
	words []string
	block []*directive
	open  bool // there is a block
}

func (d *directive) name() string { return d.words[0] }

// args are the words after the name.
func (d *directive) args() []string { return d.words[1:] }

// String returns the statement as it is written, more or less.
func (d *directive) String() string { return strings.Join(d.words, " ") }

// nginxParser reads statements.
type nginxParser struct {
	file  string
	text  string
	at    int
	line  int
	depth int
}

const maxDepth = 32

func parseNginx(file string, text string) ([]*directive, error) {
	p := &nginxParser{file: file, text: text, line: 1}
	all, err := p.block()
	if err == nil && p.at < len(p.text) {
		err = p.fail("a } without a {")
	}
	return all, err
}

func (p *nginxParser) fail(format string, args ...any) error {
	return errors.New(Note{File: p.file, Line: p.line, Text: fmt.Sprintf(format, args...)}.String())
}

// block reads statements up to a } or the end.
func (p *nginxParser) block() ([]*directive, error) {
	var all []*directive
	for {
		d := &directive{file: p.file}
		for {
			p.space()
			if p.at == len(p.text) {
				if len(d.words) > 0 {
					return nil, p.fail("the file ends inside of %q: a ; is missing", oneLine(d.String()))
				}
				return all, nil
			}
			c := p.text[p.at]
			if c == ';' || c == '{' {
				p.at++
				if len(d.words) == 0 {
					return nil, p.fail("a %c without anything before it", c)
				}
				if c == ';' {
					break
				}
				if p.depth++; p.depth > maxDepth {
					return nil, p.fail("blocks are nested over %d deep", maxDepth)
				}
				var err error
				d.open = true
				if d.block, err = p.block(); err != nil {
					return nil, err
				}
				if p.at == len(p.text) {
					return nil, p.fail("the block of %q is not closed", oneLine(d.String()))
				}
				p.at++ // the }
				p.depth--
				break
			}
			if c == '}' {
				if len(d.words) > 0 {
					return nil, p.fail("%q ends without a ;", oneLine(d.String()))
				}
				return all, nil
			}
			if len(d.words) == 0 {
				d.line = p.line
			}
			text, err := p.word()
			if err != nil {
				return nil, err
			}
			d.words = append(d.words, text)
		}
		all = append(all, d)
	}
}

// space passes over spaces and comments.
func (p *nginxParser) space() {
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		case '#':
			for p.at+1 < len(p.text) && p.text[p.at+1] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

// word reads a word, in quotes or not.
func (p *nginxParser) word() (string, error) {
	var b strings.Builder
	quote := p.text[p.at]
	if quote == '"' || quote == '\'' {
		from := p.line
		for p.at++; p.at < len(p.text); p.at++ {
			switch c := p.text[p.at]; {
			case c == quote:
				p.at++
				return b.String(), nil
			case c == '\\' && p.at+1 < len(p.text):
				p.escape(&b)
			default:
				if c == '\n' {
					p.line++
				}
				b.WriteByte(c)
			}
		}
		p.line = from
		return "", p.fail("a quote that is not closed")
	}
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case strings.IndexByte(" \t\r\n;{}", c) >= 0:
			if c == '{' && strings.HasSuffix(b.String(), "$") { // ${name}
				if end := strings.IndexByte(p.text[p.at:], '}'); end > 0 && !strings.ContainsAny(p.text[p.at:p.at+end], " \t\r\n;") {
					b.WriteString(p.text[p.at : p.at+end+1])
					p.at += end
					continue
				}
			}
			return b.String(), nil
		case c == '\\' && p.at+1 < len(p.text):
			p.escape(&b)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// escape reads a backslash and what follows it.
func (p *nginxParser) escape(b *strings.Builder) {
	p.at++
	switch c := p.text[p.at]; c {
	case '"', '\'', '\\':
		b.WriteByte(c)
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'n':
		b.WriteByte('\n')
	default: // a part of a regular expression
		if c == '\n' {
			p.line++
		}
		b.WriteByte('\\')
		b.WriteByte(c)
	}
}
