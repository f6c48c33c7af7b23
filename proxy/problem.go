package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// problem is an answer of the gateway's own: application/problem+json (RFC 9457).
type problem struct {
	status int
	kind   string // the type URI; "" is about:blank
	title  string // "" is the status's own text
	detail string
	rules  []string      // violated-policies
	wait   time.Duration // Retry-After; 0 or limit.Never is none
}

// quotaExceeded is the type of a refusal by a limit
// (draft-ietf-httpapi-ratelimit-headers).
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// abnormalUsage is the type of the answer to a client that is blocked for what it
// did (draft-ietf-httpapi-ratelimit-headers).
const abnormalUsage = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"

// retryAfter returns wait in whole seconds, rounded up, at least 1; and false
// when waiting does not help.
func retryAfter(wait time.Duration) (int64, bool) {
	if wait == limit.Never {
		return 0, false
	}
	return max(1, ceilSeconds(wait)), true
}

func ceilSeconds(d time.Duration) int64 {
	return int64(d/time.Second) + min(1, int64(d%time.Second))
}

// fail answers with a problem and remembers why, for the access line.
func (x *exchange) fail(p problem) {
	x.result = max(x.result, resultFailed)
	if x.grpc {
		x.failGRPC(p)
		return
	}
	x.sayWhen(p)
	x.buf = p.appendJSON(x.buf[:0], x.id)
	x.send(p.status, problemType, x.buf, nil, nil)
}

// sayWhen puts Retry-After on the answer, if it helps to wait.
func (x *exchange) sayWhen(p problem) {
	if seconds, ok := retryAfter(p.wait); ok && p.wait > 0 {
		x.retry = seconds
	}
}

// Values of header fields that are always the same, and never changed.
var (
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
	closes      = []string{"close"}
)

// sentence returns err, which says all a client may know, as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// send writes an answer of the gateway's own that nobody may keep, with the header
// fields of w, unless that is nil, filled in by f.
func (x *exchange) send(status int, contentType []string, body []byte, w *wording, f *refusal) {
	x.problem = true
	if x.goesStraight() {
		x.sendStraight(status, contentType[0], body, w, f)
		return
	}
	h := x.w.Header()
	if w != nil {
		w.set(h, f)
	}
	h["Cache-Control"] = noStore
	x.write(status, contentType, body)
}

// shortBody is the most of a body whose length net/http finds out by itself.
const shortBody = 1 << 10

// write writes an answer of the gateway's own. A body of the request that is not
// there already is not waited for. net/http would wait, even for one that the
// client holds back until it sees 100 Continue, unless the connection is to end.
func (x *exchange) write(status int, contentType []string, body []byte) {
	h := x.w.Header()
	if x.body != nil && x.sent == 0 && x.r.ProtoMajor == 1 && !x.body.drain(x.r) {
		h["Connection"] = closes
	}
	if contentType != nil {
		h["Content-Type"] = contentType
		h["X-Content-Type-Options"] = noSniff
	}
	head := x.r.Method == http.MethodHead
	if (head || len(body) == 0 || len(body) > shortBody) && status != http.StatusNoContent && status != http.StatusNotModified {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.w.WriteHeader(status)
	if !head && len(body) > 0 {
		x.w.Write(body)
	}
}

// appendJSON appends the body of the answer to a request with that id.
func (p *problem) appendJSON(b []byte, id string) []byte {
	kind, title := p.kind, p.title
	if kind == "" {
		kind = "about:blank"
	}
	if title == "" {
		title = statusText(p.status)
	}
	member := func(name, text string) {
		b = append(append(append(b, '"'), name...), `":"`...)
		b = append(appendInsideJSON(b, text), '"', ',')
	}
	b = append(b, '{')
	member("type", kind)
	member("title", title)
	b = strconv.AppendInt(append(b, `"status":`...), int64(p.status), 10)
	b = append(b, ',')
	if p.detail != "" {
		member("detail", p.detail)
	}
	b = append(appendInsideJSON(append(b, `"instance":"urn:request:`...), id), '"')
	for i, name := range p.rules {
		if i == 0 {
			b = append(b, `,"violated-policies":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(appendInsideJSON(append(b, '"'), name), '"')
		if i == len(p.rules)-1 {
			b = append(b, ']')
		}
	}
	if seconds, ok := retryAfter(p.wait); ok && p.wait > 0 {
		b = strconv.AppendInt(append(b, `,"retry_after":`...), seconds, 10)
	}
	return append(b, '}', '\n')
}

func statusText(status int) string {
	if status == 499 {
		return "Client Closed Request"
	}
	return http.StatusText(status)
}

// failGRPC answers a gRPC call, whose clients look at the status in the
// trailers: HTTP 200, trailers only (gRPC over HTTP/2, "Responses").
func (x *exchange) failGRPC(p problem) {
	x.problem = true
	detail := p.detail
	if detail == "" {
		detail = statusText(p.status)
	}
	x.sayWhen(p)
	h := x.w.Header()
	h["Grpc-Status"] = []string{strconv.Itoa(p.grpcCode())}
	h["Grpc-Message"] = []string{grpcMessage(detail)}
	h["Cache-Control"] = noStore
	x.write(http.StatusOK, []string{x.r.Header.Get("Content-Type")}, nil)
}

// resourceExhausted is the gRPC status of one who has used up what there is for it.
const resourceExhausted = 8

// grpcCode returns the gRPC status of a problem: as gRPC's mapping of HTTP has it
// (http-grpc-status-mapping.md), but for a limit, whatever status the file gives
// its refusals, and for what is too large.
func (p problem) grpcCode() int {
	if p.kind == quotaExceeded || p.kind == abnormalUsage {
		return resourceExhausted
	}
	switch p.status {
	case 400, 414, 431:
		return 13 // INTERNAL
	case 401:
		return 16 // UNAUTHENTICATED
	case 403:
		return 7 // PERMISSION_DENIED
	case 404:
		return 12 // UNIMPLEMENTED
	case 413:
		return resourceExhausted
	case 429, 502, 503, 504:
		return 14 // UNAVAILABLE
	}
	return 2 // UNKNOWN
}

// grpcMessage escapes text as the gRPC protocol wants: printable ASCII but "%".
func grpcMessage(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(0x100+int64(c), 16)[1:]))
		}
	}
	return b.String()
}

// refuse answers a request that one or more rules refused.
func (x *exchange) refuse(v limit.Verdict) {
	w := x.wordings[x.refusing[0].Rule.Index]
	f := refusal{rules: x.refusing, id: x.id}
	f.seconds, f.canWait = w.wait(x, v)
	if f.canWait {
		x.retry = f.seconds
	}
	body, text, kind := w.limited, w.limitedText, quotaExceeded
	if x.blocked {
		body, text, kind = w.blocked, w.blockedText, abnormalUsage
	}
	contentType := problemType
	switch {
	case x.grpc:
		w.set(x.w.Header(), &f)
		x.failGRPC(problem{status: w.status, kind: kind, detail: string(f.write(nil, text))})
		return
	case w.contentType != nil:
		body, contentType = w.body, w.contentType
	}
	x.buf = f.write(x.buf[:0], body)
	x.send(w.status, contentType, x.buf, w, &f)
}

// storeLost answers a request that a rule cannot decide without its store.
func (x *exchange) storeLost(r *rules.Rule) {
	x.fail(problem{
		status: http.StatusServiceUnavailable, title: "Temporarily undecidable", wait: time.Second,
		detail: `Rule "` + r.Name + `" cannot count this request now.`,
	})
}

// full answers a request for which a rule had no memory left.
func (x *exchange) full(r *rules.Rule) {
	x.fail(problem{
		status: http.StatusServiceUnavailable, title: "Temporarily at capacity", wait: time.Second,
		detail: `Rule "` + r.Name + `" cannot take on another client now.`,
	})
}
