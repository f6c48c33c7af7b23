package proxy

import (
	"bufio"
	"context"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"gateway/limit"
)

// Record is what the access log says of one request, or of several refused ones
// of one key that are summed up.
type Record struct {
	// At is the instant of the decision, Seq its number in this process: the two
	// put requests into the order in which they were decided.
	At  limit.Instant
	Seq uint64
	// Client is the client's address, Peer the other end of its connection.
	Client, Peer netip.Addr
	// Host is the name that was asked for, in its normal form.
	Host string
	// Method, Target (path and query, secrets blanked), Proto, Referer and
	// UserAgent are the client's own words.
	Method, Target, Proto, Referer, UserAgent string
	// Status is that of the answer, 499 when the client left before it.
	Status int
	// Bytes are those of the answer's body, Duration that of the whole request.
	Bytes    int64
	Duration time.Duration
	// Upstream, Route and Rule are names of the file; Rule names those that
	// refused, DryRun those that would have, Candidate those whose candidate would have.
	Upstream, Route, Rule, DryRun, Candidate string
	// RequestID is X-Request-Id, TraceID that of traceparent.
	RequestID, TraceID string
	// Waited is how long it waited for its turn.
	Waited time.Duration
	// Result is none, allowed, failed, blocked, shed or rejected.
	Result string
	// PathCut says that the line does not hold the path of Target: it is too long, or
	// partly not to be shown.
	PathCut bool
	// Cost are the units asked for and Settled those kept in the end.
	Cost, Settled int64
	// Answer is the status of the upstream's answer, 0 for none, and ClientFailed
	// says that the client's side failed, where that decides what a rule keeps.
	Answer       int
	ClientFailed bool
	// Rules are the rules that applied and whose part in the decision the other fields
	// do not tell. Only formats that write them get them.
	Rules []RuleRecord
	// Err is why the upstream gave no answer.
	Err string
	// Count is how many requests the line stands for, when it is more than one.
	Count int64

	key limit.Digest // of the first refusing rule
}

// RuleRecord is what a line says of one rule: as much as it takes to repeat the
// decision.
type RuleRecord struct {
	Rule, Tier string
	// Key stands for the client's key, if the line does not show it; else it is zero.
	Key limit.Digest
	// Cost is how many units it takes, where the line does not show what tells; else it
	// is negative. Said is what the answer said; negative is nothing.
	Cost, Said int64
	// SettledAt and SettledSeq are those of limit.Claim.
	SettledAt  limit.Instant
	SettledSeq uint64
}

// AccessLog writes a line for each request. Requests never wait for it: they
// put a Record into a bounded queue, and when that is full the Record is
// dropped and counted. Run writes.
type AccessLog struct {
	queue   chan Record
	dropped atomic.Int64
	format  atomic.Pointer[formatter]
	out     io.Writer

	unwritten int64 // lines in the buffer of Run
}

const accessQueue = 4096

// accessPause is how long others gather behind what has been written, to be written
// at once: else under load each request wakes the writer, for a line of its own.
const accessPause = 10 * time.Millisecond

// NewAccessLog returns an AccessLog that writes to out in format "text", "json",
// "combined" or "off".
func NewAccessLog(out io.Writer, format string) *AccessLog {
	a := &AccessLog{queue: make(chan Record, accessQueue), out: out}
	a.SetFormat(format)
	return a
}

// SetFormat changes the format from the next line on.
func (a *AccessLog) SetFormat(format string) {
	f := formatters[format]
	a.format.Store(&f)
}

// Dropped returns how many records were lost: the queue was full, or writing
// failed.
func (a *AccessLog) Dropped() int64 { return a.dropped.Load() }

// add never blocks.
func (a *AccessLog) add(r Record) {
	select {
	case a.queue <- r:
	default:
		a.dropped.Add(1)
	}
}

// on says that records are wanted.
func (a *AccessLog) on() bool { return a != nil && a.format.Load().line != nil }

// wantsRules says that records want Rules.
func (a *AccessLog) wantsRules() bool { return a.format.Load().rules }

// Run writes records until ctx ends, then what is in the queue, and returns nil.
func (a *AccessLog) Run(ctx context.Context) error {
	w := bufio.NewWriterSize(a.out, 64<<10)
	var s summary
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case r := <-a.queue:
			a.write(w, &s, r)
			for n := len(a.queue); n > 0; n-- {
				a.write(w, &s, <-a.queue)
			}
			a.flush(w)
			pause.Reset(accessPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			continue
		case <-tick.C:
			a.flushSummary(w, &s)
		case <-ctx.Done():
			for n := len(a.queue); n > 0; n-- {
				a.write(w, &s, <-a.queue)
			}
			a.flushSummary(w, &s)
			a.flush(w)
			return nil
		}
		a.flush(w)
	}
}

func (a *AccessLog) flush(w *bufio.Writer) {
	if err := w.Flush(); err != nil {
		a.dropped.Add(a.unwritten)
		w.Reset(a.out) // a bufio.Writer keeps its error for ever
	}
	a.unwritten = 0
}

func (a *AccessLog) write(w *bufio.Writer, s *summary, r Record) {
	if s.absorb(&r) {
		return
	}
	a.print(w, &r)
}

func (a *AccessLog) flushSummary(w *bufio.Writer, s *summary) {
	for _, r := range s.take() {
		a.print(w, r)
	}
}

func (a *AccessLog) print(w *bufio.Writer, r *Record) {
	if f := a.format.Load().line; f != nil {
		var buf [1024]byte
		line := f(buf[:0], r)
		if len(line) > w.Available() { // so that nothing is written but here and there
			a.flush(w)
		}
		w.Write(line)
		a.unwritten++
	}
}

// summary folds the refusals of one key beyond so many in a second into one
// record, so that a client that hammers does not write the log.
type summary struct {
	counts map[refused]int64
	folded map[refused]*Record
}

// refused is a key as one rule, or the same few together, refused it: rules that
// share a recipe have the same digest for a client.
type refused struct {
	key  limit.Digest
	rule string
}

const (
	singleLines = 10    // refusals of one key a second that have a line of their own
	maxFolded   = 10000 // keys told apart in one second; beyond it each has its lines
)

// absorb says that r is part of a sum and needs no line of its own.
func (s *summary) absorb(r *Record) bool {
	if r.key == (limit.Digest{}) {
		return false
	}
	if s.counts == nil {
		s.counts, s.folded = map[refused]int64{}, map[refused]*Record{}
	}
	who := refused{r.key, r.Rule}
	n, known := s.counts[who]
	if !known && len(s.counts) >= maxFolded {
		return false
	}
	s.counts[who] = n + 1
	if n < singleLines {
		return false
	}
	sum := s.folded[who]
	if sum == nil {
		sum = &Record{}
		s.folded[who] = sum
	}
	// The line tells of the last one, so that all it says belongs together.
	many, bytes := sum.Count+1, sum.Bytes+r.Bytes
	*sum = *r
	sum.Count, sum.Bytes = many, bytes
	return true
}

// take returns the sums and begins anew.
func (s *summary) take() []*Record {
	list := make([]*Record, 0, len(s.folded))
	for _, r := range s.folded {
		list = append(list, r)
	}
	clear(s.counts)
	clear(s.folded)
	return list
}
