package proxy

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"gateway/limit"
)

// log hands the exchange to the access log.
func (x *exchange) log(now limit.Instant) {
	if !x.g.access.on() {
		return
	}
	r := Record{
		At: x.at, Seq: x.seq, Client: x.facts.Client, Peer: x.peer.Addr().Unmap().WithZone(""),
		Method: shorten(x.r.Method, mostWord), Target: x.target(), Proto: x.r.Proto,
		Referer: redactTarget(x.r.Header.Get("Referer"), x.secrets, mostAgent), UserAgent: shorten(x.r.Header.Get("User-Agent"), mostAgent),
		Status: x.finalStatus(), Bytes: x.bytesOut(), Duration: now.Sub(x.start),
		Route: x.routed, Rule: x.ruleNames, DryRun: x.dryRun, RequestID: x.id, TraceID: traceID(x.r.Header.Get("Traceparent")),
		Result: x.result.String(), Settled: x.settled, Waited: x.waited,
	}
	if x.sent != 0 {
		r.Upstream = x.pool
	}
	if x.failure != nil {
		r.Err = x.failure.Error()
	}
	for i := range x.claims {
		if x.claims[i].Tag != overloadTag {
			r.Cost = max(r.Cost, x.claims[i].N)
		}
	}
	if x.result == resultRejected || x.blocked {
		for i := range x.claims {
			if c := &x.claims[i]; !c.Result.OK && c.Mode == limit.Enforce && c.Tag != overloadTag {
				r.key = x.claims[i].Key
				break
			}
		}
	}
	x.g.access.add(r)
}

// target is the request target as sent, its secrets blanked.
func (x *exchange) target() string {
	path := x.r.URL.EscapedPath()
	if x.r.URL.RawQuery == "" || len(path) > mostTarget {
		return shorten(path, mostTarget)
	}
	return redactTarget(path+"?"+x.r.URL.RawQuery, x.secrets, mostTarget)
}

// redactTarget blanks the values of query parameters that are secrets by their
// name, or that a rule is keyed on (keys). It returns no more than a line shows,
// and looks at no more: a query may hold thousands of parameters.
func redactTarget(target string, keys []string, most int) string {
	path, query, ok := strings.Cut(target, "?")
	if !ok || len(path) > most {
		return shorten(target, most)
	}
	var b strings.Builder
	from, at := 0, len(path)+1 // what is not in b yet; this pair
	for pair := range strings.SplitSeq(query, "&") {
		if b.Len()+at-from > most {
			break
		}
		name, value, ok := strings.Cut(pair, "=")
		if ok && value != "" && isSecretName(name, keys) {
			b.WriteString(target[from : at+len(name)])
			b.WriteString("=***")
			from = at + len(pair)
		}
		at += len(pair) + len("&")
	}
	rest := shorten(target[from:min(at, len(target))], most)
	if b.Len() == 0 {
		return rest
	}
	b.WriteString(rest)
	return b.String()
}

// shorten returns s, or of a long one a copy of as much as a line shows of it and
// a character more, so that a record that waits keeps no client's words alive.
func shorten(s string, most int) string {
	if most += utf8.UTFMax; len(s) <= most {
		return s
	}
	return strings.Clone(s[:most])
}

func isSecretName(name string, keys []string) bool {
	if strings.Contains(name, "%") || strings.Contains(name, "+") {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	lower := strings.ToLower(name)
	for _, word := range []string{"key", "token", "secret", "password"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return slices.Contains(keys, name)
}

// traceID returns the trace id of a traceparent header (W3C Trace Context), or "".
func traceID(parent string) string {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' {
		return ""
	}
	id := parent[3:35]
	for i := range len(id) {
		if c := id[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return ""
		}
	}
	return id
}
