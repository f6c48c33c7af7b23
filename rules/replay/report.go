package replay

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gateway/limit"
)

// Report is all that a replay has found. Its JSON is what `gateway replay --json`
// prints.
type Report struct {
	// Lines are those of all logs, LinesUnread those among them that could not be
	// read; Unread are the first of these.
	Lines       int64    `json:"lines"`
	LinesUnread int64    `json:"lines_unread"`
	Unread      []Unread `json:"unread"`
	// Late are records that came too late for their place in the order.
	Late  int64        `json:"lines_late"`
	Files []FileReport `json:"files"`
	// Damaged says that a file could not be read to its end.
	Damaged bool `json:"damaged"`
	// From and To are the first and the last instant.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Totals
	// AsLogged compares with the decisions in a log of this gateway; nil without one.
	AsLogged *LoggedReport `json:"as_logged,omitempty"`
	Notes    []string      `json:"notes"`
	// Step is the length of the steps of RuleReport.When, in seconds, Begin when the
	// first begins.
	Step  float64   `json:"step"`
	Begin time.Time `json:"begin"`
	// Rules are in the order of the file.
	Rules []RuleReport `json:"rules"`
	// Against compares with another file; nil without one.
	Against *Against `json:"against,omitempty"`
}

// FileReport is one log.
type FileReport struct {
	Name   string `json:"name"`
	Format string `json:"format"`
	Lines  int64  `json:"lines"`
	Unread int64  `json:"lines_unread"`
	Damage string `json:"damage,omitempty"`
}

// LoggedReport compares decisions with those that our own log tells of.
type LoggedReport struct {
	AsLogged
	// First are the first that differ.
	First []Unread `json:"first"`
}

// RuleReport is what one rule would have done.
type RuleReport struct {
	Name    string `json:"name"`
	Limit   string `json:"limit"`
	Meaning string `json:"meaning"`
	Key     string `json:"key"`
	DryRun  bool   `json:"dry_run"`
	// Judged says that the rule could be judged by these logs; else Notes say why not,
	// and Unjudged counts the requests.
	Judged   bool  `json:"judged"`
	Unjudged int64 `json:"unjudged"`
	// Requests are those that the rule applied to, Units what they took for good,
	// Refused those that it refused (or would have, in a dry run), alone or with others.
	Requests int64   `json:"requests"`
	Units    int64   `json:"units"`
	Refused  int64   `json:"refused"`
	Share    float64 `json:"share"`
	// Full are requests refused because memory was full.
	Full int64 `json:"refused_memory_full"`
	// Blocked are those among Refused whose keys were blocked for their refusals
	// (penalty), Waited those let through that had to wait for their turn.
	Blocked int64 `json:"blocked"`
	Waited  int64 `json:"waited"`
	// Clients are the keys there were, ClientsRefused those refused at least once.
	Clients        int64 `json:"clients"`
	ClientsRefused int64 `json:"clients_refused"`
	// Sampled is of how many keys one was followed; 1 is all of them.
	Sampled int64 `json:"sampled"`
	// WithoutKey are requests that lack the key: CountedInstead by what stands in for
	// it, Skipped ones passed by, KeyMissing ones answered 400.
	WithoutKey     int64 `json:"without_key"`
	CountedInstead int64 `json:"counted_instead"`
	Skipped        int64 `json:"skipped"`
	KeyMissing     int64 `json:"key_missing"`
	// Top are the keys refused most.
	Top []TopKey `json:"top"`
	// Longest is the longest time in which one key was refused each time; nil without
	// a refusal.
	Longest *Longest `json:"longest,omitempty"`
	// Busiest says how much keys asked for in their busiest period; nil without keys.
	Busiest *Busiest `json:"busiest,omitempty"`
	// Candidate is what the rule's candidate would have done; nil without one.
	Candidate *CandidateReport `json:"candidate,omitempty"`
	// When are the requests over time.
	When []Step `json:"when"`
	// Curve is what other limits would have refused; nil unless it was asked for.
	Curve *Curve   `json:"curve,omitempty"`
	Notes []string `json:"notes"`
}

// TopKey is a key that was refused.
type TopKey struct {
	Key      string  `json:"key"`
	Requests int64   `json:"requests"`
	Refused  int64   `json:"refused"`
	Share    float64 `json:"share"`
	// Over is how much Refused may be too high, where not every key was followed.
	Over int64 `json:"over,omitempty"`
}

// Longest is a time in which one key was refused each time.
type Longest struct {
	Key     string    `json:"key"`
	From    time.Time `json:"from"`
	Seconds float64   `json:"seconds"`
}

// Busiest is the distribution over keys of the units that each asked for in its
// busiest period by the clock: half of the keys never asked for more than P50.
type Busiest struct {
	Period string `json:"period"`
	Limit  int64  `json:"limit"`
	P50    int64  `json:"p50"`
	P90    int64  `json:"p90"`
	P99    int64  `json:"p99"`
	P999   int64  `json:"p99_9"`
	P9999  int64  `json:"p99_99"`
	Max    int64  `json:"max"`
	MaxKey string `json:"max_key"`
	// Points are the distribution for a plot: Share of the keys ask for Units or less.
	Points []Quantile `json:"points"`
}

// Quantile is a point of a distribution.
type Quantile struct {
	Share float64 `json:"share"`
	Units int64   `json:"units"`
}

// Report returns what s has found in the logs of r, which has been read to its end.
// top is how many keys are told of each rule.
func (s *Run) Report(r *Reader, w Wanted, top int) *Report {
	s.Finish()
	rep := &Report{
		Unread: append([]Unread{}, r.Unread()...), Late: r.Late(), Totals: s.total, Notes: []string{}, Rules: []RuleReport{},
		From: s.first.Time(), To: s.last.Time(), Step: s.line.step.Seconds(), Begin: s.line.begin.Time(),
	}
	for _, f := range r.Files() {
		one := FileReport{Name: f.Name, Format: "empty", Lines: f.Lines, Unread: f.Unread, Damage: f.Damage}
		if f.Format != nil {
			one.Format = f.Format.Name
		}
		rep.Damaged = rep.Damaged || f.Damage != ""
		rep.Lines, rep.LinesUnread = rep.Lines+f.Lines, rep.LinesUnread+f.Unread
		rep.Files = append(rep.Files, one)
	}
	if s.logged.Same+s.logged.Different > 0 {
		rep.AsLogged = &LoggedReport{s.logged, append([]Unread{}, s.loggedAt...)}
	}
	rep.Notes = append(rep.Notes, s.notes(r)...)
	for _, one := range s.rules {
		rep.Rules = append(rep.Rules, one.report(s, w, top))
	}
	return rep
}

// notes say what must be known to read the figures of all rules.
func (s *Run) notes(r *Reader) (notes []string) {
	whole, local, host, trusted := "", "", "", ""
	for _, f := range r.Files() {
		if f.Format == nil {
			continue
		}
		if !f.Format.fractions {
			whole = f.Format.Name
		}
		if f.Format.Name == "HAProxy HTTP" {
			local = f.Format.Name
		}
		if !f.Format.Holds("host") && s.readsHost() {
			host = f.Format.Name
		}
		if !f.Format.own && !f.Format.Holds("header.X-Forwarded-For") {
			trusted = f.Format.Name
		}
	}
	if whole != "" {
		notes = append(notes, "the times of "+whole+" are whole seconds: what came within one counts as coming at once, so short bursts look tighter than they were")
	}
	if local != "" {
		notes = append(notes, "the times of "+local+" have no zone: they are taken for "+time.Local.String()+" (set TZ for another)")
	}
	if host != "" {
		notes = append(notes, host+" does not hold the host that was asked for: it is taken for "+quoteHost(s.host)+" (--host)")
	}
	if n := s.ends.cut; n > 0 {
		notes = append(notes, fmt.Sprintf("more than %d requests, each counted for each rule that waits for its end, were in progress at a time: %d are taken to have ended early, so limits on these look looser than they were", s.ends.most, n))
	}
	if p := s.peers; trusted != "" && s.set.TrustedProxies.Contains(p.one) && p.same > 0 {
		notes = append(notes, fmt.Sprintf("many lines come from %v, which trusted_proxies trusts, and %s does not hold X-Forwarded-For: its clients count as one", p.one, trusted))
	}
	return notes
}

func quoteHost(host string) string {
	if host == "" {
		return "none"
	}
	return host
}

func (s *Run) readsHost() bool {
	for _, r := range s.set.Rules {
		reads := r.Reads()
		for _, a := range slices.Concat(reads.Match, reads.Key, reads.Cost) {
			if a.String() == "host" {
				return true
			}
		}
	}
	for _, a := range slices.Concat(s.set.ExemptReads(), s.set.BlockReads()) {
		if a.String() == "host" {
			return true
		}
	}
	return false
}

// report returns the figures of a rule.
func (r *ruleRun) report(s *Run, w Wanted, top int) RuleReport {
	rule := r.rule
	rep := RuleReport{
		Name: rule.Name, Limit: rule.Base.LimitText(), Meaning: rule.Describe(), Key: rule.KeyText, DryRun: rule.DryRun,
		Requests: r.requests, Units: r.units, Refused: r.refused, Share: share(r.refused, r.requests), Full: r.full, Blocked: r.blocked, Waited: r.waited,
		Unjudged: r.ignored, WithoutKey: r.without, CountedInstead: r.instead, KeyMissing: r.lacks, Skipped: rule.Live.Skipped.Load(),
		Clients: r.keys.count(func(*keyRow) bool { return true }), Sampled: 1 << r.keys.level,
		ClientsRefused: r.keys.count(func(k *keyRow) bool { return k.refused > 0 }),
		Top:            []TopKey{}, Notes: []string{}, When: []Step{}, Curve: r.curve(w), Candidate: r.candidate.report(r),
	}
	rep.WithoutKey += rep.Skipped
	r.steps.fold(&s.line)
	rep.When = append(rep.When, r.steps.list...)
	rep.Top = append(rep.Top, r.top(s, top)...)
	if r.longest.key != (limit.Digest{}) {
		rep.Longest = &Longest{
			Key: r.nameOf(s, r.longest.key, r.longest.addr), From: r.longest.from.Time(), Seconds: r.longest.to.Sub(r.longest.from).Seconds(),
		}
	}
	rep.Busiest = r.busiest(s)
	rep.Notes, rep.Judged = r.notes(s)
	return rep
}

// top returns the keys refused most.
func (r *ruleRun) top(s *Run, n int) (list []TopKey) {
	if r.heavy != nil {
		for _, k := range topKeys(slices.Clone(r.heavy.rows), n) {
			list = append(list, TopKey{Key: r.nameOf(s, k.key, k.addr), Refused: k.refused, Over: k.over})
		}
		return list
	}
	for _, k := range r.keys.mostRefused(n) {
		list = append(list, TopKey{Key: r.nameOf(s, k.key, k.addr), Requests: k.requests, Refused: k.refused, Share: share(k.refused, k.requests)})
	}
	return list
}

// busiest returns how much keys asked for in their busiest period.
func (r *ruleRun) busiest(s *Run) *Busiest {
	if r.keys.n == 0 || r.rule.Base.Concurrency > 0 {
		return nil
	}
	most := make([]int64, r.keys.n)
	for i := range most {
		most[i] = r.keys.row(i).most
	}
	b := &Busiest{Period: periodText(r.rule.Base.Period), Limit: r.rule.Base.Permits, Max: r.most, MaxKey: r.nameOf(s, r.mostKey, r.mostAddr)}
	slices.Sort(most)
	at := func(q float64) int64 { return most[min(len(most)-1, int(math.Ceil(q*float64(len(most))))-1)] }
	b.P50, b.P90, b.P99, b.P999, b.P9999 = at(0.5), at(0.9), at(0.99), at(0.999), at(0.9999)
	for i, units := range most {
		if i+1 < len(most) && most[i+1] == units {
			continue
		}
		q := Quantile{float64(i+1) / float64(len(most)), units}
		// Of thousands of different figures a plot shows a few hundred.
		if n := len(b.Points); n > 0 && i+1 < len(most) && float64(units) < 1.02*float64(b.Points[n-1].Units) {
			continue
		}
		b.Points = append(b.Points, q)
	}
	return b
}

// notes say what of the rule could not be judged, and whether anything could.
func (r *ruleRun) notes(s *Run) (notes []string, judged bool) {
	notes, judged = []string{}, true
	seen := map[string]bool{}
	all, off, own := 0, 0, false
	for f, v := range r.views {
		all++
		if v.mode == ignored {
			off++
		}
		own = own || f.own
		for _, n := range v.notes {
			if !seen[n] {
				seen[n] = true
				notes = append(notes, n)
			}
		}
	}
	slices.Sort(notes)
	if all > 0 && off == all {
		judged = false
	}
	if s.ownLines > 0 && r.rule.Beyond() && r.told == 0 {
		judged = judged && all > 0
		notes = append(notes, "not judged by the lines of this gateway: it looks at more than they hold, and they do not tell of a rule of this name")
	}
	if r.instead > 0 && len(notes) == 0 {
		notes = append(notes, fmt.Sprintf("%s of the requests carry no %s: counted by what stands in for it", percent(r.instead, r.requests), r.rule.KeyText))
	}
	if n := r.rule.Live.Skipped.Load(); n > 0 && judged {
		notes = append(notes, fmt.Sprintf("%d requests carry no %s: passed by (missing: skip)", n, r.rule.KeyText))
	}
	if r.lacks > 0 {
		notes = append(notes, fmt.Sprintf("%d requests carry no %s: answered 400 (missing: reject)", r.lacks, r.rule.KeyText))
	}
	if r.blocked > 0 {
		notes = append(notes, fmt.Sprintf("%d of the refusals are of keys blocked for earlier ones (penalty)", r.blocked))
	}
	if r.waited > 0 {
		notes = append(notes, fmt.Sprintf("%d requests wait for their turn and are let through (max_wait)", r.waited))
	}
	if r.keys.level > 0 {
		notes = append(notes, fmt.Sprintf("clients, distribution and times are of every %d-th key; requests and refusals are of all", 1<<r.keys.level))
	}
	if n := evicted(r); n > 0 {
		notes = append(notes, fmt.Sprintf("memory was full: %d keys were forgotten, as they would be in service (max_keys, max_memory)", n))
	}
	return notes, judged
}

func evicted(r *ruleRun) (n int64) {
	for _, t := range r.rule.Tables() {
		n += t.Stats().Evictions
	}
	return n
}

// percent writes a share for people.
func percent(part, all int64) string {
	p := 100 * share(part, all)
	switch {
	case part == 0:
		return "0 %"
	case part == all:
		return "100 %"
	case p < 0.01:
		return "less than 0.01 %"
	case p < 10:
		return fmt.Sprintf("%.2g %%", p)
	}
	return fmt.Sprintf("%.0f %%", min(p, 99))
}
