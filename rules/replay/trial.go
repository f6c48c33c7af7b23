package replay

import (
	"fmt"
	"slices"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// trial decides the requests of a rule by other limits beside its own: those that
// all other rules admit, as if this rule had that limit and nothing else were
// different. Of the keys at most so many are followed; of more a sample.
type trial struct {
	limits  []int64
	buckets []limit.Bucket
	level   uint8
	most    int
	rows    map[limit.Digest]int // number of a key
	keys    []limit.Digest
	states  []limit.State // of each key, one for each limit
	hurt    []uint64      // of each key, a bit for each limit that refused it
	asked   int64         // requests of keys in the sample
	refused []int64       // by each limit
}

// trialMemory bounds the States of all trials.
const trialMemory = 96 << 20

// Try makes s decide by other limits too, so that the report has their curves.
func (s *Run) Try() {
	s.tries = true
	for _, r := range s.rules {
		r.trial = newTrial(r.rule, len(s.rules))
	}
}

// newTrial returns the trial of a rule of so many, or nil for one whose limit is no
// matter of a number in a time.
func newTrial(r *rules.Rule, of int) *trial {
	p := r.Base
	if p.Concurrency > 0 || p.Calendar() || p.MaxWait > 0 || p.Numbers.Penalty.After != nil {
		return nil
	}
	t := &trial{rows: map[limit.Digest]int{}}
	for _, n := range ladder(p.Permits) {
		b, err := bucketOf(r.Algorithm, p, n)
		if err != nil {
			continue
		}
		t.limits, t.buckets = append(t.limits, n), append(t.buckets, b)
	}
	if len(t.limits) == 0 {
		return nil
	}
	t.refused = make([]int64, len(t.limits))
	t.most = max(256, min(1<<16, trialMemory/(32*len(t.limits))/of))
	return t
}

// ladder returns the limits that are tried beside n: from about a fiftieth to fifty
// times as many, in steps of about a quarter, and n itself.
func ladder(n int64) []int64 {
	var list []int64
	for base := int64(1); base <= 1e12; base *= 10 {
		for _, m := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			if v := m * base; v%10 == 0 && v/10 >= max(1, n/50) && v/10 <= n*50 {
				list = append(list, v/10)
			}
		}
	}
	list = append(list, n)
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), 64)]
}

// bucketOf returns what an algorithm makes of n permits in the period of p; a burst
// keeps its share of them.
func bucketOf(algorithm string, p *rules.Plan, n int64) (limit.Bucket, error) {
	burst := max(1, int64(float64(p.Burst)*float64(n)/float64(p.Permits)))
	switch algorithm {
	case "fixed_window":
		return limit.NewFixedWindow(n, p.Period)
	case "sliding_window":
		return limit.NewSlidingWindow(n, p.Period)
	case "token_bucket":
		return limit.NewTokenBucket(n, p.Period, burst)
	case "gcra":
		return limit.NewGCRA(n, p.Period, burst)
	}
	return nil, limit.ErrNumbers // the others keep more than a State, or make wait
}

// try lets the trials of the rules that apply decide so many requests.
func (s *Run) try(rec *Record, n int64) {
	refusing := 0
	for i := range s.claims {
		if c := &s.claims[i]; !c.Result.OK && c.Mode == limit.Enforce {
			refusing++
		}
	}
	for i := range s.claims {
		c := &s.claims[i]
		h := &s.hits[c.Tag]
		t := s.rules[h.Rule.Index].trial
		others := refusing
		if !c.Result.OK && c.Mode == limit.Enforce {
			others--
		}
		if t == nil || h.Plan != h.Rule.Base || others > 0 {
			continue
		}
		if refusing == 0 && h.Rule.Settle(c.N, answerOf(rec)) == c.N && h.Rule.Settles() {
			continue // it gives back what it takes
		}
		t.ask(c.Key, rec.At, c.N, n)
	}
}

// ask lets a key ask for units n times at the instant at.
func (t *trial) ask(key limit.Digest, at limit.Instant, units, n int64) {
	if t.level > 0 && key.Hi>>(64-t.level) != 0 {
		return
	}
	row, known := t.rows[key]
	if !known {
		if len(t.keys) >= t.most {
			t.raise()
			t.ask(key, at, units, n)
			return
		}
		row = len(t.keys)
		t.rows[key] = row
		t.keys = append(t.keys, key)
		t.hurt = append(t.hurt, 0)
		t.states = append(t.states, make([]limit.State, len(t.limits))...)
	}
	t.asked += n
	k := len(t.limits)
	states := t.states[row*k : row*k+k]
	for i, b := range t.buckets {
		for left := n; left > 0; left-- {
			next, r := b.Take(states[i], at, units)
			if !r.OK {
				t.refused[i] += left
				t.hurt[row] |= 1 << i
				break
			}
			states[i] = next
		}
	}
}

// raise drops about half of the keys. What they asked for stays counted, for the
// shares hardly change by it.
func (t *trial) raise() {
	t.level++
	k, kept := len(t.limits), 0
	clear(t.rows)
	for i, key := range t.keys {
		if key.Hi>>(64-t.level) != 0 {
			continue
		}
		copy(t.states[kept*k:], t.states[i*k:i*k+k])
		t.keys[kept], t.hurt[kept] = key, t.hurt[i]
		t.rows[key] = kept
		kept++
	}
	t.keys, t.hurt, t.states = t.keys[:kept], t.hurt[:kept], t.states[:kept*k]
}

// Curve is what other limits of a rule would have refused, of the requests that all
// other rules admit.
type Curve struct {
	// Points are in the order of their limits.
	Points []Point `json:"points"`
	// Suggested is the smallest limit that refuses no more than Wanted; "" when none
	// that was tried does.
	Suggested string `json:"suggested,omitempty"`
	Wanted    Wanted `json:"wanted"`
	// Sampled is of how many keys one was followed.
	Sampled int64 `json:"sampled"`
}

// Point is what one limit would have refused.
type Point struct {
	Limit  string `json:"limit"`
	Number int64  `json:"number"`
	// RequestsShare and ClientsShare are between 0 and 1.
	RequestsShare float64 `json:"requests_refused_share"`
	ClientsShare  float64 `json:"clients_refused_share"`
	// Now says that it is the limit of the file.
	Now bool `json:"now,omitempty"`
}

// Wanted is how much a limit may refuse.
type Wanted struct {
	// Of is "clients" or "requests", Share between 0 and 1.
	Of    string  `json:"of"`
	Share float64 `json:"share"`
}

// curve returns the curve of a rule, or nil.
func (r *ruleRun) curve(w Wanted) *Curve {
	t := r.trial
	if t == nil || t.asked == 0 {
		return nil
	}
	c := &Curve{Wanted: w, Sampled: 1 << t.level}
	for i, n := range t.limits {
		hurt := 0
		for _, bits := range t.hurt {
			hurt += int(bits >> i & 1)
		}
		p := Point{
			Limit: limitText(n, r.rule.Base.Period), Number: n, Now: n == r.rule.Base.Permits,
			RequestsShare: share(t.refused[i], t.asked), ClientsShare: share(int64(hurt), int64(len(t.keys))),
		}
		c.Points = append(c.Points, p)
		got := p.ClientsShare
		if w.Of == "requests" {
			got = p.RequestsShare
		}
		if c.Suggested == "" && got <= w.Share {
			c.Suggested = p.Limit
		}
	}
	return c
}

func share(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// limitText writes a limit as a file would: 100/m, 5/15m.
func limitText(n int64, period time.Duration) string {
	return fmt.Sprintf("%d/%s", n, periodText(period))
}

// periodText writes a period as a limit does: m, 15m, h.
func periodText(d time.Duration) string {
	const day = 24 * time.Hour
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d%u.unit == 0 && d >= u.unit {
			if d == u.unit {
				return u.name
			}
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	return d.String()
}
