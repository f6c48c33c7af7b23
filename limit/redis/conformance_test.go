package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// step is one take and what must come of it; at counts from start.
type step struct {
	at        time.Duration
	n         int64
	ok        bool
	remaining int64
	wait      time.Duration
	reset     time.Duration
}

// TestStepTables runs each story in memory and in a store. All numbers were worked
// out by hand; a store rounds times up to a microsecond.
func TestStepTables(t *testing.T) {
	stories := []struct {
		name  string
		set   set
		steps []step
	}{
		{"the worked example: 10 per second, burst 10", bucket(10, time.Second, 10), []step{
			{0, 9, true, 1, 0, 900 * ms},
			{0, 1, true, 0, 0, 100 * ms},
			{50 * ms, 1, false, 0, 50 * ms, 50 * ms},
			{100*ms - us, 1, false, 0, us, us},
			{100 * ms, 1, true, 0, 0, 100 * ms},
			{5100 * ms, 11, false, 10, limit.Never, 0},
			{5100 * ms, 10, true, 0, 0, 100 * ms},
			{5100 * ms, 1, false, 0, 100 * ms, 100 * ms},
		}},
		{"C02c: 60 per minute, burst 20", gcra(60, time.Minute, 20), []step{
			{0, 20, true, 0, 0, time.Second},
			{0, 1, false, 0, time.Second, time.Second},
			{1500 * ms, 1, true, 0, 0, 500 * ms},
		}},
		{"C02e: fixed window 2 per minute", fixed(2, time.Minute), []step{
			{0, 2, true, 0, 0, time.Minute},
			{1 * time.Second, 1, false, 0, 59 * time.Second, 59 * time.Second},
			{31 * time.Second, 1, false, 0, 29 * time.Second, 29 * time.Second},
			{61 * time.Second, 1, true, 1, 0, 59 * time.Second},
		}},
		{"C03a: 20 per hour, one each 180 s", bucket(20, time.Hour, 20), []step{
			{0, 20, true, 0, 0, 180 * time.Second},
			{179 * time.Second, 1, false, 0, time.Second, time.Second},
			{181 * time.Second, 1, true, 0, 0, 179 * time.Second},
			{181 * time.Second, 1, false, 0, 179 * time.Second, 179 * time.Second},
		}},
		{"F03: 30 per 10 s, burst 10: a third of a second rounds up", bucket(30, 10*time.Second, 10), []step{
			{0, 10, true, 0, 0, 333_333_334},
			{333_333 * us, 1, false, 0, 334, 334}, // less than a microsecond is lacking
			{333_334 * us, 1, true, 0, 0, 333_332_667},
			{time.Second, 1, true, 1, 0, 2666666667 + 333_333_333}, // 3 came back, 2 of them are used
		}},
		{"a bucket of costs", bucket(1, time.Second, 5), []step{
			{0, 3, true, 2, 0, 3 * time.Second},
			{0, 5, false, 2, 3 * time.Second, 3 * time.Second},
			{500 * ms, 5, false, 2, 2500 * ms, 2500 * ms},
			{500 * ms, 6, false, 2, limit.Never, 2500 * ms},
			{3 * time.Second, 5, true, 0, 0, time.Second},
		}},
		{"one per 366 days", bucket(1, 366*day, 1), []step{
			{0, 1, true, 0, 0, 366 * day},
			{366*day - us, 1, false, 0, us, us},
			{366 * day, 1, true, 0, 0, 366 * day},
		}},
		{"ten million a second, burst 65,535", bucket(10_000_000, time.Second, 65_535), []step{
			{0, 65_535, true, 0, 0, 100},
			{us, 11, false, 10, 100, 6_552_500},
			{us, 10, true, 0, 0, 100},
		}},
		{"fixed window: 2N across an edge", fixed(5, time.Second), []step{
			{999 * ms, 5, true, 0, 0, ms},
			{time.Second - us, 1, false, 0, us, us},
			{time.Second, 5, true, 0, 0, time.Second},
			{1500 * ms, 6, false, 0, limit.Never, 500 * ms},
			{3 * time.Second, 0, true, 5, 0, 0},
			{3200 * ms, 2, true, 3, 0, 800 * ms},
		}},
		// 10 per second: at 1.5 s half of the 10 of the window before weigh.
		{"sliding window", sliding(10, time.Second), []step{
			{0, 10, true, 0, 0, 1100 * ms}, // until the next window has faded by one
			{500 * ms, 1, false, 0, 600 * ms, 600 * ms},
			{1500 * ms, 5, true, 0, 0, 100 * ms},
			{1500 * ms, 1, false, 0, 100 * ms, 100 * ms},
			{1600 * ms, 1, true, 0, 0, 100 * ms},
			{4 * time.Second, 10, true, 0, 0, 1100 * ms},
		}},
		{"sliding log", logged(3, time.Second), []step{
			{0, 1, true, 2, 0, time.Second},
			{400 * ms, 2, true, 0, 0, 600 * ms},
			{400 * ms, 1, false, 0, 600 * ms, 600 * ms},
			{400 * ms, 2, false, 0, time.Second, 600 * ms},
			{time.Second, 1, true, 0, 0, 400 * ms},
			{time.Second, 4, false, 0, limit.Never, 400 * ms},
			{1400 * ms, 2, true, 0, 0, 600 * ms},
			{9 * time.Second, 3, true, 0, 0, time.Second},
		}},
		{"sliding log with room", logged(5, time.Second), []step{
			{0, 1, true, 4, 0, time.Second},
			{400 * ms, 1, true, 3, 0, time.Second},
			{time.Second - us, 1, true, 2, 0, time.Second},
			{time.Second, 1, true, 2, 0, time.Second}, // the first is gone
			{time.Second, 1, true, 1, 0, time.Second}, // at the same instant
			{1400 * ms, 1, true, 1, 0, time.Second},
			{1900 * ms, 1, true, 0, 0, 100*ms - us},
			{2 * time.Second, 1, true, 2, 0, time.Second}, // and three at once
			{2100 * ms, 1, true, 1, 0, time.Second},
		}},
		// Both edges of 30 March 2025 in Berlin, which has 23 hours: 87 days and 23 hours after
		// start, and 88 days and 22 hours.
		{"a day of the calendar", calendar(2, limit.Day, zone(t, "Europe/Berlin")), []step{
			{0, 1, true, 1, 0, 23 * time.Hour}, // it is one o'clock there
			{87*day + 23*time.Hour - us, 2, true, 0, 0, us},
			{87*day + 23*time.Hour, 2, true, 0, 0, 23 * time.Hour},
			{88*day + 22*time.Hour - us, 1, false, 0, us, us},
			{88*day + 22*time.Hour - us, 3, false, 0, limit.Never, us},
			{88*day + 22*time.Hour, 1, true, 1, 0, day},
			{99 * day, 0, true, 2, 0, 0},
		}},
		{"a week of the calendar", calendar(5, limit.Week, zone(t, "UTC")), []step{
			{0, 5, true, 0, 0, 5 * day}, // a Wednesday
			{5*day - us, 1, false, 0, us, us},
			{5 * day, 4, true, 1, 0, 7 * day},
		}},
		{"a month of the calendar", calendar(5, limit.Month, zone(t, "America/New_York")), []step{
			{0, 5, true, 0, 0, 5 * time.Hour}, // it is still December there
			{5*time.Hour - us, 1, false, 0, us, us},
			{5 * time.Hour, 3, true, 2, 0, 31 * day},
			{31*day + 5*time.Hour - us, 3, false, 2, us, us},
			{31*day + 5*time.Hour, 5, true, 0, 0, 28 * day},
			{(59*day + 5*time.Hour), 5, true, 0, 0, 31*day - time.Hour},
			{(90*day + 4*time.Hour) - us, 1, false, 0, us, us},
			{(90*day + 4*time.Hour), 1, true, 4, 0, 30 * day},
		}},
		// 10 a second, three places: one leaves at once, three 100, 200 and 300 ms later.
		{"leaky bucket", leaky(10, time.Second, 350*ms), []step{
			{0, 1, true, 3, 0, 100 * ms},
			{0, 1, true, 2, 100 * ms, 200 * ms},
			{0, 1, true, 1, 200 * ms, 300 * ms},
			{0, 1, true, 0, 300 * ms, 50 * ms}, // with 400 ms ahead the next is one in 50
			{0, 1, false, 0, 50 * ms, 50 * ms},
			{50*ms - us, 1, false, 0, us, us},
			{50 * ms, 1, true, 0, 350 * ms, 100 * ms},
			{120 * ms, 1, false, 0, 30 * ms, 30 * ms},
			{500 * ms, 1, true, 3, 0, 100 * ms},
			{620 * ms, 1, true, 3, 0, 100 * ms}, // an idle bucket saves nothing up
			{630 * ms, 1, true, 2, 90 * ms, 190 * ms},
		}},
		{"a leaky bucket of costs", leaky(10, time.Second, time.Second), []step{
			{0, 3, true, 8, 0, 300 * ms},
			{0, 1, true, 7, 300 * ms, 400 * ms},
			{0, 5, true, 2, 400 * ms, 900 * ms},
			{0, 3, false, 2, 100 * ms, 900 * ms},
			{0, 2, true, 0, 900 * ms, 100 * ms},
			{0, 12, false, 0, limit.Never, 100 * ms},
			{0, 0, true, 0, 0, 100 * ms},
		}},
		{"7 a minute leave 8.571429 s apart", leaky(7, time.Minute, time.Minute), []step{
			{0, 1, true, 7, 0, 8_571_428_572},
			{0, 1, true, 6, 8_571_428_572, 17_142_857_143},
			{0, 5, true, 1, 17_142_857_143, 60 * time.Second},
			{0, 1, true, 0, 60 * time.Second, 8_571_428_572},
		}},
		{"a place in the last nanosecond of a wait", leaky(3, time.Second, 333_333_334), []step{
			{0, 1, true, 1, 0, 333_333_334},
			{0, 1, true, 0, 333_333_334, 333_333_333}, // when the wait is again what it was
			{0, 1, false, 0, 333_333_333, 333_333_333},
			{333_333 * us, 1, false, 0, 333, 333},
			{333_334 * us, 1, true, 0, 333_332_667, 333_332_666},
		}},
		// Burst 2, a wait of 250 ms: two at once, two more after 100 and 200 ms.
		{"a token bucket that lets requests wait", patient(10, time.Second, 2, 250*ms), []step{
			{0, 1, true, 1, 0, 100 * ms},
			{0, 1, true, 0, 0, 100 * ms},
			{0, 1, true, 0, 100 * ms, 200 * ms},
			{0, 1, true, 0, 200 * ms, 300 * ms},
			{0, 1, false, 0, 50 * ms, 300 * ms},
			{0, 2, false, 0, 150 * ms, 300 * ms},
			{0, 3, false, 0, limit.Never, 300 * ms},
			{50 * ms, 1, true, 0, 250 * ms, 350 * ms},
			{400 * ms, 1, true, 0, 0, 100 * ms},
			{600 * ms, 2, true, 0, 0, 100 * ms},
			{800 * ms, 0, true, 2, 0, 0},
		}},
		{"slots", slotsOf(2), []step{
			{0, 1, true, 1, 0, 0},
			{0, 1, true, 0, 0, 0},
			{time.Second, 1, false, 0, time.Second, 0},
			{time.Second, 3, false, 0, limit.Never, 0},
		}},
	}
	places(t, func(t *testing.T, p *place) {
		for _, st := range stories {
			t.Run(st.name, func(t *testing.T) {
				r := p.rule(t, st.set)
				for i, s := range st.steps {
					want := limit.Result{OK: s.ok, Remaining: s.remaining, Wait: s.wait, Reset: s.reset}
					if p.clock != nil {
						want = inMicros(want)
					}
					if _, got := r.take(start.Add(s.at), key(1), s.n); !cmp.Equal(got, want) {
						t.Errorf("step %d, take %d at %v (-want +got):\n%s", i, s.n, s.at, cmp.Diff(want, got))
					}
				}
			})
		}
	})
}

// drawSet draws an algorithm with numbers that a store counts by the microsecond.
func drawSet(r *rapid.T) set {
	permits := rapid.OneOf(rapid.SampledFrom([]int64{1, 2, 3, 7, 10, 293, 10_000}), rapid.Int64Range(1, 1000)).Draw(r, "permits")
	per := rapid.OneOf(
		rapid.SampledFrom([]time.Duration{us, 7 * us, time.Second, time.Minute, time.Hour, day}),
		rapid.Map(rapid.Int64Range(1, int64(time.Minute/us)), func(n int64) time.Duration { return time.Duration(n) * us })).Draw(r, "per")
	burst := rapid.OneOf(rapid.Just(permits), rapid.SampledFrom([]int64{1, 2, 1000}), rapid.Int64Range(1, 100)).Draw(r, "burst")
	maxWait := min(limit.MaxWait, rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, 30), func(n int64) time.Duration { return time.Duration(n) * per / time.Duration(permits) }),
		rapid.Map(rapid.Int64Range(0, int64(per)), func(n int64) time.Duration { return time.Duration(n) })).Draw(r, "wait"))
	s := rapid.SampledFrom([]set{
		bucket(permits, per, burst), gcra(permits, per, burst), fixed(permits, per), sliding(permits, per), logged(permits, per), slotsOf(permits),
		leaky(permits, per, maxWait), patient(permits, per, burst, maxWait),
		calendar(permits, rapid.SampledFrom([]limit.Span{limit.Day, limit.Week, limit.Month}).Draw(r, "span"),
			zone(r, rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"}).Draw(r, "zone"))),
	}).Draw(r, "algorithm")
	if rapid.Bool().Draw(r, "penalty") {
		long := time.Duration(rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, 1_000_000_000)).Draw(r, "block")) * us
		s = s.punished(rapid.Int64Range(1, 3).Draw(r, "refusals"), per, long, long*time.Duration(rapid.Int64Range(1, 9).Draw(r, "max")))
	}
	if b, err := s.make(); err != nil {
		r.Skip("no such limit")
	} else if sh, err := limit.NewShared("x", limit.Numbers{Bucket: b}); err != nil || sh.Terms.Grain != us {
		r.Skip("no such numbers in a store")
	} else if s.penalty != nil {
		if sh, err := limit.NewShared("x", s.numbers(r)); err != nil || sh.Penalty.After.Grain != us {
			r.Skip("no such penalty in a store")
		}
	}
	return s
}

// pair is one rule in memory and in a store, going through the same history.
type pair struct {
	set           set
	memory, store *rule
	now           limit.Instant
	wait          time.Duration
	held          []*holding
	ends          limit.Instant // when the store may forget the key; 0 when it has none
	server        *redistest.Server
	span          time.Duration // about which time goes by, beside that of waits
	pending       bool          // whether units may come back by themselves, as it is after an edit of count
}

type holding struct {
	memory, store limit.Grant
	n             int64
}

// A store decides as memory does, whose laws are tested in package limit: over
// random histories of takes, give-backs and charges, and with each key forgotten as
// soon as its time to live allows.
func TestStoreDecidesLikeMemory(t *testing.T) {
	server := redistest.Start(t)
	memory, store := memoryPlace(), storePlace(t, server)
	rapid.Check(t, func(r *rapid.T) {
		s := drawSet(r)
		p := &pair{set: s, memory: memory.rule(r, s), store: store.rule(r, s), server: server}
		store.skew = rapid.SampledFrom([]time.Duration{0, 0, -10 * time.Second, 20 * time.Hour, -50 * day}).Draw(r, "skew")
		if s.penalty != nil {
			p.span = p.store.shared.Penalty.Max
		}
		p.pending = rapid.Bool().Draw(r, "counts")
		p.store.shared.Returns = true // which a claim of a rule that gives nothing back is not
		p.now = start.Add(time.Duration(rapid.Int64Range(0, 5000).Draw(r, "phase")) * us)
		for range rapid.IntRange(1, 20).Draw(r, "events") {
			p.pass(r)
			switch rapid.SampledFrom([]string{"take", "take", "take", "back", "charge", "hang up"}).Draw(r, "event") {
			case "take":
				p.take(r, p.units(r))
			case "back":
				p.settle(r, func(n int64) int64 { return rapid.Int64Range(0, n).Draw(r, "back") })
			case "charge":
				p.settle(r, func(int64) int64 { return -p.units(r) })
			case "hang up":
				p.hangUp(r)
			}
		}
	})
}

func (p *pair) full() int64 {
	_, res := p.memory.take(p.now, key(-1), 0)
	return res.Remaining
}

func (p *pair) units(r *rapid.T) int64 {
	_, left := p.memory.take(p.now, key(1), 0)
	full := p.full()
	switch {
	case p.set.slots:
		return 1
	case p.set.penalty != nil: // whether a key without usage is remembered for never passing depends on the last sweep
		return rapid.OneOf(rapid.SampledFrom([]int64{1, 1, 1, 0, full}), rapid.Int64Range(0, full)).Draw(r, "n")
	}
	return rapid.OneOf(rapid.SampledFrom([]int64{1, 1, 1, 2, 0, left.Remaining, left.Remaining + 1, full, full + 1}), rapid.Int64Range(0, 2*full)).Draw(r, "n")
}

// pass lets time go by: none, a hair, about the last wait, about a period.
func (p *pair) pass(r *rapid.T) {
	_, res := p.memory.take(p.now, key(1), 0)
	micro := func(d time.Duration) time.Duration { return max(0, d) / us * us }
	d := max(0, rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, 0, us, micro(p.wait), micro(p.wait) + us, micro(p.wait - us), micro(res.Reset), micro(res.Reset) + us, 3 * time.Hour, p.span, p.span - us}),
		rapid.Map(rapid.Int64Range(0, int64(max(us, res.Reset)/us)), func(n int64) time.Duration { return time.Duration(n) * us }),
	).Draw(r, "pass"))
	if p.set.slots {
		d = 0 // leases that nobody makes longer would end
	}
	p.now = p.now.Add(d)
	if p.ends > 0 && p.now >= p.ends {
		p.server.Do("DEL", p.key(), p.key()+recordSuffix)
		p.ends = 0
	}
}

func (p *pair) key() string { return string(appendKey(nil, "gw", p.store.shared, key(1))) }

// remember notes how long the store keeps the key, without the slack.
func (p *pair) remember(r *rapid.T) {
	ends := limit.Instant(0)
	for _, name := range []string{p.key(), p.key() + recordSuffix} {
		var ttl int64
		fmt.Sscan(p.server.Do("PTTL", name), &ttl)
		switch {
		case ttl == -1:
			r.Fatalf("%s: %s has no time to live", p.set.name, name)
		case ttl > 0:
			// Some of it has gone by on the server's own clock meanwhile.
			slack := testSlack
			if p.store.shared.Terms.Algorithm == limit.SlidingLog {
				slack /= 2 // see save in log.lua
			}
			ends = max(ends, p.now.Add(time.Duration(ttl)*ms-slack+time.Minute))
		}
	}
	if ends > 0 {
		p.ends = ends
	}
}

func (p *pair) take(r *rapid.T, n int64) {
	c, d := p.memory.claim(key(1), n), p.store.claim(key(1), n)
	if p.pending && n > 0 {
		c.Pending = rapid.Bool().Draw(r, "pending")
		d.Pending = c.Pending
	}
	m, _, mine := p.memory.at.ask(p.now, c)
	s, _, theirs := p.store.at.ask(p.now, d)
	want, got := mine[0].Result, theirs[0].Result
	if p.pending && !want.OK && !got.OK && min(want.Wait, got.Wait) == time.Second {
		got.Wait = want.Wait // either may still count units in flight of a life that is over
	}
	if !cmp.Equal(got, inMicros(want)) || mine[0].Blocked != theirs[0].Blocked {
		r.Fatalf("%s %+v: take %d at %v, blocked %v, in the store %v (-memory +store):\n%s", p.set.name, p.store.shared.Terms, n, p.now.Sub(start),
			mine[0].Blocked, theirs[0].Blocked, cmp.Diff(inMicros(want), got))
	}
	p.wait = want.Wait
	if got.OK {
		p.held = append(p.held, &holding{m, s, n})
	}
	p.remember(r)
}

// one takes one of what is held, the last as often as any other.
func (p *pair) one(r *rapid.T) *holding {
	if len(p.held) == 0 {
		return nil
	}
	i := rapid.OneOf(rapid.Just(len(p.held)-1), rapid.IntRange(0, len(p.held)-1)).Draw(r, "which")
	h := p.held[i]
	p.held = append(p.held[:i], p.held[i+1:]...)
	return h
}

func (p *pair) hangUp(r *rapid.T) {
	if h := p.one(r); h != nil {
		p.memory.at.cancel(&h.memory, p.now)
		p.store.at.cancel(&h.store, p.now)
		p.remember(r)
		p.take(r, 0)
	}
}

func (p *pair) settle(r *rapid.T, n func(int64) int64) {
	h := p.one(r)
	if h == nil {
		return
	}
	units := n(h.n)
	p.memory.at.settle(&h.memory, p.now, units)
	p.store.at.settle(&h.store, p.now, units)
	p.remember(r)
	p.take(r, 0)
}
