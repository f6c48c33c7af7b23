package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// routerMatch reads the rule of a router: calls with texts, joined by &&, || and !.
func routerMatch(text string) (match, error) {
	p := &ruleParser{text: text}
	m, err := p.or(0)
	if p.space(); err == nil && p.at < len(text) {
		err = fmt.Errorf("the rule is not understood at %.20q", text[p.at:])
	}
	return m, err
}

type ruleParser struct {
	text string
	at   int
}

func (p *ruleParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// next reports whether the rule goes on with token, and passes over it.
func (p *ruleParser) next(token string) bool {
	p.space()
	ok := strings.HasPrefix(p.text[p.at:], token)
	if ok {
		p.at += len(token)
	}
	return ok
}

func (p *ruleParser) or(depth int) (match, error) {
	m, err := p.and(depth)
	for err == nil && p.next("||") {
		var n match
		if n, err = p.and(depth); len(m)+len(n) > maxClauses {
			return nil, errors.New("the rule is too large")
		}
		m = append(m, n...)
	}
	return m, err
}

func (p *ruleParser) and(depth int) (match, error) {
	m, err := p.one(depth)
	for err == nil && p.next("&&") {
		var n match
		if n, err = p.one(depth); err != nil {
			break
		}
		var ok bool
		if m, ok = m.and(n); !ok {
			return nil, errors.New("the rule is too large")
		}
	}
	return m, err
}

func (p *ruleParser) one(depth int) (match, error) {
	if depth > maxDepth {
		return nil, errors.New("the rule is nested too deep")
	}
	switch {
	case p.next("!"):
		m, err := p.one(depth + 1)
		return everything().without(m), err
	case p.next("("):
		m, err := p.or(depth + 1)
		if err == nil && !p.next(")") {
			err = errors.New("a ) is missing in the rule")
		}
		return m, err
	}
	from := p.at
	for p.at < len(p.text) && (p.text[p.at]|0x20 >= 'a' && p.text[p.at]|0x20 <= 'z') {
		p.at++
	}
	name := p.text[from:p.at]
	args, err := p.args()
	if err != nil {
		return nil, err
	}
	return callMatch(name, args)
}

// args reads texts in brackets, each in quotes or backquotes.
func (p *ruleParser) args() ([]string, error) {
	if !p.next("(") {
		return nil, fmt.Errorf("the rule is not understood at %.20q", p.text[p.at:])
	}
	var args []string
	for !p.next(")") {
		if len(args) > 0 && !p.next(",") {
			return nil, errors.New("a , or ) is missing in the rule")
		}
		p.space()
		if p.at == len(p.text) || p.text[p.at] != '`' && p.text[p.at] != '"' {
			return nil, errors.New("a text in quotes is missing in the rule")
		}
		text, rest, ok := strings.Cut(p.text[p.at+1:], p.text[p.at:p.at+1])
		if !ok {
			return nil, errors.New("a quote is not closed in the rule")
		}
		args = append(args, text)
		p.at = len(p.text) - len(rest)
	}
	return args, nil
}

// callMatch returns what a matcher of Traefik takes.
func callMatch(name string, args []string) (match, error) {
	bad := func(why string) (match, error) {
		return nil, fmt.Errorf("%s(%s): %s", name, strings.Join(args, ", "), why)
	}
	if len(args) == 0 {
		return bad("no text")
	}
	switch name {
	case "Host", "Method", "ClientIP", "Path", "PathPrefix":
		var values []string
		for _, a := range args {
			switch name {
			case "Host":
				a = strings.ToLower(a)
			case "Method":
				a = strings.ToUpper(a)
			case "ClientIP":
				_, prefix := netip.ParsePrefix(a)
				if _, addr := netip.ParseAddr(a); addr != nil && prefix != nil {
					return bad("neither an address nor a network")
				}
			default:
				if !strings.HasPrefix(a, "/") || strings.ContainsAny(a, "{}") {
					return bad("no plain path")
				}
				if name == "PathPrefix" {
					a = beginning(a)
				} else {
					a = pathText(a)
				}
			}
			values = append(values, a)
		}
		return is(map[string]string{"Host": "host", "Method": "method", "ClientIP": "ip", "Path": "path", "PathPrefix": "path"}[name], values...), nil
	case "Header", "Headers", "Query":
		if len(args) != 2 || !literal(args[1]) || args[0] == "" {
			return bad("has no equal here")
		}
		if name == "Query" {
			return is("query."+args[0], args[1]), nil
		}
		return is("header."+headerName(args[0]), args[1]), nil
	case "PathRegexp":
		return byRegexp(args[0])
	}
	return bad("has no equal here")
}
