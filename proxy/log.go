package proxy

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"gateway/limit"
	"gateway/proxy/upstream"
	"gateway/rules"
)

// log hands the exchange to the access log.
func (x *exchange) log(now limit.Instant) {
	if !x.g.access.on() {
		return
	}
	r := Record{
		At: x.at, Seq: x.seq, Client: x.facts.Client, Peer: x.peer.Addr().Unmap().WithZone(""),
		Method: shorten(x.r.Method, mostWord), Target: x.target(), Proto: x.r.Proto,
		Referer: redactTarget(x.r.Header.Get("Referer"), x.redact.Query, mostAgent), UserAgent: shorten(x.r.Header.Get("User-Agent"), mostAgent),
		Status: x.finalStatus(), Bytes: x.bytesOut(), Duration: now.Sub(x.start),
		Route: x.routed, Rule: x.ruleNames, DryRun: x.dryRun, Candidate: x.candidates, RequestID: x.id, TraceID: traceID(x.r.Header.Get("Traceparent")),
		Result: x.result.String(), Settled: x.settled, Host: x.facts.Host, Waited: x.waited,
	}
	if x.redact.Referer && r.Referer != "" {
		r.Referer = rules.Blank
	}
	if x.redact.UserAgent && r.UserAgent != "" {
		r.UserAgent = rules.Blank
	}
	_, blanked := x.redact.Path(x.facts.Path)
	r.Answer, r.PathCut = r.Status, isCut(x.facts.RawPath) || blanked || len(x.r.Method) > mostWord
	if x.sent != 0 {
		r.Upstream = x.pool
	}
	if x.failure != nil {
		r.Err = upstream.Plain(x.failure.Error())
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
	if x.g.access.wantsRules() {
		if x.settles && x.granted {
			r.Answer, r.ClientFailed = x.answer.Status, x.answer.ClientFailed
		}
		r.Rules = x.ruleRecords(r.PathCut)
	}
	x.g.access.add(r)
}

// isCut reports whether a line does not hold all of a path, whatever it takes to
// write it down.
func isCut(path string) bool {
	if len(path) <= mostTarget/6 { // \u002f
		return false
	}
	return len(path) > mostTarget || !isVisible(path) || strings.ContainsAny(path, `"\`)
}

// ruleRecords returns what the line must say of the rules for the decision to be
// repeated: of those that look at more than it shows, all of them with all, and of
// those that gave something back.
func (x *exchange) ruleRecords(all bool) []RuleRecord {
	var list []RuleRecord
	for i := range x.claims {
		c := &x.claims[i]
		if c.Tag == overloadTag {
			continue
		}
		hit := &x.hits[c.Tag]
		hidden := all || hit.Rule.Beyond()
		if !hidden && c.SettledSeq == 0 && hit.Rule.CostFrom.Header == "" {
			continue
		}
		one := RuleRecord{Rule: hit.Rule.Name, Cost: -1, Said: -1, SettledAt: c.SettledAt, SettledSeq: c.SettledSeq}
		if hidden {
			one.Key, one.Tier = hit.Key, hit.Plan.Tier
		}
		if all {
			one.Cost = c.N
		}
		if x.granted {
			if cost, ok := hit.Rule.SaidCost(x.answer); ok {
				one.Said = cost
			}
		}
		list = append(list, one)
	}
	return list
}

// target is the request target as sent, its secrets blanked.
func (x *exchange) target() string {
	path := x.facts.RawPath // as sent, and as rules saw it
	if path == "" {
		path = x.r.URL.EscapedPath()
	}
	if shown, ok := x.redact.Path(x.facts.Path); ok {
		path = shown
	}
	if x.r.URL.RawQuery == "" || len(path) > mostTarget {
		return shorten(path, mostTarget)
	}
	return redactTarget(path+"?"+x.r.URL.RawQuery, x.redact.Query, mostTarget)
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
			b.WriteString("=" + rules.Blank)
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
