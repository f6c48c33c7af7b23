package proxy

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// formatter writes the lines of a format.
type formatter struct {
	// line appends the line of a record. nil writes nothing.
	line func(buf []byte, r *Record) []byte
	// rules says that it writes Record.Rules.
	rules bool
}

var formatters = map[string]formatter{
	"text": {line: textLine}, "json": {line: jsonLine, rules: true}, "combined": {line: combinedLine}, "off": {},
}

// The most bytes that a text takes in a line, escapes included, so that no line
// is longer than 4 KiB whatever a client or an upstream puts into it.
const (
	mostTarget = 1200
	mostAgent  = 700 // each of User-Agent and Referer
	mostNames  = 400 // of rules, and an error
	mostWord   = 150 // a method, a name of the file
	mostID     = 260 // 128 characters of which each may need an escape
)

// jsonLine appends one JSON object. What a client sent cannot break out of it.
func jsonLine(b []byte, r *Record) []byte {
	b = append(b, `{"at":`...)
	b = strconv.AppendInt(b, int64(r.At), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	text := func(name, value string, most int) {
		if value != "" {
			b = append(b, `,"`...)
			b = append(b, name...)
			b = append(b, `":`...)
			b = appendJSON(b, value, most)
		}
	}
	number := func(name string, n int64) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, n, 10)
	}
	b = appendAddress(append(b, `,"client":`...), r.Client)
	b = appendAddress(append(b, `,"peer":`...), r.Peer)
	text("method", r.Method, mostWord)
	text("host", r.Host, mostID)
	text("path", r.Target, mostTarget)
	if r.PathCut {
		b = append(b, `,"path_cut":true`...)
	}
	number("status", int64(r.Status))
	number("bytes", r.Bytes)
	b = append(b, `,"duration":`...)
	b = strconv.AppendFloat(b, r.Duration.Seconds(), 'f', 6, 64)
	if r.Waited > 0 {
		b = append(b, `,"waited":`...)
		b = strconv.AppendFloat(b, r.Waited.Seconds(), 'f', 6, 64)
	}
	text("upstream", r.Upstream, mostWord)
	text("route", r.Route, mostWord)
	text("request_id", r.RequestID, mostID)
	text("trace_id", r.TraceID, mostWord)
	text("rule", r.Rule, mostNames)
	text("dry_run_rule", r.DryRun, mostNames)
	text("candidate_rule", r.Candidate, mostNames)
	text("result", r.Result, mostWord)
	number("cost", r.Cost)
	number("settled", r.Settled)
	if r.Answer != r.Status {
		number("answer", int64(r.Answer))
	}
	if r.ClientFailed {
		b = append(b, `,"client_failed":true`...)
	}
	b = appendRules(b, r.Rules)
	text("err", r.Err, mostNames)
	if r.Count > 0 {
		number("count", r.Count)
	}
	return append(b, '}', '\n')
}

// appendAddress appends a as a JSON string. A zone may hold anything.
func appendAddress(b []byte, a netip.Addr) []byte {
	if !a.IsValid() || a.Zone() != "" {
		return appendJSON(b, a.String(), mostWord)
	}
	return append(a.AppendTo(append(b, '"')), '"')
}

// mostRules is how many rules a line tells of.
const mostRules = 32

// appendRules appends what a line says of rules, if anything.
func appendRules(b []byte, list []RuleRecord) []byte {
	for i := range list[:min(len(list), mostRules)] {
		r := &list[i]
		if i == 0 {
			b = append(b, `,"rules":{`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, r.Rule...) // letters, digits, - and _
		b = append(b, `":{`...)
		start := len(b)
		member := func(name string) {
			if len(b) > start {
				b = append(b, ',')
			}
			b = append(b, '"')
			b = append(b, name...)
			b = append(b, `":`...)
		}
		if r.Key != (limit.Digest{}) {
			member("key")
			b = append(b, '"')
			b = append(b, rules.KeyID(r.Key)...)
			b = append(b, '"')
		}
		if r.Tier != "" {
			member("tier")
			b = appendJSON(b, r.Tier, mostWord)
		}
		if r.Cost >= 0 {
			member("cost")
			b = strconv.AppendInt(b, r.Cost, 10)
		}
		if r.Said >= 0 {
			member("said")
			b = strconv.AppendInt(b, r.Said, 10)
		}
		if r.SettledSeq != 0 {
			member("settled_at")
			b = strconv.AppendInt(b, int64(r.SettledAt), 10)
			member("settled_seq")
			b = strconv.AppendUint(b, r.SettledSeq, 10)
		}
		b = append(b, '}')
	}
	if len(list) > 0 {
		b = append(b, '}')
	}
	return b
}

// textLine appends a line for a person.
func textLine(b []byte, r *Record) []byte {
	b = r.At.Time().Local().AppendFormat(b, "15:04:05.000 ")
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = appendWord(b, r.Method, mostWord)
	b = append(b, ' ')
	b = appendWord(b, r.Target, mostTarget)
	b = append(b, ' ')
	b = append(b, r.Client.String()...)
	b = append(b, ' ')
	b = append(b, r.Duration.Round(10*time.Microsecond).String()...)
	b = append(b, ' ')
	b = append(b, r.Result...)
	pair := func(name, value string) {
		if value != "" {
			b = append(b, ' ')
			b = append(b, name...)
			b = append(b, '=')
			b = appendWord(b, value, mostNames)
		}
	}
	if r.Waited > 0 {
		pair("waited", r.Waited.Round(10*time.Microsecond).String())
	}
	pair("rule", r.Rule)
	pair("dry_run_rule", r.DryRun)
	pair("candidate_rule", r.Candidate)
	pair("upstream", r.Upstream)
	pair("err", r.Err)
	if r.Count > 0 {
		pair("count", strconv.FormatInt(r.Count, 10))
	}
	return append(b, '\n')
}

// combinedLine appends a line in the combined format of Apache and nginx. With
// a sum there is one line, as if it had been one request.
func combinedLine(b []byte, r *Record) []byte {
	b = append(b, r.Client.String()...)
	b = append(b, " - - ["...)
	b = r.At.Time().Local().AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, `] "`...)
	b = appendQuoted(b, r.Method, mostWord)
	b = append(b, ' ')
	b = appendQuoted(b, r.Target, mostTarget)
	b = append(b, ' ')
	b = append(b, r.Proto...)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, r.Bytes, 10)
	for _, s := range []string{r.Referer, r.UserAgent} {
		if s == "" {
			s = "-"
		}
		b = append(b, ` "`...)
		b = appendQuoted(b, s, mostAgent)
		b = append(b, '"')
	}
	return append(b, '\n')
}

// appendQuoted appends at most so many bytes of s as it stands between quotes in
// a combined log.
func appendQuoted(b []byte, s string, most int) []byte {
	end := len(b) + most
	for i := range len(s) {
		start := len(b)
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
		if len(b) > end {
			return b[:start]
		}
	}
	return b
}

// appendWord appends about so many bytes of s at most, quoted if a terminal or a
// reader could misread it.
func appendWord(b []byte, s string, most int) []byte {
	s = s[:min(len(s), most)]
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }) {
		return append(b, s...)
	}
	for {
		word := strconv.AppendQuoteToASCII(b, s)
		if len(word)-len(b) <= most+len(`""`) {
			return word
		}
		s = s[:len(s)/2]
	}
}
