package proxy

import (
	"net/url"
	"slices"
	"strings"

	"gateway/limit"
)

// log hands the exchange to the access log.
func (x *exchange) log(now limit.Instant) {
	if !x.g.access.on() {
		return
	}
	r := Record{
		At: x.at, Seq: x.seq, Client: x.facts.Client, Peer: x.peer.Addr().Unmap().WithZone(""),
		Method: x.r.Method, Target: x.target(), Proto: x.r.Proto,
		Referer: redactTarget(x.r.Header.Get("Referer"), x.secrets), UserAgent: x.r.Header.Get("User-Agent"),
		Status: x.finalStatus(), Bytes: x.bytesOut(), Duration: now.Sub(x.start),
		Route: x.routed, Rule: x.ruleNames, DryRun: x.dryRun, RequestID: x.id, TraceID: traceID(x.r.Header.Get("Traceparent")),
		Result: x.result.String(), Settled: x.settled,
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
	if x.result == resultRejected {
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
	t := x.r.URL.EscapedPath()
	if x.r.URL.RawQuery != "" {
		t += "?" + x.r.URL.RawQuery
	}
	return redactTarget(t, x.secrets)
}

// redactTarget blanks the values of query parameters that are secrets by their
// name, or that a rule is keyed on (keys).
func redactTarget(target string, keys []string) string {
	path, query, ok := strings.Cut(target, "?")
	if !ok {
		return target
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if ok && value != "" && isSecretName(name, keys) {
			pairs[i] = name + "=***"
		}
	}
	return path + "?" + strings.Join(pairs, "&")
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
