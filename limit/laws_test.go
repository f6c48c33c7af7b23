package limit

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// algorithm is one row of the conformance suite: every algorithm that is a
// Bucket joins the laws by a line here.
type algorithm struct {
	name  string
	make  func(permits int64, per time.Duration, burst int64) (Bucket, error)
	model func(permits int64, per time.Duration, burst int64) model
	// bursts says that the burst is the algorithm's own number; else it is permits.
	bursts bool
	// slots says that what is taken is in use until it is given back: no law of waits.
	slots bool
	// estimates says that demand, however great, does not get all of the bound.
	estimates bool
	// listed says that what it knows of a key is more than the State.
	listed bool
	// pers, unless nil, are the only periods it has, about.
	pers []time.Duration
}

var algorithms = []algorithm{
	{
		name: "token_bucket",
		make: NewTokenBucket,
		model: func(permits int64, per time.Duration, burst int64) model {
			return &tokenModel{permits: permits, per: per, burst: burst}
		},
		bursts: true,
	},
	{
		name: "fixed_window",
		make: func(permits int64, per time.Duration, _ int64) (Bucket, error) { return NewFixedWindow(permits, per) },
		model: func(permits int64, per time.Duration, _ int64) model {
			return &windowModel{permits: permits, per: per}
		},
	},
	{
		name: "gcra",
		make: NewGCRA,
		model: func(permits int64, per time.Duration, burst int64) model {
			return &gcraModel{permits: permits, per: per, burst: burst}
		},
		bursts: true,
	},
	{
		name: "sliding_window",
		make: func(permits int64, per time.Duration, _ int64) (Bucket, error) { return NewSlidingWindow(permits, per) },
		model: func(permits int64, per time.Duration, _ int64) model {
			return &slidingModel{windowModel{permits: permits, per: per}}
		},
		estimates: true,
	},
	{
		name: "sliding_window_log",
		make: func(permits int64, per time.Duration, _ int64) (Bucket, error) {
			b, err := NewSlidingLog(permits, per)
			if err != nil {
				return nil, err
			}
			return newWithList(b.(slidingLog)), nil
		},
		model: func(permits int64, per time.Duration, _ int64) model {
			return &logModel{permits: permits, per: per}
		},
		listed: true,
	},
	{
		name: "concurrency",
		make: func(permits int64, _ time.Duration, _ int64) (Bucket, error) { return NewConcurrency(permits) },
		model: func(permits int64, _ time.Duration, _ int64) model {
			return &slotModel{n: permits}
		},
		slots: true,
	},
}

// eachAlgorithm runs a property for every algorithm with drawn numbers.
func eachAlgorithm(t *testing.T, property func(*rapid.T, *trial)) {
	for _, a := range slices.Concat(algorithms, calendarRows, queueRows) {
		t.Run(a.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) { property(r, newTrial(r, a)) })
		})
	}
}

// trial is one Bucket and its model going through the same history.
type trial struct {
	algorithm
	permits, full int64
	all           *big.Rat // what there is when nothing is in use
	shift         *big.Rat // what of that is only to be waited for
	per           time.Duration
	b             Bucket
	m             model
	s             State
	now           Instant
	last          Instant // of the latest event: nothing counts as earlier
	wait          time.Duration
	takes         []*taken
}

// taken is a take that passed, and what of it was kept when it was settled.
type taken struct {
	at      Instant
	n, kept int64
	settled bool
}

func newTrial(r *rapid.T, a algorithm) *trial {
	p := &trial{
		algorithm: a,
		permits: rapid.OneOf(
			rapid.SampledFrom([]int64{1, 2, 3, 7, 10, 293, 106_752, 1e9, 1e9 + 1}),
			rapid.Int64Range(1, 1000)).Draw(r, "permits"),
		per: rapid.OneOf(
			rapid.SampledFrom([]time.Duration{1, 7, time.Second, time.Minute, time.Hour, day, 8760 * time.Hour, maxPeriod}),
			rapid.Map(rapid.Int64Range(1, int64(time.Minute)), func(n int64) time.Duration { return time.Duration(n) })).Draw(r, "per"),
	}
	if a.pers != nil {
		p.per = rapid.SampledFrom(a.pers).Draw(r, "its period")
	}
	p.full = p.permits
	if a.bursts {
		p.full = rapid.OneOf(rapid.Just(p.permits), rapid.SampledFrom([]int64{1, 2, 65_535}), rapid.Int64Range(1, 100)).Draw(r, "burst")
	}
	var err error
	if p.b, err = a.make(p.permits, p.per, p.full); err != nil {
		r.Skip("no such limit")
	}
	p.m = a.model(p.permits, p.per, p.full)
	p.level()
	// Before and after the Unix epoch, but not at it: a client that had used
	// nothing then is one never seen.
	p.now = rapid.SampledFrom([]Instant{start, -start}).Draw(r, "start")
	p.last = -1 << 62
	return p
}

// level fills in what there is when nothing is in use.
func (p *trial) level() {
	p.all, p.shift = rat(p.full), rat(0)
	if m, ok := p.m.(*queueModel); ok {
		p.all, p.shift = m.depth(), m.ahead()
		p.full = floorOf(p.all)
		if !m.leaky {
			p.full, p.all = m.burst, rat(m.burst)
		}
	}
}

// shown is how much a Result tells of at the instant now.
func (p *trial) shown(now Instant) *big.Rat { return minus(p.m.left(now), p.shift) }

// pass draws how much time goes by: none, a hair, about the last wait, about
// one unit, about a window, long.
func (p *trial) pass(r *rapid.T) {
	unit := time.Duration(int64(p.per) / p.permits)
	d := rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, 0, 1, p.wait, max(0, p.wait-1), unit, unit + 1, p.per - 1, p.per, 3 * p.per}),
		rapid.Map(rapid.Int64Range(0, int64(p.per)), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, 3*int64(unit)+3), func(n int64) time.Duration { return time.Duration(n) }),
	).Draw(r, "pass")
	if end := p.now.Add(d); end < start+Instant(35*maxPeriod) { // a wait of 200 years still fits
		p.now = end
	}
}

func (p *trial) units(r *rapid.T, name string) int64 {
	some := floorOf(p.m.left(p.now))
	return max(0, rapid.OneOf(rapid.SampledFrom([]int64{1, 1, 1, 2, 0, some, some + 1, p.full, p.full + 1}), rapid.Int64Range(0, 2*p.full)).Draw(r, name))
}

// sees returns what the Bucket is asked with and what it takes that for. A State
// keeps the latest instant; of a sliding window only the window that lies in; a
// log forgets it with its last unit, so for it time does not go back here: a
// Table, which does not forget, is asked in TestClockGoingBackGrantsNothing.
func (p *trial) sees(now Instant) (asked, eff Instant) {
	switch {
	case p.estimates && p.last > -1<<62:
		w := p.m.(*slidingModel)
		return now, max(now, Instant(w.number(p.last)*int64(p.per)))
	case p.listed:
		now = max(now, p.last)
	}
	return now, max(now, p.last)
}

// take takes n units from both and compares all they say.
func (p *trial) take(r failer, now Instant, n int64) Result {
	now, eff := p.sees(now)
	was := p.s
	var got Result
	p.s, got = p.b.Take(p.s, now, n)
	there := floorOf(p.m.left(eff))
	ok := n == 0 || n <= there && n <= p.full
	turn := time.Duration(0)
	if m, waits := p.m.(*queueModel); waits && ok {
		if turn = m.turn(eff, n); turn > 0 {
			turn += eff.Sub(now)
		}
	}
	if got.OK && ok && got.Wait != turn {
		r.Fatalf("take %d at %d: its turn is %v later, want %v", n, now, got.Wait, turn)
	}
	there = floorOf(p.shown(eff))
	if got.OK != ok {
		r.Fatalf("take %d at %d: passed %v with %d there", n, now, got.OK, there)
	}
	if ok {
		p.m.add(event{at: eff, units: n})
		p.last = max(p.last, eff)
		p.takes = append(p.takes, &taken{at: eff, n: n, kept: n})
		there -= n
	} else if p.s != was { // law 1
		r.Fatalf("refused take %d at %d changed %+v to %+v", n, now, was, p.s)
	}
	if want := max(0, there); got.Remaining != want {
		r.Fatalf("take %d at %d: %d left, want %d", n, now, got.Remaining, want)
	}
	p.checkWait(r, now, n, got)
	return got
}

// checkWait is law 5: the wait is sufficient and minimal; the same for Reset.
func (p *trial) checkWait(r failer, now Instant, n int64, got Result) {
	at := func(d time.Duration) *big.Rat {
		_, eff := p.sees(now.Add(d))
		return p.m.left(eff)
	}
	then := func(d time.Duration) *big.Rat { return minus(at(d), p.shift) }
	switch {
	case got.OK:
	case n > p.full:
		if got.Wait != Never {
			r.Fatalf("take of %d with a limit of %d: wait %v, want Never", n, p.full, got.Wait)
		}
	case p.slots:
		if got.Wait != time.Second {
			r.Fatalf("take of %d without a slot: wait %v, want 1s", n, got.Wait)
		}
	case got.Wait <= 0 || at(got.Wait).Cmp(rat(n)) < 0:
		r.Fatalf("take %d at %d: wait %v, and then %v are there", n, now, got.Wait, at(got.Wait))
	case at(got.Wait-1).Cmp(rat(n)) >= 0:
		r.Fatalf("take %d at %d: wait %v, but 1 ns earlier %v are there", n, now, got.Wait, at(got.Wait-1))
	default:
		p.wait = got.Wait
	}
	if p.slots { // nobody knows
		if got.Reset != 0 {
			r.Fatalf("reset %v of slots", got.Reset)
		}
		return
	}
	want := p.all
	if got.Remaining == 0 {
		want = rat(1)
	}
	if got.Reset < 0 || then(got.Reset).Cmp(want) < 0 {
		r.Fatalf("at %d with %d left: reset %v, and then %v are there", now, got.Remaining, got.Reset, then(got.Reset))
	}
	if got.Reset > 0 && then(got.Reset-1).Cmp(want) >= 0 {
		r.Fatalf("at %d with %d left: reset %v, but 1 ns earlier %v are there", now, got.Remaining, got.Reset, then(got.Reset-1))
	}
}

// adjust gives back (n > 0) of a take or charges (n < 0) in both.
func (p *trial) adjust(r failer, tk *taken, n int64) {
	if n < 0 && p.slots {
		return // a slot has no cost that is known later
	}
	p.now = max(p.now, p.last)
	p.take(r, p.now, 0) // brings the State up to now, as the Table does
	if n < 0 {
		p.s = p.b.Adjust(p.s, p.now, n)
		p.m.add(event{at: p.now, units: -n, charged: true})
	} else {
		p.s = p.b.Adjust(p.s, tk.at, n)
		p.m.add(event{at: p.now, back: n, taken: tk.at})
		tk.kept, tk.settled = tk.n-n, true
	}
	p.take(r, p.now, 0)
}

// Laws 1, 5, 6 and 7 over random histories of take, give back, charge and late clocks.
func TestBucketDecidesLikeTheModel(t *testing.T) { eachAlgorithm(t, randomHistory) }

func FuzzBucketDecidesLikeTheModel(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(r *rapid.T) {
		randomHistory(r, newTrial(r, rapid.SampledFrom(algorithms).Draw(r, "algorithm")))
	}))
}

func randomHistory(r *rapid.T, p *trial) {
	for range rapid.IntRange(1, 25).Draw(r, "events") {
		p.pass(r)
		switch rapid.SampledFrom([]string{"take", "take", "take", "late", "back", "charge"}).Draw(r, "event") {
		case "take":
			p.take(r, p.now, p.units(r, "n"))
		case "late":
			ago := rapid.OneOf(rapid.SampledFrom([]int64{1, int64(p.per), int64(p.wait)}), rapid.Int64Range(0, 3*int64(min(p.per, day)))).Draw(r, "ago")
			p.take(r, p.now-Instant(ago), p.units(r, "n"))
		case "back":
			owed := slices.DeleteFunc(slices.Clone(p.takes), func(tk *taken) bool { return tk.settled || tk.n == 0 })
			if len(owed) > 0 {
				tk := rapid.SampledFrom(owed).Draw(r, "of")
				p.adjust(r, tk, rapid.Int64Range(1, tk.n).Draw(r, "n"))
			}
		case "charge":
			p.adjust(r, nil, -max(1, p.units(r, "n")))
		}
	}
	p.checkSpans(r)
}

// checkSpans is law 4: in no span more passes, net of what was given back, than the bound.
func (p *trial) checkSpans(r failer) {
	for i, a := range p.takes {
		kept := int64(0)
		for _, b := range p.takes[i:] {
			kept += b.kept
			if most := p.m.most(a.at, b.at); rat(kept).Cmp(most) > 0 {
				r.Fatalf("%d units kept from %d to %d, at most %v may", kept, a.at, b.at, most)
			}
		}
	}
}
