package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Format is how the lines of a log are written.
type Format struct {
	// Name says so for people.
	Name string
	// holds are the attributes that it can hold beside ip, method and path: "host",
	// "header.User-Agent". "*" is every header.
	holds []string
	// durations says that a line tells how long its request took, fractions that
	// times are finer than a second.
	durations, fractions bool
	own                  bool
	// openEnd says that a line could lose a part of its last field unnoticed.
	openEnd bool

	// plain says that parse does not write to the line.
	plain   bool
	pattern *pattern // of a format that is one
	// parse reads a line into r, whose texts are then parts of it.
	parse func(line []byte, r *Record, c *reading) error
}

// Holds reports whether lines of the format can hold an attribute, as it is written
// in a file: "header.User-Agent".
func (f *Format) Holds(attribute string) bool {
	switch name, _, _ := strings.Cut(attribute, "/"); name {
	case "ip", "method", "path", "global", "route":
		return true
	}
	if strings.HasPrefix(attribute, "path.") || strings.HasPrefix(attribute, "query.") {
		return true
	}
	for _, h := range f.holds {
		if h == attribute || h == "*" && strings.HasPrefix(attribute, "header.") {
			return true
		}
	}
	return false
}

// Durations reports whether a line tells how long its request took.
func (f *Format) Durations() bool { return f.durations }

const (
	commonText   = `$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent`
	combinedText = commonText + ` "$http_referer" "$http_user_agent"`
)

// innerFields are what patterns here need beside the variables of nginx.
var innerFields = map[string]field{
	"ident": {kind: fieldSkip}, "any": {kind: fieldSkip}, "n": {kind: fieldNumber},
	"ms": {kind: fieldDuration, unit: time.Millisecond}, "part": {kind: fieldPart, unit: time.Second},
}

// builtin compiles a pattern of ours.
func builtin(text string, loose bool) *pattern {
	p, err := compileNginx(text)
	if err == nil {
		for i := range p.items {
			if f, ok := innerFields[strings.TrimPrefix(p.items[i].text, "$")]; ok {
				f.text = p.items[i].text
				p.items[i].field = f
			}
		}
		err = p.check()
	}
	if err != nil {
		panic("replay: " + text + ": " + err.Error())
	}
	p.loose = loose
	return p
}

// formatOf makes a Format of a pattern.
func formatOf(name string, p *pattern) *Format {
	last := p.items[len(p.items)-1].kind
	f := &Format{Name: name, plain: true, pattern: p, parse: p.parse, openEnd: p.tail == "" && last != fieldSkip && last != fieldNumber && last != fieldStatus}
	for i := range p.items {
		switch it := &p.items[i]; it.kind {
		case fieldHeader:
			f.holds = append(f.holds, "header."+it.name)
		case fieldForwarded:
			f.holds = append(f.holds, "header.X-Forwarded-For")
		case fieldCookie:
			f.holds = append(f.holds, "cookie."+it.name)
		case fieldAnswer:
			f.holds = append(f.holds, "answer."+it.name)
		case fieldHost:
			f.holds = append(f.holds, "host")
		case fieldUser:
			f.holds = append(f.holds, "basic.username")
		case fieldDuration, fieldPart:
			f.durations = true
		case fieldISOTime, fieldUnixTime, fieldEndTime:
			f.fractions = true
		}
	}
	return f
}

// newFormats returns the formats that are known, the more particular ones first:
// of two that read as many lines the first is taken.
func newFormats() []*Format {
	main := formatOf("nginx main", builtin(combinedText+` "$http_x_forwarded_for"`, true))
	read := main.parse
	main.parse = func(line []byte, r *Record, c *reading) error {
		if err := read(line, r, c); err != nil || r.Forwarded == "" {
			return err
		}
		last := r.Forwarded[strings.LastIndexByte(r.Forwarded, ',')+1:]
		if _, err := parseClient([]byte(strings.TrimSpace(last))); err != nil {
			return errors.New("what follows the User-Agent is no X-Forwarded-For")
		}
		return nil
	}
	traefik := formatOf("Traefik CLF", builtin(combinedText+` $n "$any" "$any" ${ms}ms`, false))
	traefik.fractions = false
	alb := formatOf("AWS ALB", builtin(`$any $any $any $remote_addr $any $part $part $part $status $any $n $n "$request" "$http_user_agent" `+
		`$any $any $any "$any" "$any" "$any" $any $time_iso8601`, true))
	alb.holds = append(alb.holds, "host") // in the URL
	return []*Format{
		{Name: "gateway JSON", own: true, durations: true, fractions: true, holds: []string{"host"}, parse: parseOwn},
		{Name: "Caddy JSON", durations: true, fractions: true, holds: []string{"host", "*", "basic.username", "answer"}, parse: parseCaddy},
		{Name: "Traefik JSON", durations: true, fractions: true, holds: []string{"host", "basic.username"}, parse: parseTraefik},
		{Name: "HAProxy HTTP", durations: true, fractions: true, plain: true, parse: parseHAProxy},
		alb,
		formatOf("Envoy", builtin(`[$time_iso8601] "$request" $status $any $n $n $ms $any "$http_x_forwarded_for" "$http_user_agent" "$any" "$host" "$any"`, true)),
		formatOf("Istio", builtin(`[$time_iso8601] "$request" $status $any $any $any "$any" $n $n $ms $any "$http_x_forwarded_for" "$http_user_agent" "$any" "$host" "$any" $any $any $any $remote_addr $any`, true)),
		traefik,
		main,
		formatOf("combined", builtin(combinedText, true)),
		formatOf("Apache vhost_combined", builtin(`$host `+combinedText, true)),
		formatOf("common", builtin(commonText, false)),
	}
}

// patternFormat returns the format that a pattern describes.
func patternFormat(text string) (*Format, error) {
	p, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	return formatOf("--format", p), nil
}

// recognise returns the format of which most of the lines are, or nil.
func recognise(formats []*Format, lines [][]byte, w *wanted) (best *Format, read int) {
	p := newPageOf(1)
	for _, f := range formats {
		n := 0
		for _, line := range lines {
			if _, err := p.read(f, line, &reading{wants: w}); err == nil {
				n++
			}
		}
		if n > read {
			best, read = f, n
		}
	}
	return best, read
}

// faultOf says what is wrong with a line that is not of format f.
func faultOf(f *Format, formats []*Format, line []byte, err error, last bool, w *wanted) string {
	switch {
	case bytes.IndexByte(line, 0) >= 0:
		return "binary data"
	case len(line) >= maxLine:
		return fmt.Sprintf("longer than %d bytes", maxLine)
	case last:
		return "the last line is cut off: " + err.Error()
	}
	if g, _ := recognise(formats, [][]byte{line}, w); g != nil && g != f {
		return fmt.Sprintf("is %s, not %s as the file is", g.Name, f.Name)
	}
	return "is not " + f.Name + ": " + err.Error()
}
