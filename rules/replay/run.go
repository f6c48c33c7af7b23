package replay

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"gateway/limit"
	"gateway/rules"
)

// Run is what the rules of one file make of the requests of logs. It is used by one
// goroutine at a time.
type Run struct {
	set     *rules.Set
	host    string // of requests whose log does not say it
	limiter limit.Limiter
	claims  []limit.Claim
	held    bool // claims are of a request in progress

	*request // the one that is being read or decided
	requests [ahead]request
	begun    bool
	warmed   int64

	wants     []string // headers that the file looks at
	basic     bool     // one of them is the user name
	forwarded http.Header
	exempt    bool // the file's exempt looks at more than our log shows

	rules      []*ruleRun
	anySettles bool // some rule gives back what it takes
	punishes   bool // some rule blocks keys for their refusals, so that each of them counts
	tries      bool // other limits, too
	measures   bool // candidates
	ends       ends
	line       timeline
	step       int

	now, first, last  limit.Instant
	swept, sinceSweep int64
	total             Totals
	logged            AsLogged
	loggedAt          []Unread
	peers             peers
	ownLines          int64
}

// Totals count requests.
type Totals struct {
	// Requests are all that the logs tell of; Decided those that some rule applied to.
	Requests int64 `json:"requests"`
	Decided  int64 `json:"decided"`
	// Refused are those that a rule refused, WouldRefuse those that only rules on
	// trial would have.
	Refused     int64 `json:"refused"`
	WouldRefuse int64 `json:"would_refuse"`
	// Malformed are answered 400, NoRoute 404, Blocked 403, before any rule is asked;
	// Lacking are answered 400 for want of a key. Before ended before any rule at the
	// time, by what our own log says of them.
	Malformed int64 `json:"malformed"`
	NoRoute   int64 `json:"no_route"`
	Blocked   int64 `json:"blocked"`
	Lacking   int64 `json:"key_missing"`
	Before    int64 `json:"ended_before_rules"`
	// PathCut are requests of which our own log does not hold all of the path: rules are
	// judged by what it says of them.
	PathCut int64 `json:"path_not_logged"`
	// Status429 had been answered 429 at the time.
	Status429 int64 `json:"refused_then"`
}

// AsLogged compares decisions with those in our own log.
type AsLogged struct {
	// Same are decided as they were, Different otherwise.
	Same      int64 `json:"same"`
	Different int64 `json:"different"`
}

// Outcome is what became of a request.
type Outcome struct {
	// Decided says that rules were asked. Refused says that one refused it.
	Decided, Refused bool
}

// NewRun returns a Run by the rules of set, which must not be in force and is of no
// use to anybody afterwards. host is that of requests whose log does not name one.
func NewRun(set *rules.Set, host string) *Run {
	s := &Run{set: set, host: host, forwarded: http.Header{}, ends: ends{most: mostEnds}}
	s.wants = set.HeadersRead()
	s.basic = slices.Contains(s.wants, "Authorization")
	s.exempt = slices.ContainsFunc(set.ExemptReads(), func(a rules.Attribute) bool { return !ownHolds(a) })
	each := mostKeysOfAll / max(1, len(set.Rules))
	for _, r := range set.Rules {
		for p := range r.Plans() {
			s.punishes = s.punishes || p.Numbers.Penalty.After != nil
			s.measures = s.measures || p.Candidate != nil
		}
		s.anySettles = s.anySettles || r.Settles() || r.Base.Concurrency > 0
		s.rules = append(s.rules, &ruleRun{
			rule: r, keys: keyTable{most: min(mostKeys, max(4096, each))}, views: map[*Format]view{},
		})
	}
	return s
}

func ownHolds(a rules.Attribute) bool {
	name, _, _ := strings.Cut(a.String(), "/")
	return name == "ip" || name == "host" || name == "method" || name == "path" || name == "global" || name == "route" || strings.HasPrefix(name, "path.")
}

// Wants returns the headers of requests and of answers that the rules of set look at.
func Wants(set *rules.Set) (headers, answers []string) {
	for _, r := range set.Rules {
		if h := r.CostFrom.Header; h != "" {
			answers = append(answers, h)
		}
	}
	return append(set.HeadersRead(), "X-Forwarded-For"), answers
}

// Do decides the requests of records, and appends what became of them to outcomes.
// Records must come in the order of their instants; one that is late is decided at
// the present one.
func (s *Run) Do(records []*Record, outcomes []Outcome) []Outcome {
	for len(records) > 0 {
		some := records[:min(ahead, len(records))]
		for i, rec := range some {
			s.request = &s.requests[i]
			s.ask(rec)
		}
		records = records[len(some):]
		s.warm(s.requests[:len(some)], records[:min(ahead, len(records))])
		for i := range some {
			s.request = &s.requests[i]
			outcomes = append(outcomes, s.answer())
		}
	}
	return outcomes
}

// answer decides the request.
func (s *Run) answer() Outcome {
	rec, n := s.rec, s.rec.weight()
	s.begin(rec, n)
	s.ends.settleBefore(rec)
	s.sweep()
	if rec.Status == http.StatusTooManyRequests {
		s.total.Status429 += n
	}
	if !s.asks {
		return Outcome{}
	}
	return s.decide(rec, n)
}

// begin notes when and where the record is.
func (s *Run) begin(rec *Record, n int64) {
	s.now = max(s.now, rec.At)
	s.first, s.last = min(s.first, rec.At), max(s.last, rec.At)
	s.total.Requests += n
	s.step = s.line.at(rec.At)
}

// sweep forgets idle keys when there are twice as many keys as the last one left,
// and some thousands: that costs little, and a decision does not depend on it.
func (s *Run) sweep() {
	if s.sinceSweep++; s.sinceSweep&(1<<13-1) != 0 {
		return
	}
	if s.keysHeld() < 2*s.swept+1<<17 {
		return
	}
	for t := range s.tables {
		t.Sweep(s.now)
	}
	s.swept = s.keysHeld()
}

func (s *Run) keysHeld() (n int64) {
	for t := range s.tables {
		n += t.Stats().Keys
	}
	return n
}

// tables yields all that counts something.
func (s *Run) tables(yield func(*limit.Table) bool) {
	for _, r := range s.set.Rules {
		for _, t := range slices.Concat(r.Tables(), r.Trials()) {
			if !yield(t) {
				return
			}
		}
	}
}

// decide asks the limiter, and notes what each rule made of the request.
func (s *Run) decide(rec *Record, n int64) Outcome {
	trial, ok := s.keysFound(n)
	if !ok {
		s.total.Lacking += n
		return Outcome{Decided: true, Refused: true}
	}
	if len(s.hits) == 0 {
		s.compare(rec, n, "", trial)
		if trial != "" {
			s.total.WouldRefuse += n
		}
		return Outcome{}
	}
	s.total.Decided += n
	passed, refused, wouldRefuse := int64(0), "", int64(0)
	for left := n; left > 0; {
		times := left // of requests alike at one instant, once one is refused all are
		v := s.acquire(rec)
		if v.OK || s.punishes {
			times = 1
		}
		names, dry := s.note(rec, v, times)
		if s.measures {
			s.measure(rec, v.OK, times)
		}
		left -= times
		if v.OK {
			passed++
		} else {
			refused = names
		}
		if dry != "" {
			wouldRefuse += times
			trial = dry
		}
	}
	s.total.Refused += n - passed
	if passed > 0 {
		s.total.WouldRefuse += wouldRefuse
	}
	s.compare(rec, n, refused, trial)
	return Outcome{Decided: true, Refused: passed < n}
}

// keysFound answers a request that lacks a key that a rule insists on. It leaves the
// hits that have one, and returns the names of the rules on trial that have none.
func (s *Run) keysFound(n int64) (trial string, ok bool) {
	lacking := 0
	for i := range s.hits {
		h := &s.hits[i]
		if !h.Missing {
			continue
		}
		lacking++
		r := s.rules[h.Rule.Index]
		r.without += n
		r.lacks += n
		if !h.Rule.DryRun {
			return "", false
		}
		trial = join(trial, h.Rule.Name)
		r.requests += n
		r.refused += n
		r.steps.add(&s.line, s.step, n, n)
	}
	if lacking > 0 {
		s.hits = slices.DeleteFunc(s.hits, func(h rules.Hit) bool { return h.Missing })
	}
	return trial, true
}

// acquire asks for all that the request takes.
func (s *Run) acquire(rec *Record) limit.Verdict {
	if s.held {
		s.claims = nil // they belong to a request that has not ended
	}
	s.claims = slices.Grow(s.claims[:0], len(s.hits))[:len(s.hits)]
	for i := range s.hits {
		c := &s.claims[i]
		c.Mode = limit.Enforce // a Claim may be filled in anew
		s.hits[i].Claim(c)
		c.Tag = int32(i)
	}
	grant, v := s.limiter.Acquire(context.Background(), rec.At, s.claims)
	if v.OK {
		s.hold(rec, grant)
	}
	return v
}

// settles reports whether what the request takes may come back.
func (s *Run) settles() bool {
	return s.anySettles && slices.ContainsFunc(s.hits, func(h rules.Hit) bool { return h.Rule.Settles() || h.Plan.Concurrency > 0 })
}

// hold plans when what the request took comes back.
func (s *Run) hold(rec *Record, grant limit.Grant) {
	if s.held = s.settles(); !s.held {
		return
	}
	answer := answerOf(rec)
	grants := grant.Split()
	for i := range s.claims {
		c := &s.claims[i]
		h := &s.hits[c.Tag]
		slots := h.Plan.Concurrency > 0
		if !c.Result.OK || !slots && !h.Rule.Settles() {
			continue
		}
		e := s.ends.blank()
		*e = end{
			at: rec.At.Add(max(0, rec.Duration)), grant: grants[i], claim: c, rule: s.rules[h.Rule.Index],
			answer: answer, said: -1, slots: slots,
		}
		if o := rec.Own.rule(h.Rule.Name); o != nil {
			e.said = o.Said
			if o.SettledSeq != 0 {
				e.at, e.seq = o.SettledAt, o.SettledSeq
			}
		}
		s.ends.add(e)
	}
}

// answerOf is how a request ended, as far as the log tells.
func answerOf(rec *Record) rules.Answer {
	if o := rec.Own; o != nil {
		return rules.Answer{Status: o.Answer, ClientFailed: o.ClientFailed}
	}
	a := rules.Answer{Status: int(rec.Status), ClientFailed: rec.Status == 499}
	if len(rec.answers) > 0 {
		a.Header = http.Header{}
		for _, h := range rec.answers {
			a.Header[h.name] = append(a.Header[h.name], strings.Clone(h.value))
		}
	}
	return a
}

// note notes what each rule made of so many requests alike, and returns the names
// of the rules that refused them, and of those that would have.
func (s *Run) note(rec *Record, v limit.Verdict, n int64) (refused, trial string) {
	blocked := false
	for i := range s.claims {
		blocked = blocked || !v.OK && s.claims[i].Blocked && s.claims[i].Mode == limit.Enforce
	}
	for i := range s.claims {
		c := &s.claims[i]
		h := &s.hits[c.Tag]
		r := s.rules[h.Rule.Index]
		if h.Rule.DryRun && !v.OK {
			continue // as if it had never come
		}
		if blocked && !c.Blocked {
			continue // the request is blocked, whatever room there is here
		}
		if c.Blocked {
			r.blocked += n
		} else if v.OK && c.Result.OK && c.Result.Wait > 0 {
			r.waited += n
		}
		if v.OK && c.Result.OK && h.Plan.Concurrency == 0 && !h.Rule.Settles() {
			r.units += c.N * n
		} else if v.Full && !c.Result.OK {
			r.full += n
		}
		r.decided(s, h, v.At, c.Result.OK, c.N, n)
	}
	some := false
	for i := range s.claims {
		some = some || !s.claims[i].Result.OK
	}
	for i := 0; some && i < len(s.hits); i++ { // in the order of the file
		for j := range s.claims {
			if c := &s.claims[j]; int(c.Tag) == i && !c.Result.OK && (!blocked || c.Blocked) {
				if name := s.hits[i].Rule.Name; !s.hits[i].Rule.DryRun {
					refused = join(refused, name)
				} else if v.OK {
					trial = join(trial, name)
				}
			}
		}
	}
	if s.tries {
		s.try(rec, n)
	}
	return refused, trial
}

func join(names, name string) string {
	if names == "" {
		return name
	}
	return names + "," + name
}

// compare compares a decision with what our own log says of it.
func (s *Run) compare(rec *Record, n int64, refused, trial string) {
	o := rec.Own
	if o == nil {
		return
	}
	if sameNames(refused, o.Rule) && (refused != "" || sameNames(trial, o.DryRun)) {
		s.logged.Same += n
		return
	}
	s.logged.Different += n
	if len(s.loggedAt) < unreadShown {
		s.loggedAt = append(s.loggedAt, Unread{rec.File().Name, o.Line, fmt.Sprintf("%s, now %s", decisionText(o.Rule, o.DryRun), decisionText(refused, trial))})
	}
}

// sameNames reports whether two lists name the same rules.
func sameNames(a, b string) bool {
	if a == b {
		return true
	}
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func decisionText(refused, trial string) string {
	switch {
	case refused != "":
		return "refused by " + strings.Clone(refused)
	case trial != "":
		return "let through, though " + strings.Clone(trial) + " would have refused it"
	}
	return "let through"
}

// Finish settles what is still in progress.
func (s *Run) Finish() {
	for len(s.ends.list) > 0 {
		s.ends.settle()
	}
}

// peers tells whether nearly all lines come from one address.
type peers struct {
	one    netip.Addr
	same   int64
	others int64
}

// add is the majority vote of Boyer and Moore.
func (p *peers) add(a netip.Addr) {
	switch {
	case a == p.one:
		p.same++
	case p.same > p.others:
		p.others++
	default:
		p.one = a
		p.same++
	}
}
