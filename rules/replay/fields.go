package replay

import (
	"errors"
	"net/netip"
	"strings"
	"time"
)

var (
	errClient   = errors.New("no address of a client")
	errStatus   = errors.New("no status")
	errNumber   = errors.New("no number")
	errDuration = errors.New("no duration")
	errNoTime   = errors.New("the line holds no time")
)

// scratch is what of a line is not in the Record yet.
type scratch struct {
	path, query []byte
	ended       bool // At is the end of the request
}

// set reads the value of a field.
func (f *field) set(b []byte, r *Record, s *scratch, c *reading) (err error) {
	switch f.kind {
	case fieldSkip:
		return nil
	case fieldClient:
		r.Client, err = parseClient(b)
	case fieldCLFTime:
		r.At, err = clfTime(b, &c.stamp)
	case fieldRequest:
		r.request(b)
	case fieldStatus:
		r.Status, err = parseStatus(b)
	case fieldNumber:
		if _, ok := digits(b); !ok && !isDash(b) {
			err = errNumber
		}
	case fieldUser:
		if !isDash(b) {
			r.more().User = text(b)
		}
	case fieldHeader:
		if !isDash(b) {
			r.addHeader(f.name, text(b))
		}
	case fieldAnswer:
		if !isDash(b) {
			r.addAnswer(f.name, text(b))
		}
	case fieldCookie:
		if !isDash(b) {
			r.addHeader("Cookie", f.name+"="+text(b))
		}
	case fieldForwarded:
		if !isDash(b) {
			r.more().Forwarded = text(b)
		}
	case fieldISOTime:
		r.At, err = isoTime(b)
	case fieldEndTime:
		r.At, err = isoTime(b)
		s.ended = true
	case fieldUnixTime:
		r.At, err = unixTime(b)
	case fieldLayout:
		var t time.Time
		if t, err = time.ParseInLocation(f.name, text(b), time.Local); err != nil {
			return errTime
		}
		r.At, err = checkTime(t)
	case fieldMethod:
		r.setMethod(b)
	case fieldTarget:
		r.setTarget(b)
	case fieldPath:
		s.path = b
	case fieldQuery:
		if !isDash(b) {
			s.query = b
		}
	case fieldHost:
		if !isDash(b) {
			r.more().Host = text(b)
		}
	case fieldDuration, fieldPart:
		if isDash(b) || string(b) == "-1" {
			return nil
		}
		d, ok := durationIn(b, f.unit)
		if !ok {
			return errDuration
		}
		if f.kind == fieldDuration {
			r.more().Duration = d
		} else {
			r.more().Duration = max(0, r.Duration) + d
		}
	}
	return err
}

// finish puts together what several fields say.
func (s *scratch) finish(r *Record) error {
	if s.path != nil && r.Target == "" {
		query := strings.TrimPrefix(text(s.query), "?")
		if r.setTarget(s.path); query != "" {
			r.Target += "?" + query
		}
	}
	if s.ended && r.Duration > 0 {
		r.At = r.At.Add(-r.Duration)
	}
	if r.At == 0 {
		return errNoTime
	}
	if !r.Client.IsValid() { // Envoy names nobody but in X-Forwarded-For
		i := strings.LastIndexByte(r.Forwarded, ',')
		client, err := parseClient([]byte(strings.TrimSpace(r.Forwarded[i+1:])))
		if err != nil {
			return errClient
		}
		r.Client, r.more().Forwarded = client, r.Forwarded[:max(0, i)]
	}
	if r.Target == "" {
		r.NoRequest = true
	} else if r.Method() == "" && !r.NoRequest {
		r.method = codeOf("GET")
	}
	return nil
}

// isDash says that a field has no value.
func isDash(b []byte) bool { return len(b) == 0 || len(b) == 1 && b[0] == '-' }

// parseStatus reads a status of three digits. HAProxy writes -1, Envoy 0, for none.
func parseStatus(b []byte) (int16, error) {
	if len(b) == 3 {
		if n, ok := digits(b); ok {
			if n < 100 {
				n = 0 // nginx writes 000 where nothing was answered
			}
			return int16(n), nil
		}
	}
	if isDash(b) || string(b) == "-1" || string(b) == "0" {
		return 0, nil
	}
	return 0, errStatus
}

// request reads METHOD target PROTO.
func (r *Record) request(b []byte) {
	method := 0
	for method < len(b) && 'A' <= b[method] && b[method] <= 'Z' || method < len(b) && (b[method] == '-' || b[method] == '_') && method > 0 {
		method++
	}
	if method == 0 || method > 32 || method == len(b) || b[method] != ' ' {
		r.NoRequest = true
		return
	}
	target := b[method+1:]
	if n := len(target); n > 9 && target[n-9] == ' ' && string(target[n-8:n-3]) == "HTTP/" {
		target = target[:n-9]
	} else {
		for i := n - 1; i >= 0 && i > n-12; i-- { // HTTP/2 has no second digit for some
			if target[i] == ' ' && strings.HasPrefix(text(target[i+1:]), "HTTP/") {
				target = target[:i]
				break
			}
		}
	}
	r.setMethod(b[:method])
	r.setTarget(target)
}

// setTarget takes the path and the query out of a target, which may be a URL.
func (r *Record) setTarget(b []byte) {
	if len(b) > 0 && b[0] != '/' {
		_, rest, absolute := strings.Cut(text(b), "://")
		if !absolute {
			r.NoRequest = true // "*", or what CONNECT wants
			return
		}
		host, after := rest, "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			host, after = rest[:i], rest[i:]
		}
		r.more().Host = host
		if after[0] == '?' {
			after = "/" + after
		}
		r.Target = after
		return
	}
	r.Target = text(b)
}

// parseClient reads an address, perhaps with a port, brackets or a zone.
func parseClient(b []byte) (netip.Addr, error) {
	if a, ok := parseIPv4(b); ok {
		return a, nil
	}
	s := text(b)
	if inside, ok := strings.CutPrefix(s, "["); ok {
		s, _, ok = strings.Cut(inside, "]")
		if !ok {
			return netip.Addr{}, errClient
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		s = s[:i] // 192.0.2.1:4711
	}
	s, _, _ = strings.Cut(s, "%")
	if len(s) > 45 {
		return netip.Addr{}, errClient
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, errClient
	}
	return a.Unmap(), nil
}

// parseIPv4 reads an address of IPv4.
func parseIPv4(b []byte) (netip.Addr, bool) {
	a, n, ok := leadingIPv4(b)
	return a, ok && n == len(b)
}

// leadingIPv4 reads an address of IPv4 at the beginning of b, as nearly all lines
// have one, and returns how long it is.
func leadingIPv4(b []byte) (a netip.Addr, n int, ok bool) {
	four, part, seen, dots := uint32(0), uint32(0), 0, 0
	for n < len(b) {
		c := b[n]
		if d := uint32(c - '0'); d <= 9 {
			if seen > 0 && part == 0 {
				return a, 0, false
			}
			part = part*10 + d
			if seen++; part > 255 {
				return a, 0, false
			}
		} else if c == '.' && seen > 0 && dots < 3 {
			four = four<<8 | part
			dots++
			part, seen = 0, 0
		} else {
			break
		}
		n++
	}
	if dots != 3 || seen == 0 {
		return a, 0, false
	}
	four = four<<8 | part
	return netip.AddrFrom4([4]byte{byte(four >> 24), byte(four >> 16), byte(four >> 8), byte(four)}), n, true
}
