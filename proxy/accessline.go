package proxy

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// formatter appends the line of a record. nil writes nothing.
type formatter func(buf []byte, r *Record) []byte

var formatters = map[string]formatter{
	"text": textLine, "json": jsonLine, "combined": combinedLine, "off": nil,
}

// maxText bounds each text a client chose, so that a line stays under 4 KiB.
const maxText = 700

func cut(s string) string {
	if len(s) > maxText {
		return s[:maxText]
	}
	return s
}

// jsonLine appends one JSON object. What a client sent cannot break out of it.
func jsonLine(b []byte, r *Record) []byte {
	b = append(b, `{"at":`...)
	b = strconv.AppendInt(b, int64(r.At), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	text := func(name, value string) {
		if value != "" {
			b = append(b, `,"`...)
			b = append(b, name...)
			b = append(b, `":`...)
			b = appendJSON(b, cut(value))
		}
	}
	number := func(name string, n int64) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, n, 10)
	}
	text("client", r.Client.String())
	text("peer", r.Peer.String())
	text("method", r.Method)
	text("path", r.Target)
	number("status", int64(r.Status))
	number("bytes", r.Bytes)
	b = append(b, `,"duration":`...)
	b = strconv.AppendFloat(b, r.Duration.Seconds(), 'f', 6, 64)
	text("upstream", r.Upstream)
	text("route", r.Route)
	text("request_id", r.RequestID)
	text("trace_id", r.TraceID)
	text("rule", r.Rule)
	text("dry_run_rule", r.DryRun)
	text("result", r.Result)
	number("cost", r.Cost)
	number("settled", r.Settled)
	text("err", r.Err)
	if r.Count > 0 {
		number("count", r.Count)
	}
	return append(b, '}', '\n')
}

// appendJSON appends s as a JSON string.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // a string always marshals
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// textLine appends a line for a person.
func textLine(b []byte, r *Record) []byte {
	b = r.At.Time().Local().AppendFormat(b, "15:04:05.000 ")
	b = strconv.AppendInt(b, int64(r.Status), 10)
	for _, s := range []string{r.Method, r.Target, r.Client.String()} {
		b = append(b, ' ')
		b = appendWord(b, s)
	}
	b = append(b, ' ')
	b = append(b, r.Duration.Round(10*time.Microsecond).String()...)
	b = append(b, ' ')
	b = append(b, r.Result...)
	pair := func(name, value string) {
		if value != "" {
			b = append(b, ' ')
			b = append(b, name...)
			b = append(b, '=')
			b = appendWord(b, value)
		}
	}
	pair("rule", r.Rule)
	pair("dry_run_rule", r.DryRun)
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
	b = appendQuoted(b, r.Method)
	b = append(b, ' ')
	b = appendQuoted(b, r.Target)
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
		b = appendQuoted(b, s)
		b = append(b, '"')
	}
	return append(b, '\n')
}

// appendQuoted appends s as it stands between quotes in a combined log.
func appendQuoted(b []byte, s string) []byte {
	s = cut(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// appendWord appends s, quoted if a terminal or a reader could misread it.
func appendWord(b []byte, s string) []byte {
	s = cut(s)
	if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }) {
		return strconv.AppendQuoteToASCII(b, s)
	}
	return append(b, s...)
}
