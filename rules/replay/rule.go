package replay

import (
	"net/netip"
	"strings"

	"gateway/limit"
	"gateway/rules"
)

// ruleRun is a rule with what it has done so far.
type ruleRun struct {
	rule *rules.Rule

	requests, units, refused, full int64
	blocked, waited                int64
	without, instead, lacks        int64 // without a key: all, counted by another, answered 400
	ignored                        int64 // requests of formats by which it is not judged
	told                           int64 // lines of our own log that say something of it
	keys                           keyTable
	most                           int64 // units of a key in its busiest period
	mostKey                        limit.Digest
	mostAddr                       [16]byte
	heavy                          *heavy
	steps                          steps
	longest                        span
	names                          map[limit.Digest]string // of keys that were refused
	trial                          *trial
	candidate                      *candidate
	views                          map[*Format]view
	periodOf                       numbered // of the last request
	seen                           *Format  // the last one that was looked up, and
	mode                           mode     // how the rule is judged by it
}

// span is a time in which one key was refused without a break.
type span struct {
	key      limit.Digest
	addr     [16]byte
	from, to limit.Instant
}

// mostNames is how many refused keys are remembered by what they read.
const mostNames = 1 << 16

// decided notes what the rule made of requests.
func (r *ruleRun) decided(s *Run, h *rules.Hit, at limit.Instant, ok bool, cost, n int64) {
	r.requests += n
	if h.Instead {
		r.instead += n
		r.without += n
	}
	refused := int64(0)
	if !ok {
		refused = n
		r.refused += n
	}
	r.steps.add(&s.line, s.step, n, refused)
	level := r.keys.level
	row := r.keys.find(h.Key, s.facts.Client)
	if level == 0 && r.keys.level > 0 {
		r.heavy = &heavy{}
		r.heavy.seed(&r.keys)
	}
	if !ok && r.heavy != nil {
		r.heavy.add(h.Key, s.facts.Client, n)
	}
	if row == nil {
		return
	}
	row.add(r.periodAt(at, h), cost*n, n)
	if row.most > r.most {
		if r.most = row.most; r.mostKey != h.Key {
			r.mostKey, r.mostAddr = h.Key, s.facts.Client.As16()
			r.name(s, h.Key)
		}
	}
	if ok {
		row.since = 0
		return
	}
	row.refused += n
	if row.since == 0 {
		row.since = at
	}
	if r.longest.key == (limit.Digest{}) || at.Sub(row.since) > r.longest.to.Sub(r.longest.from) {
		r.longest = span{h.Key, s.facts.Client.As16(), row.since, at}
	}
	r.name(s, h.Key)
}

// periodAt returns the number of the period that at is in.
func (r *ruleRun) periodAt(at limit.Instant, h *rules.Hit) int64 {
	if at != r.periodOf.at || h.Plan != r.periodOf.plan {
		period := h.Plan.Period
		if h.Plan.Concurrency > 0 {
			period = 0
		}
		r.periodOf = numbered{at, h.Plan, periodOf(at, period)}
	}
	return r.periodOf.number
}

// numbered is an instant and the number of a plan's period that it is in.
type numbered struct {
	at     limit.Instant
	plan   *rules.Plan
	number int64
}

// name remembers what a refused key reads, when it is not an address.
func (r *ruleRun) name(s *Run, key limit.Digest) {
	if r.told > 0 || len(r.names) >= mostNames || s.set.ByAddress(r.rule) {
		return // a key that our own log tells is not in its line, which reads as if there were none
	}
	if _, known := r.names[key]; known {
		return
	}
	if text, ok := s.set.KeyText(r.rule, &s.facts); ok {
		if r.names == nil {
			r.names = map[limit.Digest]string{}
		}
		r.names[key] = strings.Clone(text) // which may be the beginning of a long one
	}
}

// nameOf returns the name of a key for people.
func (r *ruleRun) nameOf(s *Run, key limit.Digest, addr [16]byte) string {
	if text, ok := r.names[key]; ok {
		return text
	}
	return s.set.KeyName(r.rule, key, netip.AddrFrom16(addr).Unmap())
}
