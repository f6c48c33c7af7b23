package rules

import (
	"net/url"
	"strings"
	"time"
)

// minInterval is the least time between two checks of a server.
const minInterval = 100 * time.Millisecond

// health reads a path, or {path, interval, timeout, status}.
func (p *parser) health(n *node) Health {
	h := defaultHealth()
	if n.shape != mapping {
		p.healthPath(n, "health", &h)
		return h
	}
	c := p.section(n, partHealth, "health", " in health")
	c.check()
	if v := c.get("path"); v != nil {
		p.healthPath(v, "path", &h)
	} else if c.lacks("path") {
		p.failAt(n, "add path: /healthz", "no path in health")
	}
	if v := c.get("interval"); v != nil {
		p.duration(v, "interval", &h.Interval)
		if h.Interval < minInterval {
			p.failAt(v, "", "interval %s: must be at least %v", quote(v.text), minInterval)
		}
	}
	if v := c.get("timeout"); v == nil {
		h.Timeout = min(h.Timeout, h.Interval)
	} else {
		p.duration(v, "timeout", &h.Timeout)
		switch {
		case h.Timeout <= 0:
			p.failAt(v, "", "timeout %s: must be more than 0", quote(v.text))
		case h.Timeout > h.Interval && h.Interval >= minInterval:
			p.failAt(v, "", "timeout %s is more than the interval of %v", quote(v.text), h.Interval)
		}
	}
	if v := c.get("status"); v != nil {
		h.Status = p.statuses(v)
	}
	return h
}

// healthPath reads what is asked for: a path, perhaps with a query.
func (p *parser) healthPath(n *node, what string, h *Health) {
	text, ok := p.textLike(n, what, "a path like /healthz")
	if !ok {
		return
	}
	if !strings.HasPrefix(text, "/") {
		hint := "write /" + text
		switch {
		case strings.Contains(text, "://"):
			hint = "the servers' own URLs are put before it"
		case n.word == wordBool || text == "off" || text == "none":
			hint = "leave health out for no checks"
		}
		p.failAt(n, hint, "%s %s: must begin with /", what, quote(text))
		return
	}
	if _, err := url.ParseRequestURI(text); err != nil || strings.ContainsAny(text, " #") {
		p.failAt(n, "", "%s %s: not a path", what, quote(text))
		return
	}
	h.Path = text
}

// statuses reads one status or class of statuses, or a list of them.
func (p *parser) statuses(n *node) Statuses {
	var s Statuses
	for _, item := range p.oneOrMore(n, "status") {
		text, ok := p.textLike(item, "status", "a status like 401, or a class like 4xx")
		if !ok {
			continue
		}
		if err := s.parse(text); err != nil {
			p.failText(item, "status", err)
		}
		p.show(item)
	}
	return s
}
