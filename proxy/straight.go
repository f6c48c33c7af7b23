package proxy

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
)

// straight is an answer of the gateway's own whose header fields net/http does not
// see: it copies, sorts and checks them, which costs more than all that the gateway
// does to refuse a request. net/http is told the status alone, and writes a head with
// what is its own to say: the version, the date, what becomes of the connection, and
// that there is no body. The fields and the body are put in as that head goes out, in
// the same write.
type straight struct {
	buf    []byte // header fields, each with the end of its line, and then the body
	fields int    // bytes of the former
	head   bool   // the body is not sent: it answers HEAD
	out    []byte // the whole answer
}

var straights = sync.Pool{New: func() any { return new(straight) }}

// goesStraight reports whether an answer of the gateway's own can go that way: over
// HTTP/1 without TLS, to a request without a body, and with no other header fields
// than send and a wording have.
func (x *exchange) goesStraight() bool {
	return x.line != nil && x.body == nil && x.w.status == 0 && x.tightest == nil && (x.plan == nil || len(x.plan.Response.Set) == 0)
}

// sendStraight is send.
func (x *exchange) sendStraight(status int, contentType string, body []byte, w *wording, f *refusal) {
	s := straights.Get().(*straight)
	b := append(append(s.buf[:0], "Cache-Control: no-store\r\nContent-Type: "...), contentType...)
	b = append(append(b, "\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: "...), x.id...)
	if x.policy > 0 {
		b = append(append(b, "\r\nRateLimit: "...), x.text[x.policy:]...)
		b = append(append(b, "\r\nRateLimit-Policy: "...), x.text[:x.policy]...)
	}
	if x.retry > 0 {
		b = strconv.AppendInt(append(b, "\r\nRetry-After: "...), x.retry, 10)
	}
	if w != nil {
		for i := range w.headers {
			b = append(append(b, "\r\n"...), w.headers[i].name...)
			b = f.write(append(b, ": "...), w.headers[i].value)
		}
	}
	b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(body)), 10)
	b = append(b, "\r\n"...)
	s.fields, s.head = len(b), x.r.Method == http.MethodHead
	s.buf = append(b, body...)
	if !s.head {
		x.w.bytes = int64(len(body))
	}
	x.w.status = status
	x.line.straight = s
	x.w.ResponseWriter.WriteHeader(status) // which makes the head when the handler has returned
}

var (
	endOfLine = []byte("\r\n")
	endOfHead = []byte("\r\n\r\n")
	emptyBody = []byte("\r\nContent-Length: 0\r\n")
)

// fill returns the answer, given the head that net/http has made; or false if that is
// none of an answer without a body. It then goes out as it is, for the client to have
// at least the status.
func (s *straight) fill(head []byte) ([]byte, bool) {
	line, end := bytes.Index(head, endOfLine), bytes.Index(head, endOfHead)
	if line < 0 || end+len(endOfHead) != len(head) {
		return nil, false
	}
	out := append(append(s.out[:0], head[:line+len(endOfLine)]...), s.buf[:s.fields]...)
	switch before, after, ok := bytes.Cut(head[line:], emptyBody); {
	case ok:
		out = append(append(append(out[:len(out)-len(endOfLine)], before...), endOfLine...), after...)
	case s.head:
		out = append(out, head[line+len(endOfLine):]...)
	default:
		return nil, false
	}
	if !s.head {
		out = append(out, s.buf[s.fields:]...)
	}
	s.out = out
	return out, true
}

// writeStraight is Write for the head of an answer that goes straight.
func (c *conn) writeStraight(head []byte) (int, error) {
	s := c.straight
	c.straight = nil
	defer straights.Put(s)
	out, ok := s.fill(head)
	if !ok {
		return c.write(head)
	}
	if _, err := c.write(out); err != nil {
		return 0, err
	}
	return len(head), nil
}
