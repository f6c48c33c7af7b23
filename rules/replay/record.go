package replay

import (
	"net/netip"
	"time"
	"unsafe"

	"gateway/limit"
)

// Record is what a line of a log says of one request, or of several alike. Its
// texts are valid until it is given back with Reader.Free.
//
// It has what every decision needs, and fills one line of a cache.
type Record struct {
	// At is when the request began, as far as the log tells.
	At limit.Instant
	// Client is the address that the log names.
	Client netip.Addr
	// Target is the path and the query in the client's words.
	Target string
	// Details are to be read only, but through more.
	*Details
	// Status is that of the answer; 0 when it is not known, or there was none.
	Status int16
	method methodCode
	// NoRequest says that the line tells of something else than a request that can be
	// decided: a TLS handshake on a plain port, a connection without a word.
	NoRequest bool
}

// Details are what only some lines say of a request.
type Details struct {
	// Host is in the client's words; "" where the log does not say.
	Host string
	// Count is how many requests the line stands for.
	Count int64
	// Seq is the order of the decisions of one process, 0 where the log has none.
	Seq uint64
	// Duration is that of the request; negative when it is not known.
	Duration time.Duration
	// Forwarded is the X-Forwarded-For, User the name of HTTP's Basic authentication,
	// unverified.
	Forwarded, User string
	// Own is what only the log of this gateway says; nil of another.
	Own *Own

	headers []headerValue // of the request, as far as somebody wants them
	answers []headerValue // of the answer
	own     *Own          // memory for Own
	method  string        // one without a code
	page    *page         // where the record is, with its texts
}

// File is the log where r stands.
func (r *Record) File() *File { return r.page.file }

// format is what its line is.
func (r *Record) format() *Format { return r.page.format }

// more returns the details of r to be written.
func (r *Record) more() *Details {
	if p := r.page; r.Details == &p.none {
		r.Details = p.details()
	}
	return r.Details
}

// Own is what the log of this gateway says beside what others say.
type Own struct {
	// Result is what became of the request, Route the route it took; Rule and DryRun
	// name the rules that refused it, or would have, joined by commas.
	Result, Route, Rule, DryRun string
	// Answer is the status of the upstream's answer, 0 for none; ClientFailed says
	// that the client's side failed.
	Answer       int
	ClientFailed bool
	// PathCut says that the line does not hold all of the path; Rules are then all
	// that applied, and those only.
	PathCut bool
	// Line is the number of the line, from 1 on.
	Line int64
	// Rules are the rules that applied and that a line does not tell of otherwise.
	Rules []OwnRule
}

// OwnRule is what the log of this gateway says of a rule that applied.
type OwnRule struct {
	Name, Tier string
	Key        limit.Digest
	// Cost is how many units the request takes, Said what the answer said of that;
	// negative is nothing.
	Cost, Said int64
	// SettledAt and SettledSeq say when its units were given back, or used up for
	// good; 0 is never.
	SettledAt  limit.Instant
	SettledSeq uint64
}

// addHeader adds a header of the request, addAnswer one of the answer.
func (r *Record) addHeader(name, value string) {
	d := r.more()
	d.headers = append(d.headers, headerValue{name, value})
}

func (r *Record) addAnswer(name, value string) {
	d := r.more()
	d.answers = append(d.answers, headerValue{name, value})
}

// setStatus sets the status to one that was read, or to one that none can be.
func (r *Record) setStatus(n int64) {
	if n < 0 || n > 999 {
		n = -1
	}
	r.Status = int16(n)
}

// headerValue is a header field under its canonical name.
type headerValue struct{ name, value string }

// ours makes r one of our own log.
func (r *Record) ours() *Own {
	d := r.more()
	if d.own == nil {
		d.own = &Own{}
	}
	*d.own = Own{Rules: d.own.Rules[:0]}
	d.Own = d.own
	return d.own
}

// weight is how many requests the record stands for.
func (r *Record) weight() int64 { return max(1, r.Count) }

// text returns b as a string without a copy. b is a line that is being read, or part
// of a page, which is not written to before its records are given back.
func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// header returns the value of a header of the request that the line holds.
func (r *Record) header(name string) (string, bool) {
	for i := range r.headers {
		if r.headers[i].name == name {
			return r.headers[i].value, true
		}
	}
	return "", false
}
