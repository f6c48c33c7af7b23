package replay

import (
	"errors"
	"time"

	"gateway/limit"
)

var errOther = errors.New("the JSON tells of no request")

// wanted are the headers that somebody wants to see, under canonical names: those
// of requests and those of answers.
type wanted struct {
	request, answer map[string]string // a name is its own value, so that a look-up takes no memory
}

func newWanted(request, answer []string) *wanted {
	w := &wanted{map[string]string{}, map[string]string{}}
	for _, name := range request {
		w.request[name] = name
	}
	for _, name := range answer {
		w.answer[name] = name
	}
	return w
}

// parseCaddy reads what Caddy's access log writes by default.
func parseCaddy(line []byte, r *Record, in *reading) error {
	c := cursor{b: line}
	var ts, duration []byte
	var user string
	request, status := false, false
	c.open('{')
	for first := true; c.more('}', &first); {
		switch key := c.key(); string(key) {
		case "ts":
			ts = c.scalar()
		case "duration":
			duration = c.scalar()
		case "status":
			r.setStatus(c.whole())
			status = true
		case "user_id":
			user = text(c.scalar())
		case "request":
			request = true
			r.caddyRequest(&c, in.wants)
		case "resp_headers":
			d := r.more()
			d.answers = headerLists(&c, d.answers, in.wants.answer)
		default:
			c.skip()
		}
	}
	if err := c.end(); err != nil {
		return err
	}
	if !request || !status || ts == nil {
		return errOther
	}
	at, err := anyTime(ts)
	if err != nil {
		return err
	}
	if duration != nil {
		d, ok := durationIn(duration, time.Second)
		if !ok {
			if d, err = time.ParseDuration(text(duration)); err != nil || d < 0 {
				return errDuration
			}
		}
		r.more().Duration = d
		at = at.Add(-d) // the line is written at the end
	}
	r.At = at
	if user != "" {
		r.more().User = user
	}
	if !r.Client.IsValid() {
		return errClient
	}
	return nil
}

func (r *Record) caddyRequest(c *cursor, w *wanted) {
	c.open('{')
	for first := true; c.more('}', &first); {
		switch key := c.key(); string(key) {
		case "remote_ip": // the peer: what client_ip makes of it is up to our own trusted_proxies
			r.setClient(c, c.text())
		case "remote_addr": // before Caddy 2.5
			r.setClient(c, c.text())
		case "method":
			r.setMethod(c.text())
		case "host":
			r.more().Host = text(c.text())
		case "uri":
			r.setTarget(c.text())
		case "headers":
			d := r.more()
			before := len(d.headers)
			d.headers = headerLists(c, d.headers, w.request)
			for _, h := range d.headers[before:] {
				if h.name == "X-Forwarded-For" {
					d.Forwarded = h.value
				}
			}
		default:
			c.skip()
		}
	}
}

func (r *Record) setClient(c *cursor, b []byte) {
	if c.err == nil {
		var err error
		if r.Client, err = parseClient(b); err != nil {
			c.fail(err)
		}
	}
}

// headerLists reads {"Name": ["value", …], …} and keeps the first value of what is wanted.
func headerLists(c *cursor, list []headerValue, want map[string]string) []headerValue {
	c.open('{')
	for first := true; c.more('}', &first); {
		name, wants := want[string(c.key())]
		if c.peek() != '[' {
			if v := c.scalar(); wants && v != nil {
				list = append(list, headerValue{name, text(v)})
			}
			continue
		}
		c.open('[')
		for one := true; c.more(']', &one); {
			value := c.scalar()
			if wants && value != nil {
				list = append(list, headerValue{name, text(value)})
			}
		}
	}
	return list
}

// anyTime reads a time in seconds since 1970 or in one of the usual notations.
func anyTime(b []byte) (limit.Instant, error) {
	if at, err := unixTime(b); err == nil {
		return at, nil
	}
	if at, err := isoTime(b); err == nil {
		return at, nil
	}
	for _, layout := range []string{"2006/01/02 15:04:05.000", "2006/01/02 15:04:05", time.RFC1123Z, "02/Jan/2006:15:04:05 -0700"} {
		if t, err := time.ParseInLocation(layout, text(b), time.UTC); err == nil {
			return checkTime(t)
		}
	}
	return 0, errTime
}

// parseTraefik reads the JSON of Traefik's access log.
func parseTraefik(line []byte, r *Record, in *reading) error {
	c := cursor{b: line}
	var start, user []byte
	known := false
	c.open('{')
	for first := true; c.more('}', &first); {
		switch key := c.key(); string(key) {
		case "StartUTC":
			start = c.text()
		case "time", "StartLocal":
			if v := c.scalar(); start == nil {
				start = v
			}
		case "ClientHost":
			r.setClient(&c, c.text())
		case "ClientAddr":
			if v := c.text(); !r.Client.IsValid() {
				r.setClient(&c, v)
			}
		case "ClientUsername":
			user = c.scalar()
		case "RequestMethod":
			r.setMethod(c.text())
		case "RequestHost", "RequestAddr":
			if v := c.text(); r.Host == "" {
				r.more().Host = text(v)
			}
		case "RequestPath":
			r.setTarget(c.text())
			known = true
		case "DownstreamStatus":
			r.setStatus(c.whole())
		case "Duration":
			r.more().Duration = time.Duration(c.whole())
		default:
			name, isRequest := cutPrefix(key, "request_")
			answer, isAnswer := cutPrefix(key, "downstream_")
			value := c.scalar()
			if n, ok := in.wants.request[string(name)]; isRequest && ok && value != nil {
				r.addHeader(n, text(value))
				if n == "X-Forwarded-For" {
					r.more().Forwarded = text(value)
				}
			} else if n, ok := in.wants.answer[string(answer)]; isAnswer && ok && value != nil {
				r.addAnswer(n, text(value))
			}
		}
	}
	if err := c.end(); err != nil {
		return err
	}
	if !known || start == nil {
		return errOther
	}
	at, err := isoTime(start)
	if err != nil {
		return err
	}
	r.At = at
	if !isDash(user) {
		r.more().User = text(user)
	}
	if !r.Client.IsValid() {
		return errClient
	}
	return nil
}

func cutPrefix(b []byte, prefix string) ([]byte, bool) {
	if len(b) > len(prefix) && string(b[:len(prefix)]) == prefix {
		return b[len(prefix):], true
	}
	return nil, false
}
