package rules

import (
	"net/http"
	"strconv"
	"strings"
)

// Statuses is a set of the status codes 100 to 599. The zero value is empty. It
// is comparable.
type Statuses [8]uint64

// Has reports whether code is in the set.
func (s Statuses) Has(code int) bool {
	i := code - 100
	return i >= 0 && i < 500 && s[i/64]&(1<<(i%64)) != 0
}

func (s *Statuses) add(from, to int) {
	for i := from - 100; i <= to-100; i++ {
		s[i/64] |= 1 << (i % 64)
	}
}

// parseStatus adds "401" or "4xx" to s.
func (s *Statuses) parse(text string) *TextError {
	if class, ok := strings.CutSuffix(text, "xx"); ok && len(class) == 1 && class[0] >= '1' && class[0] <= '5' {
		from := int(class[0]-'0') * 100
		s.add(from, from+99)
		return nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || len(text) != 3 || code < 100 || code > 599 {
		return &TextError{Len: len(text), Msg: "not a status", Hint: "write a status like 401, or a class like 4xx"}
	}
	s.add(code, code)
	return nil
}

// CostFrom says that the upstream's answer names what a request costs. It is
// comparable.
type CostFrom struct {
	// Header is the canonical name of the header that holds a whole number.
	Header string
	// Reserve is taken when the request arrives, and kept if the answer names
	// nothing. Max is the most an answer can charge.
	Reserve, Max int64
}

// Returns says which answers give units back.
type Returns struct {
	// Statuses are those of the upstream's answers.
	Statuses Statuses
	// UpstreamError includes requests that got no answer from the upstream.
	UpstreamError bool
}

// Answer is how a request ended, as far as it matters for what it costs.
type Answer struct {
	// Status is that of the upstream's answer; 0 when there was none.
	Status int
	// Header is that of the upstream's answer, or nil.
	Header http.Header
	// ClientFailed says that the client's side failed: a malformed body, a hang-up.
	ClientFailed bool
}

// Settles reports whether an answer can change what the rule charges.
func (r *Rule) Settles() bool { return r.Count != nil || r.Refund != nil || r.CostFrom.Header != "" }

// Pending reports whether the units of a request are only used up, or not, by
// its answer.
func (r *Rule) Pending() bool { return r.Count != nil || r.Refund != nil }

// Settle returns how many of the n units a request has taken come back after its
// answer; when negative, how many more are charged. A client whose side failed
// gets nothing back, or hanging up would be free.
func (r *Rule) Settle(n int64, a Answer) int64 {
	switch {
	case a.ClientFailed:
		return 0
	case r.Count != nil && !r.Count.Statuses.Has(a.Status): // no answer of the upstream, too
		return n
	case r.Refund != nil && (r.Refund.Statuses.Has(a.Status) || a.Status == 0 && r.Refund.UpstreamError):
		return n
	case r.CostFrom.Header != "" && a.Status != 0:
		if cost, ok := r.CostFrom.read(a.Header); ok {
			return n - cost
		}
	}
	return 0
}

// SaidCost returns what an answer said the request costs, if the rule asks for that.
func (r *Rule) SaidCost(a Answer) (int64, bool) {
	if r.CostFrom.Header == "" || a.Status == 0 {
		return 0, false
	}
	return r.CostFrom.read(a.Header)
}

// read returns what an answer says it costs; not ok when it says nothing that
// can be read. More than Max is Max.
func (c CostFrom) read(h http.Header) (int64, bool) {
	values := h[c.Header]
	if len(values) != 1 {
		return 0, false
	}
	text := strings.TrimSpace(values[0])
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	cost, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // only too large is left
		return c.Max, true
	}
	return min(cost, c.Max), true
}
