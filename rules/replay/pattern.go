package replay

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// pattern is a format of lines: texts and fields in turn.
type pattern struct {
	items []item
	tail  string // after the last field
	loose bool   // more fields may follow
	clf   bool   // it begins as lines of nginx and Apache do
	ends  bool   // it ends as their combined ones do, of which nobody wants the headers
}

// item is a field and the text before it.
type item struct {
	before, after string
	field
	quoted bool // stands in quotes, in which quotes are escaped
}

// field says what a part of a line means.
type field struct {
	kind fieldKind
	name string // of a header
	unit time.Duration
	text string // as it is written in the pattern
}

type fieldKind uint8

const (
	fieldSkip      fieldKind = iota
	fieldNumber              // a number or "-", of no use here
	fieldClient              // an address, perhaps with a port
	fieldUser                //
	fieldCLFTime             // 02/Jan/2006:15:04:05 -0700
	fieldISOTime             //
	fieldUnixTime            // in any unit
	fieldLayout              // a time in the layout of name
	fieldEndTime             // ISO, of the end of the request
	fieldRequest             // METHOD target PROTO
	fieldMethod              //
	fieldTarget              // path and query
	fieldPath                //
	fieldQuery               // without "?"
	fieldHost                //
	fieldStatus              //
	fieldDuration            // in unit
	fieldPart                // a part of the duration, in unit
	fieldHeader              // of the request
	fieldForwarded           // X-Forwarded-For
	fieldAnswer              // a header of the answer
	fieldCookie              //
)

// parse reads line into r.
func (p *pattern) parse(line []byte, r *Record, c *reading) error {
	var s scratch
	c.unescaped = c.unescaped[:0]
	i, first := 0, 0
	if p.clf {
		if i = clfHead(line, r, c); i > 0 {
			if p.ends && combinedTail(line[i:], p.loose) {
				return s.finish(r)
			}
			first = clfItems
		}
	}
	for n := first; n < len(p.items); n++ {
		it := &p.items[n]
		// What comes before another field has been found as the end of the one before that.
		if n == 0 && !hasPrefix(line, it.before) {
			return fmt.Errorf("column 1: no %s before %s", quoteText(it.before), it.text)
		}
		i += len(it.before)
		end := it.plainEnd(line[i:])
		if end < 0 {
			end = endOf(line[i:], it.after, it.quoted, p.loose)
		}
		if end < 0 {
			return fmt.Errorf("column %d: %s does not end", i+1, it.text)
		}
		value := line[i : i+end]
		i += end
		if it.kind == fieldSkip {
			continue
		}
		if it.quoted && bytes.IndexByte(value, '\\') >= 0 {
			value = c.unescape(value)
		}
		if err := it.set(value, r, &s, c); err != nil {
			return fmt.Errorf("column %d: %w", i-end+1, err)
		}
	}
	if rest := string(line[i:]); rest != p.tail && !(p.loose && strings.HasPrefix(rest, p.tail)) {
		return fmt.Errorf("column %d: the line goes on", i+1)
	}
	return s.finish(r)
}

// keepOnly passes over what of a request and of its answer nobody wants.
func (p *pattern) keepOnly(w *wanted) {
	for i := range p.items {
		f := &p.items[i].field
		wanted := true
		switch f.kind {
		case fieldHeader:
			_, wanted = w.request[f.name]
		case fieldCookie:
			_, wanted = w.request["Cookie"]
		case fieldUser:
			_, wanted = w.request["Authorization"]
		case fieldAnswer:
			_, wanted = w.answer[f.name]
		}
		if !wanted {
			f.kind = fieldSkip
		}
	}
	p.ends = p.clf && p.endsCombined()
}

func quoteText(s string) string { return fmt.Sprintf("%q", s) }

func hasPrefix(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }

// plainEnd is endOf for what nearly all lines have, where nothing is escaped in quotes;
// or -1, which says nothing.
func (it *item) plainEnd(b []byte) int {
	if !it.quoted {
		return -1
	}
	n := bytes.IndexByte(b, '"')
	if n < 0 || n > 0 && b[n-1] == '\\' || !hasPrefix(b[n:], it.after) {
		return -1
	}
	return n
}

// endOf returns how long the value at the beginning of b is, which after follows;
// or -1. A value that may be the last of a longer line ends at a space.
func endOf(b []byte, after string, quoted, loose bool) int {
	if quoted {
		for from := 0; ; {
			n := bytes.IndexByte(b[from:], '"')
			if n < 0 {
				return -1
			}
			n += from
			if len(b)-n >= len(after) && string(b[n:n+len(after)]) == after && !isEscaped(b[:n]) {
				return n
			}
			from = n + 1
		}
	}
	switch {
	case after == "" && loose:
		if n := bytes.IndexByte(b, ' '); n >= 0 {
			return n
		}
		return len(b)
	case after == "":
		return len(b)
	case len(after) == 1:
		return bytes.IndexByte(b, after[0])
	}
	for from := 0; ; from++ { // short texts, which nearly always are where their first byte is
		n := bytes.IndexByte(b[from:], after[0])
		if n < 0 || len(b)-from-n < len(after) {
			return -1
		}
		if from += n; string(b[from:from+len(after)]) == after {
			return from
		}
	}
}

// isEscaped reports whether what follows b is behind a backslash that counts.
func isEscaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// unescape undoes \" \\ \n \t \xHH and the like.
func (c *reading) unescape(b []byte) []byte {
	n := len(c.unescaped)
	c.unescaped = appendUnescaped(c.unescaped, b)
	return c.unescaped[n:]
}

func appendUnescaped(out, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' || i+1 == len(b) {
			out = append(out, c)
			continue
		}
		i++
		switch c = b[i]; c {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'x':
			if i+2 < len(b) {
				hi, lo := hexDigit(b[i+1]), hexDigit(b[i+2])
				if hi < 16 && lo < 16 {
					out = append(out, hi<<4|lo)
					i += 2
					continue
				}
			}
			out = append(out, '\\', 'x')
		default:
			out = append(out, c)
		}
	}
	return out
}

func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

// compilePattern reads a pattern in the words of nginx ($remote_addr) or in those
// of Apache (%h).
func compilePattern(text string) (*pattern, error) {
	var p *pattern
	var err error
	if strings.Contains(text, "$") {
		p, err = compileNginx(text)
	} else {
		p, err = compileApache(text)
	}
	if err != nil {
		return nil, err
	}
	return p, p.check()
}

// check completes p and wants of it what no request can do without.
func (p *pattern) check() error {
	has := map[fieldKind]bool{}
	for i := range p.items {
		it := &p.items[i]
		has[it.kind] = true
		after := p.tail
		if i+1 < len(p.items) {
			after = p.items[i+1].before
		}
		if i > 0 && it.before == "" {
			return fmt.Errorf("nothing tells where %s ends and %s begins", p.items[i-1].text, it.text)
		}
		it.after = after
		it.quoted = strings.HasSuffix(it.before, `"`) && strings.HasPrefix(after, `"`)
	}
	p.clf = p.beginsCLF()
	switch {
	case !has[fieldClient] && !has[fieldForwarded]:
		return errors.New("the pattern holds no address of the client: $remote_addr or %h")
	case !has[fieldCLFTime] && !has[fieldISOTime] && !has[fieldUnixTime] && !has[fieldEndTime] && !has[fieldLayout]:
		return errors.New("the pattern holds no time: $time_local, $time_iso8601, $msec or %t")
	case !has[fieldRequest] && !has[fieldTarget] && !has[fieldPath]:
		return errors.New("the pattern holds no request: $request, $request_uri or %r")
	}
	return nil
}

// nginxFields are the variables of nginx that mean something here. Others are
// passed over.
var nginxFields = map[string]field{
	"remote_addr": {kind: fieldClient}, "binary_remote_addr": {kind: fieldSkip}, "remote_user": {kind: fieldUser},
	"time_local": {kind: fieldCLFTime}, "time_iso8601": {kind: fieldISOTime}, "msec": {kind: fieldUnixTime},
	"request": {kind: fieldRequest}, "request_method": {kind: fieldMethod}, "request_uri": {kind: fieldTarget},
	"uri": {kind: fieldPath}, "document_uri": {kind: fieldPath}, "args": {kind: fieldQuery}, "query_string": {kind: fieldQuery},
	"host": {kind: fieldHost}, "http_host": {kind: fieldHost}, "server_name": {kind: fieldSkip},
	"status": {kind: fieldStatus}, "body_bytes_sent": {kind: fieldNumber}, "bytes_sent": {kind: fieldNumber},
	"request_length": {kind: fieldNumber}, "request_time": {kind: fieldDuration, unit: time.Second},
	"http_x_forwarded_for": {kind: fieldForwarded}, "proxy_add_x_forwarded_for": {kind: fieldForwarded},
}

// compileNginx reads the words of nginx's log_format.
func compileNginx(text string) (*pattern, error) {
	p := &pattern{}
	before := ""
	for i := 0; i < len(text); {
		if text[i] != '$' {
			before += text[i : i+1]
			i++
			continue
		}
		start, braces := i+1, strings.HasPrefix(text[i+1:], "{")
		if braces {
			start++
		}
		end := start
		for end < len(text) && (isWordByte(text[end])) {
			end++
		}
		name := text[start:end]
		if braces {
			if !strings.HasPrefix(text[end:], "}") {
				return nil, fmt.Errorf("the variable %q has no closing brace", text[i:end])
			}
			end++
		}
		if name == "" {
			return nil, fmt.Errorf("column %d: a $ without the name of a variable", i+1)
		}
		f, known := nginxFields[name]
		header := func(prefix string) (string, bool) {
			rest, ok := strings.CutPrefix(name, prefix)
			return http.CanonicalHeaderKey(strings.ReplaceAll(rest, "_", "-")), ok && rest != ""
		}
		if !known {
			if h, ok := header("http_"); ok {
				f = field{kind: fieldHeader, name: h}
			} else if h, ok := header("sent_http_"); ok {
				f = field{kind: fieldAnswer, name: h}
			} else if h, ok := header("upstream_http_"); ok {
				f = field{kind: fieldAnswer, name: h}
			} else if c, ok := strings.CutPrefix(name, "cookie_"); ok && c != "" {
				f = field{kind: fieldCookie, name: c}
			}
		}
		f.text = "$" + name
		p.items = append(p.items, item{before: before, field: f})
		before, i = "", end
	}
	p.tail = before
	return p, nil
}

func isWordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// apacheFields are the directives of Apache's LogFormat.
var apacheFields = map[byte]field{
	'h': {kind: fieldClient}, 'a': {kind: fieldClient}, 'l': {kind: fieldSkip}, 'u': {kind: fieldUser}, 't': {kind: fieldCLFTime},
	'r': {kind: fieldRequest}, 'm': {kind: fieldMethod}, 'U': {kind: fieldPath}, 'q': {kind: fieldQuery}, 'H': {kind: fieldSkip},
	's': {kind: fieldStatus}, 'b': {kind: fieldNumber}, 'B': {kind: fieldNumber}, 'O': {kind: fieldNumber}, 'I': {kind: fieldNumber},
	'D': {kind: fieldDuration, unit: time.Microsecond}, 'T': {kind: fieldDuration, unit: time.Second},
	'v': {kind: fieldSkip}, 'V': {kind: fieldHost}, 'p': {kind: fieldSkip}, 'P': {kind: fieldSkip}, 'k': {kind: fieldSkip},
	'X': {kind: fieldSkip}, 'A': {kind: fieldSkip}, 'f': {kind: fieldSkip}, 'L': {kind: fieldSkip}, 'R': {kind: fieldSkip},
	'S': {kind: fieldSkip}, 'e': {kind: fieldSkip}, 'n': {kind: fieldSkip}, 'E': {kind: fieldSkip},
}

// compileApache reads the words of Apache's LogFormat.
func compileApache(text string) (*pattern, error) {
	p := &pattern{}
	before := ""
	for i := 0; i < len(text); {
		if text[i] != '%' {
			before += text[i : i+1]
			i++
			continue
		}
		start := i
		i++
		if strings.HasPrefix(text[i:], "%") {
			before += "%"
			i++
			continue
		}
		for i < len(text) && strings.IndexByte("<>!,0123456789", text[i]) >= 0 {
			i++ // which of several requests, or of which statuses
		}
		arg := ""
		if strings.HasPrefix(text[i:], "{") {
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return nil, fmt.Errorf("the directive %q has no closing brace", text[start:])
			}
			arg, i = text[i+1:i+end], i+end+1
		}
		if i >= len(text) {
			return nil, fmt.Errorf("column %d: a %% without a directive", start+1)
		}
		f, known := apacheFields[text[i]]
		letter := text[i]
		i++
		switch {
		case letter == 'i' && strings.EqualFold(arg, "X-Forwarded-For"):
			f, known = field{kind: fieldForwarded}, true
		case letter == 'i' && strings.EqualFold(arg, "Host"):
			f, known = field{kind: fieldHost}, true
		case letter == 'i' && arg != "":
			f, known = field{kind: fieldHeader, name: http.CanonicalHeaderKey(arg)}, true
		case letter == 'o' && arg != "":
			f, known = field{kind: fieldAnswer, name: http.CanonicalHeaderKey(arg)}, true
		case letter == 'C' && arg != "":
			f, known = field{kind: fieldCookie, name: arg}, true
		case letter == 'T' && arg == "ms":
			f.unit = time.Millisecond
		case letter == 'T' && arg == "us":
			f.unit = time.Microsecond
		case letter == 'a' && arg == "c":
			f = field{kind: fieldSkip}
		case letter == 't' && arg != "":
			var err error
			if f, err = apacheTime(arg); err != nil {
				return nil, err
			}
		}
		f.text = text[start:i]
		if !known {
			return nil, fmt.Errorf("unknown directive %s", f.text)
		}
		if f.kind == fieldCLFTime { // %t brings its own brackets
			p.items = append(p.items, item{before: before + "[", field: f})
			before = "]"
			continue
		}
		p.items = append(p.items, item{before: before, field: f})
		before = ""
	}
	p.tail = before
	return p, nil
}

// apacheTime reads the argument of %{...}t.
func apacheTime(arg string) (field, error) {
	end := strings.HasPrefix(arg, "end:")
	arg = strings.TrimPrefix(strings.TrimPrefix(arg, "begin:"), "end:")
	switch arg {
	case "sec", "msec", "usec":
		return field{kind: fieldUnixTime}, nil
	case "msec_frac", "usec_frac":
		return field{}, fmt.Errorf("%%{%s}t is a part of a time; write %%{usec}t", arg)
	}
	_ = end
	layout := ""
	for i := 0; i < len(arg); i++ {
		if arg[i] != '%' || i+1 == len(arg) {
			layout += arg[i : i+1]
			continue
		}
		i++
		word, ok := strftime[arg[i]]
		if !ok {
			return field{}, fmt.Errorf("%%{%s}t: unknown %%%c", arg, arg[i])
		}
		layout += word
	}
	return field{kind: fieldLayout, name: layout}, nil
}

var strftime = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'z': "-0700", 'b': "Jan", 'h': "Jan", 'e': "_2",
	'T': "15:04:05", 'F': "2006-01-02", 'R': "15:04", 'D': "01/02/06", 'y': "06", 'B': "January", 'a': "Mon", 'A': "Monday",
	'I': "03", 'p': "PM", 'Z': "MST", '%': "%",
}
