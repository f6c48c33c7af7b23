package peers

import (
	"errors"
	"fmt"
	"strings"
)

// caddyParser reads a Caddyfile: lines of words, with blocks in braces.
type caddyParser struct {
	file  string
	text  string
	at    int
	line  int
	depth int
}

func parseCaddy(file, text string) ([]*directive, error) {
	p := &caddyParser{file: file, text: strings.ReplaceAll(text, "\r\n", "\n"), line: 1}
	all, err := p.block()
	if err == nil && p.at < len(p.text) {
		err = p.fail("a } without a {")
	}
	return all, err
}

func (p *caddyParser) fail(format string, args ...any) error {
	return errors.New(Note{File: p.file, Line: p.line, Text: fmt.Sprintf(format, args...)}.String())
}

// block reads lines up to one that begins with }, at which it stops.
func (p *caddyParser) block() ([]*directive, error) {
	var all []*directive
	for {
		d := &directive{file: p.file}
		for {
			text, kind, err := p.token()
			switch {
			case err != nil:
				return nil, err
			case kind == endOfText && len(d.words) == 0:
				return all, nil
			case kind == word && text == "}" && len(d.words) == 0:
				p.at--
				return all, nil
			}
			if kind == endOfLine && len(d.words) > 0 && strings.HasSuffix(d.words[len(d.words)-1], ",") {
				continue // the addresses of a site go on
			}
			if kind != word && kind != quotedWord {
				break
			}
			if len(d.words) == 0 && d.line == 0 {
				d.line = p.line
			}
			if kind == word && text == "{" && p.ends() {
				if err := p.open(d); err != nil {
					return nil, err
				}
				break
			}
			d.words = append(d.words, text)
		}
		if len(d.words) > 0 || d.open {
			all = append(all, d)
		}
	}
}

// open reads the block of d.
func (p *caddyParser) open(d *directive) error {
	if p.depth++; p.depth > maxDepth {
		return p.fail("blocks are nested over %d deep", maxDepth)
	}
	var err error
	d.open = true
	if d.block, err = p.block(); err != nil {
		return err
	}
	if p.at == len(p.text) {
		return p.fail("the block of line %d is not closed", d.line)
	}
	p.at++ // the }
	p.depth--
	return nil
}

type tokenKind int

const (
	endOfText tokenKind = iota
	endOfLine
	word
	quotedWord
)

// ends reports whether nothing more is on the line.
func (p *caddyParser) ends() bool {
	rest, _, _ := strings.Cut(p.text[p.at:], "\n")
	rest = strings.TrimLeft(rest, " \t")
	return rest == "" || rest[0] == '#'
}

// token reads a word, the end of a line, or that of the text.
func (p *caddyParser) token() (string, tokenKind, error) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '\n':
			p.at++
			p.line++
			return "", endOfLine, nil
		case c == ' ' || c == '\t' || c == '\r':
			p.at++
		case c == '\\' && strings.HasPrefix(p.text[p.at:], "\\\n"):
			p.at += 2
			p.line++
		case c == '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		case c == '"' || c == '`':
			text, err := p.quoted(c)
			return text, quotedWord, err
		default:
			from := p.at
			for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) < 0 {
				p.at++
			}
			text := p.text[from:p.at]
			if marker, ok := strings.CutPrefix(text, "<<"); ok && marker != "" && p.ends() {
				text, err := p.heredoc(marker)
				return text, quotedWord, err
			}
			return text, word, nil
		}
	}
	return "", endOfText, nil
}

func (p *caddyParser) quoted(quote byte) (string, error) {
	var b strings.Builder
	from := p.line
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == quote:
			p.at++
			return b.String(), nil
		case c == '\\' && quote == '"' && p.at+1 < len(p.text) && p.text[p.at+1] == '"':
			p.at++
			b.WriteByte('"')
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

// heredoc reads the lines up to one that begins with the marker, after which it goes on.
func (p *caddyParser) heredoc(marker string) (string, error) {
	from := p.line
	var b strings.Builder
	_, rest, _ := strings.Cut(p.text[p.at:], "\n")
	for line := range strings.Lines(rest) {
		p.line++
		if after, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), marker); ok && (after == "" || strings.ContainsAny(after[:1], " \t\n")) {
			p.at = len(p.text) - len(rest) + b.Len() + strings.Index(line, marker) + len(marker)
			return b.String(), nil
		}
		b.WriteString(line)
	}
	p.line = from
	return "", p.fail("<<%s is not ended", oneLine(marker))
}
