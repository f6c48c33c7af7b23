package rules

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// owned are the headers that the gateway sets itself.
var owned = []string{
	"Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Grpc-Message", "Grpc-Status",
	"Keep-Alive", "Proxy-Connection", "Ratelimit", "Ratelimit-Policy", "Retry-After", "Te", "Trailer", "Transfer-Encoding",
	"Upgrade", "Via", "X-Request-Id",
}

// reject reads the answer to a refused request. What is not there is as in base;
// but a detail replaces a body that base has.
func (p *parser) reject(n *node, base *Reject, where string) *Reject {
	c := p.section(n, partReject, "reject", " in reject"+strings.Replace(where, " in ", " of ", 1))
	c.check()
	r := *base
	if v := c.get("status"); v != nil {
		if status, ok := p.whole(v, "status", 400, 599); ok {
			r.Status = int(status)
		}
	}
	if v := c.get("detail"); v != nil {
		if text, ok := p.longText(v, "detail", "text"); ok {
			r.Detail = text
			if !c.has("body") {
				r.Body, r.ContentType = "", ""
			}
		}
	}
	if v := c.get("body"); v != nil {
		if text, ok := p.longText(v, "body", "text"); ok {
			r.Body, r.ContentType = text, cmp.Or(base.ContentType, "text/plain; charset=utf-8")
		}
	}
	if v := c.get("content_type"); v != nil {
		if text, ok := p.text(v, "content_type"); ok {
			p.contentType(v, text, r.Body != "", "the generated one is application/problem+json", &r.ContentType)
		}
	}
	if v := c.get("headers"); v != nil {
		r.Headers = p.headers(v, func(name string) bool { return slices.Contains(owned, name) })
	}
	if v := c.get("jitter"); v != nil {
		p.jitter(v, &r)
	}
	return &r
}

// contentType reads the type of a body, if there is one; else says what then.
func (p *parser) contentType(v *node, text string, body bool, without string, to *string) {
	kind, _, err := mime.ParseMediaType(text)
	switch {
	case err != nil || !strings.Contains(kind, "/"):
		p.failAt(v, "write it like text/html; charset=utf-8", "content_type %s: not a media type", quote(text))
	case !body:
		p.failAt(v, "add body:", "content_type without a body; %s", without)
	default:
		*to = text
	}
}

// headers reads header fields, sorted by name. isOurs says which the gateway sets
// itself.
func (p *parser) headers(n *node, isOurs func(name string) bool) []Header {
	if n.shape != mapping {
		p.wrongShape(n, "headers", "a map of names and values")
		return nil
	}
	var all []Header
	seen := map[string]bool{}
	for i, key := range n.keys {
		name := http.CanonicalHeaderKey(key.text)
		switch {
		case !isToken(key.text):
			p.failAt(key, "", "header %s: not a header's name", quote(key.text))
			continue
		case isOurs(name):
			p.failAt(key, "", "header %s is set by the gateway", quote(key.text))
			continue
		case seen[name]:
			p.failAt(key, "header names are the same in upper and lower case", "header %s is given twice", quote(key.text))
			continue
		case n.items[i].isNull():
			p.failAt(key, `write "" for an empty value`, "header %s has no value", quote(key.text))
			continue
		}
		if text, ok := p.text(n.items[i], "header "+quote(key.text)); ok {
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				p.failAt(n.items[i], "", "header %s: a line break or control character in its value", quote(key.text))
				continue
			}
			seen[name] = true
			all = append(all, Header{Name: name, Value: text})
		}
	}
	slices.SortFunc(all, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// isToken reports whether text can be the name of a header (RFC 9110, 5.6.2).
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func (p *parser) jitter(v *node, r *Reject) {
	text, ok := p.text(v, "jitter")
	if !ok {
		return
	}
	number, percent := strings.CutSuffix(text, "%")
	n, err := parseWhole(number)
	if !percent || err != nil || n > 100 {
		hint := ""
		if digitsOnly().MatchString(text) && len(text) < 3 {
			hint = "write " + text + "%"
		}
		p.failAt(v, hint, "jitter %s: must be 0%% to 100%%", quote(text))
		return
	}
	r.Jitter = int(n)
	p.show(v)
}
