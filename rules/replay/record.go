package replay

import (
	"net/netip"
	"time"
	"unsafe"

	"gateway/limit"
)

// Record is what a line of a log says of one request, or of several alike. Its
// texts are valid until it is given back with Reader.Free.
type Record struct {
	// File and Line are where it stands; lines count from 1.
	File *File
	Line int64
	// At is when the request began, as far as the log tells; Seq the order of the
	// decisions of one process, 0 where the log has none.
	At  limit.Instant
	Seq uint64
	// Method, Host and Target (path and query as sent) are the client's words. Host
	// is "" where the log does not say.
	Method, Host, Target string
	// Client is the address that the log names; Forwarded the X-Forwarded-For.
	Client    netip.Addr
	Forwarded string
	// User is the name of HTTP's Basic authentication, unverified.
	User string
	// Status is that of the answer; 0 when it is not known, or there was none.
	Status int
	// Duration is that of the request; negative when it is not known.
	Duration time.Duration
	// Count is how many requests the line stands for.
	Count int64
	// NoRequest says that the line tells of something else than a request that can be
	// decided: a TLS handshake on a plain port, a connection without a word.
	NoRequest bool
	// Own is what only the log of this gateway says.
	Own Own

	headers []headerValue // of the request, as far as somebody wants them
	answers []headerValue // of the answer
	buf     []byte        // the line; texts point into it
	stamp   *timeCache    // of its file
	wants   *wanted       // headers that somebody wants
}

// Own is what the log of this gateway says beside what others say.
type Own struct {
	// Is says that the line is of such a log.
	Is bool
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

// headerValue is a header field under its canonical name.
type headerValue struct{ name, value string }

// reset makes r ready for the line in buf.
func (r *Record) reset() {
	r.At, r.Seq, r.Method, r.Host, r.Target = 0, 0, "", "", ""
	r.Client, r.Forwarded, r.User, r.Status, r.Duration, r.Count, r.NoRequest = netip.Addr{}, "", "", 0, -1, 1, false
	r.headers, r.answers = r.headers[:0], r.answers[:0]
	if r.Own.Is {
		r.Own = Own{Rules: r.Own.Rules[:0]}
	}
}

// Weight is how many requests the record stands for.
func (r *Record) weight() int64 { return max(1, r.Count) }

// text returns b as a string without a copy. b is part of the buffer of a Record,
// which is not written to before the record is given back.
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
