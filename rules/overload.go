package rules

import (
	"strings"
	"sync/atomic"

	"gateway/limit"
)

// Priority says which requests are refused first when the gateway has too many
// in progress.
type Priority int

const (
	// Normal is the priority of a route that has none.
	Normal Priority = iota
	// Sheddable requests are refused first.
	Sheddable
	// Critical requests are refused last.
	Critical

	priorities = 3
)

// Priorities are all there are.
var Priorities = [priorities]Priority{Normal, Sheddable, Critical}

// String returns the word for p in the file.
func (p Priority) String() string { return [priorities]string{"normal", "sheddable", "critical"}[p] }

// OverloadSpec bounds the requests in progress in the whole gateway. The zero
// OverloadSpec does not.
type OverloadSpec struct {
	// MaxInFlight is how many may be in progress; 0 is no bound.
	MaxInFlight int64
	// Reserve is how many percent of it are kept from all but critical requests,
	// and as many more from sheddable ones: 0 to 49.
	Reserve int64
}

// spare returns how many places a request must leave. Parts of a place are
// rounded in favour of the request.
func (o OverloadSpec) spare(p Priority) int64 {
	part := func(percent int64) int64 { // without overflow
		return o.MaxInFlight/100*percent + o.MaxInFlight%100*percent/100
	}
	switch p {
	case Critical:
		return 0
	case Sheddable:
		return part(2 * o.Reserve)
	}
	return part(o.Reserve)
}

// Overload is a compiled OverloadSpec. It outlives its Set as the Live of a rule
// does: requests in progress stay counted over a reload.
type Overload struct {
	// Live is what the next Set carries on.
	Live *OverloadLive

	gen     uint32
	numbers limit.Numbers
	spare   [priorities]int64
}

// OverloadLive is what of an Overload outlives a list of rules.
type OverloadLive struct {
	// Table counts the requests in progress.
	Table *limit.Table
	// Shed counts the refused requests by priority.
	Shed [priorities]atomic.Int64
}

// everything is the one key of an Overload's Table.
var everything = limit.Digest{Hi: 1, Lo: 1}

// Claim returns what a request of the given priority claims.
func (o *Overload) Claim(p Priority) limit.Claim {
	return limit.Claim{Table: o.Live.Table, Gen: o.gen, Key: everything, N: 1, Spare: o.spare[p]}
}

// compile makes the Overload of o, nil for none, with the Live of the one before.
func (o OverloadSpec) compile(budget *limit.Budget, prev *Set) *Overload {
	if o.MaxInFlight == 0 {
		return nil
	}
	bucket, err := limit.NewConcurrency(o.MaxInFlight)
	if err != nil {
		panic("rules: Parse has let through an overload that is none: " + err.Error())
	}
	c := &Overload{numbers: limit.Numbers{Bucket: bucket, Slots: true}}
	for _, p := range Priorities {
		c.spare[p] = o.spare(p)
	}
	if prev != nil && prev.Overload != nil {
		c.Live = prev.Overload.Live
	} else {
		c.Live = &OverloadLive{Table: limit.NewTable(c.numbers, 1, budget)}
	}
	c.gen = c.Live.Table.Generation()
	if c.Live.Table.Numbers() != c.numbers {
		c.gen++
	}
	return c
}

// activate makes the numbers of o, which may be nil, those of its Table.
func (o *Overload) activate(now limit.Instant) {
	if o != nil {
		o.Live.Table.Renew(o.gen, now, o.numbers, 1)
	}
}

// overload reads how many requests may be in progress.
func (p *parser) overload(n *node) {
	c := p.section(n, partOverload, "overload", " in overload")
	c.check()
	o := OverloadSpec{Reserve: 20}
	if v := c.get("max_in_flight"); v != nil {
		if most, ok := p.whole(v, "max_in_flight", 1, maxNumber); ok {
			o.MaxInFlight = most
		}
	} else if c.lacks("max_in_flight") {
		p.failAt(n, "add max_in_flight: 1000", "no max_in_flight in overload")
	}
	if v := c.get("reserve"); v != nil {
		if text, ok := p.textLike(v, "reserve", "a share like 20%"); ok {
			number, percent := strings.CutSuffix(text, "%")
			share, err := parseWhole(number)
			if !percent || err != nil || share > 49 {
				p.failAt(v, "write it like 20%; twice as much is kept from sheddable requests", "reserve %s: must be 0%% to 49%%", quote(text))
			} else {
				o.Reserve = share
				p.show(v)
			}
		}
	}
	p.file.Overload = o
}

// priority reads the priority of a route.
func (p *parser) priority(v *node, to *Priority) {
	word := to.String()
	p.oneOf(v, "priority", routePriorities, &word)
	for _, is := range Priorities {
		if is.String() == word {
			*to = is
		}
	}
}
