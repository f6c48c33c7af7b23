package admin

import (
	"context"
	"sync"
	"time"

	"gateway/proxy"
	"gateway/rules"
)

const (
	// sampleEach is the time between two samples of the counters, samples how many
	// are kept: five minutes.
	sampleEach = 5 * time.Second
	samples    = 60
	// rateSamples is over how many of them a rate is.
	rateSamples = 2
)

// History remembers how the counters of each rule rose in the last five minutes.
// The counters themselves are somewhere else; it reads them now and then, and a
// rule that decides nothing costs it nothing. The zero value is ready; it is safe
// for concurrent use.
type History struct {
	mu    sync.Mutex
	last  time.Time // of the last sample; zero is none yet
	n     int       // samples so far
	rules map[string]*past
}

// past is the history of one rule.
type past struct {
	live  *rules.Live // whose: a rule that starts afresh has no past
	tally tally       // at the last sample
	seen  int         // the sample at which the rule was there last
	since int         // the number of its first sample
	ring  *[samples]tally
}

// tally counts decisions of one rule.
type tally struct{ Allowed, Refused, WouldRefuse int64 }

// tallyOf reads the counters of all plans of r together.
func tallyOf(r *rules.Rule) (t tally) {
	for p := range r.Plans() {
		t.Allowed += p.Live.Allowed.Load() + p.Live.Waited.Load()
		t.Refused += p.Live.Rejected.Load() + p.Live.FailedClosed.Load() + p.Live.Blocked.Load()
		t.WouldRefuse += p.Live.DryRunRejected.Load()
	}
	return t
}

// minus returns what was counted since old; a counter that began again rose by
// nothing.
func (t tally) minus(old tally) tally {
	return tally{max(0, t.Allowed-old.Allowed), max(0, t.Refused-old.Refused), max(0, t.WouldRefuse-old.WouldRefuse)}
}

// Run samples the counters of g every five seconds until ctx ends, and returns
// ctx's error.
func (h *History) Run(ctx context.Context, g *proxy.Gateway) error {
	tick := time.NewTicker(sampleEach)
	defer tick.Stop()
	h.sample(time.Now(), g.Current().Rules())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			h.sample(now, g.Current().Rules())
		}
	}
}

// sample reads the counters of set at now.
func (h *History) sample(now time.Time, set *rules.Set) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rules == nil {
		h.rules = map[string]*past{}
	}
	h.last = now
	h.n++
	for _, r := range set.Rules {
		t := tallyOf(r)
		p := h.rules[r.Name]
		if p == nil || p.live != r.Live {
			p = &past{live: r.Live, since: h.n, tally: t}
			h.rules[r.Name] = p
		}
		rise := t.minus(p.tally)
		if p.ring == nil && rise != (tally{}) {
			p.ring = new([samples]tally)
		}
		if p.ring != nil {
			p.ring[h.n%samples] = rise
		}
		p.tally, p.seen = t, h.n
	}
	for name, p := range h.rules {
		if p.seen != h.n {
			delete(h.rules, name)
		}
	}
}

// rates are how fast a rule decides, in decisions a second, over the last ten to
// fifteen seconds, and the decisions of each span of five seconds, the oldest first.
type rates struct {
	Allowed, Refused, WouldRefuse float64
	Spans                         []tally
}

// of returns the rates of r at now.
func (h *History) of(r *rules.Rule, now time.Time) (rates, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.rules[r.Name]
	if p == nil || p.live != r.Live {
		return rates{}, false
	}
	sum := tallyOf(r).minus(p.tally) // since the last sample
	have := min(samples, h.n-p.since)
	span := now.Sub(h.last) + time.Duration(min(rateSamples, have))*sampleEach
	var out rates
	if p.ring != nil {
		out.Spans = make([]tally, 0, have)
		for i := h.n - have + 1; i <= h.n; i++ {
			out.Spans = append(out.Spans, p.ring[i%samples])
		}
		for _, t := range out.Spans[max(0, have-rateSamples):] {
			sum.Allowed, sum.Refused, sum.WouldRefuse = sum.Allowed+t.Allowed, sum.Refused+t.Refused, sum.WouldRefuse+t.WouldRefuse
		}
	}
	s := max(span, time.Second).Seconds() // one request right after the start is no thousand a second
	out.Allowed, out.Refused, out.WouldRefuse = float64(sum.Allowed)/s, float64(sum.Refused)/s, float64(sum.WouldRefuse)/s
	return out, true
}
