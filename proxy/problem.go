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
	h := x.w.Header()
	if seconds, ok := retryAfter(p.wait); ok && p.wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	x.send(p.status, "application/problem+json", x.problemJSON(p))
}

// sentence returns err, which says all a client may know, as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// send writes an answer of the gateway's own that nobody may keep.
func (x *exchange) send(status int, contentType, body string) {
	x.problem = true
	x.w.Header().Set("Cache-Control", "no-store")
	x.write(status, contentType, body)
}

// write writes an answer of the gateway's own. A body of the request that is not
// there already is not waited for. net/http would wait, even for one that the
// client holds back until it sees 100 Continue, unless the connection is to end.
func (x *exchange) write(status int, contentType, body string) {
	h := x.w.Header()
	if x.body != nil && x.sent == 0 && x.r.ProtoMajor == 1 && !x.body.drain(x.r) {
		h.Set("Connection", "close")
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
		h.Set("X-Content-Type-Options", "nosniff")
	}
	if status != http.StatusNoContent && status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead && body != "" {
		x.w.Write([]byte(body))
	}
}

func (x *exchange) problemJSON(p problem) string {
	var b strings.Builder
	b.WriteString(`{"type":`)
	kind, title := p.kind, p.title
	if kind == "" {
		kind = "about:blank"
	}
	if title == "" {
		title = statusText(p.status)
	}
	writeJSON(&b, kind)
	b.WriteString(`,"title":`)
	writeJSON(&b, title)
	b.WriteString(`,"status":`)
	b.WriteString(strconv.Itoa(p.status))
	if p.detail != "" {
		b.WriteString(`,"detail":`)
		writeJSON(&b, p.detail)
	}
	b.WriteString(`,"instance":`)
	writeJSON(&b, "urn:request:"+x.id)
	if len(p.rules) > 0 {
		b.WriteString(`,"violated-policies":[`)
		for i, name := range p.rules {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(&b, name)
		}
		b.WriteByte(']')
	}
	if seconds, ok := retryAfter(p.wait); ok && p.wait > 0 {
		b.WriteString(`,"retry_after":`)
		b.WriteString(strconv.FormatInt(seconds, 10))
	}
	b.WriteString("}\n")
	return b.String()
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
	h := x.w.Header()
	if seconds, ok := retryAfter(p.wait); ok && p.wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	h.Set("Grpc-Status", strconv.Itoa(p.grpcCode()))
	h.Set("Grpc-Message", grpcMessage(detail))
	h.Set("Cache-Control", "no-store")
	x.write(http.StatusOK, x.r.Header.Get("Content-Type"), "")
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
	first := x.refusing[0]
	spec := &first.Rule.Reject
	wait := v.Wait
	if wait > 0 {
		// It counts from the instant of the decision; the client begins to wait when
		// it has the answer.
		wait = max(1, wait-x.g.clock.Now().Sub(x.asOf))
	}
	if spec.Jitter > 0 && wait > 0 {
		wait += time.Duration(x.random(int64(wait)/100*int64(spec.Jitter) + 1))
	}
	seconds, canWait := retryAfter(wait)
	fill := func(text string) string {
		if !strings.Contains(text, "{") {
			return text
		}
		after := ""
		if canWait {
			after = strconv.FormatInt(seconds, 10)
		}
		return strings.NewReplacer("{rule}", first.Rule.Name, "{limit}", first.Plan.Limit, "{retry_after}", after).Replace(text)
	}
	h := x.w.Header()
	for _, f := range spec.Headers {
		h.Add(f.Name, fill(f.Value))
	}
	names := make([]string, len(x.refusing))
	for i, hit := range x.refusing {
		names[i] = hit.Rule.Name
	}
	p := problem{
		status: spec.Status, kind: quotaExceeded, title: "Too many requests", rules: names, wait: wait,
		detail: fill(spec.Detail),
	}
	if x.blocked {
		p.kind, p.title = abnormalUsage, "Blocked"
	}
	switch {
	case p.detail != "":
	case x.blocked:
		p.detail = `Blocked under rule "` + strings.Join(names, `" and rule "`) + `" for too many refusals` + afterText(seconds, canWait)
	default:
		p.detail = `Over the limit of rule "` + strings.Join(names, `" and rule "`) + `"` + afterText(seconds, canWait)
	}
	if spec.Body == "" || x.grpc {
		x.fail(p)
		return
	}
	if canWait {
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	x.send(spec.Status, spec.ContentType, fill(spec.Body))
}

// afterText says when to try again.
func afterText(seconds int64, canWait bool) string {
	switch {
	case !canWait:
		return "; this request can never pass."
	case seconds == 1:
		return "; try again in 1 second."
	}
	return "; try again in " + strconv.FormatInt(seconds, 10) + " seconds."
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
