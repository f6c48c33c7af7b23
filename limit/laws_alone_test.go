package limit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// grow brings p into a random State by a few takes and charges.
func (p *trial) grow(r *rapid.T) {
	for range rapid.IntRange(0, 5).Draw(r, "events before") {
		p.pass(r)
		if rapid.IntRange(0, 4).Draw(r, "kind") == 0 {
			p.adjust(r, nil, -max(1, p.units(r, "charge")))
		} else {
			p.take(r, p.now, p.units(r, "n"))
		}
	}
	p.pass(r)
}

// Law 2: take and give back at the same instant leaves room for the same take,
// and for nothing more than before.
func TestGivingBackAtOnceLeavesExactlyTheRoomThereWas(t *testing.T) {
	eachAlgorithm(t, func(r *rapid.T, p *trial) {
		p.grow(r)
		p.s, _ = p.b.Take(p.s, p.now, 0)
		before := p.s
		_, was := p.b.Take(before, p.now, 0)
		var claims []int64
		for range rapid.IntRange(1, 4).Draw(r, "takes") {
			n := max(0, p.units(r, "n"))
			next, res := p.b.Take(p.s, p.now, n)
			if p.s = next; res.OK {
				claims = append(claims, n)
			}
		}
		for _, n := range rapid.Permutation(claims).Draw(r, "order") {
			p.s = p.b.Adjust(p.s, p.now, n)
		}
		if p.s != before {
			r.Fatalf("State %+v after all was given back, want %+v", p.s, before)
		}
		if _, is := p.b.Take(p.s, p.now, 0); is != was {
			r.Fatalf("it says %+v, want %+v", is, was)
		}
		// More than was taken is never handed out either: at most the full limit.
		if _, is := p.b.Take(p.b.Adjust(p.s, p.now, maxUnits), p.now, 0); is.Remaining > p.full {
			r.Fatalf("%d left of %d", is.Remaining, p.full)
		}
	})
}

// Law 3: from the moment a State is idle it answers like the zero State, for
// ever after, and until that moment it does not.
func TestIdleStateAnswersLikeNone(t *testing.T) {
	eachAlgorithm(t, func(r *rapid.T, p *trial) {
		p.grow(r)
		p.now = max(p.now, p.last)
		if want := p.shown(p.now).Cmp(p.all) == 0; p.b.Idle(p.s, p.now) != want {
			r.Fatalf("idle %v at %d with %v of %d there", !want, p.now, p.m.left(p.now), p.full)
		}
		if p.slots && !p.b.Idle(p.s, p.now) {
			return // time alone frees none
		}
		if _, res := p.b.Take(p.s, p.now, 0); !p.b.Idle(p.s, p.now) {
			if res.Remaining == 0 { // the time to one unit, not to all
				s, _ := p.b.Take(p.s, p.now.Add(res.Reset), 0)
				_, rest := p.b.Take(s, p.now.Add(res.Reset), 0)
				res.Reset += rest.Reset
			}
			if p.b.Idle(p.s, p.now.Add(res.Reset-1)) {
				r.Fatal("idle 1 ns before all is there")
			}
			p.now = p.now.Add(res.Reset)
			if !p.b.Idle(p.s, p.now) {
				r.Fatal("not idle when all is there")
			}
		}
		fresh := State{}
		for range rapid.IntRange(1, 6).Draw(r, "takes") {
			p.pass(r)
			n := p.units(r, "n")
			var a, b Result
			p.s, a = p.b.Take(p.s, p.now, n)
			fresh, b = p.b.Take(fresh, p.now, n)
			if a != b {
				r.Fatalf("take %d at %d: the idle State says %+v, a new one %+v", n, p.now, a, b)
			}
		}
	})
}

// Law 4, the other half: under saturated demand the bound is reached. Who
// asks for one unit and waits as told gets all there is.
func TestSaturatedDemandGetsAllTheLimitAllows(t *testing.T) {
	alone(t)
	eachAlgorithm(t, func(r *rapid.T, p *trial) {
		if p.shift.Sign() > 0 {
			return // what it tells of is not what it lets wait: TestPatientBucketByHand
		}
		if p.estimates {
			return // it gives N-1 a window: TestSlidingWindowGivesOneLessAtSaturation
		}
		if p.full > 1000 || p.full < 2 || time.Duration(p.permits) > p.per {
			// Too many takes; or what comes back within one nanosecond does not
			// fit into the bucket, so that nobody can be there in time for all of it.
			r.Skip()
		}
		begin, got := p.now, int64(0)
		for range 1500 {
			next, res := p.b.Take(p.s, p.now, 1)
			if p.s = next; res.OK {
				got++
				continue
			}
			if p.slots || p.now.Add(res.Wait) >= start+Instant(35*maxPeriod) {
				break
			}
			p.now = p.now.Add(res.Wait)
		}
		// After the last take nothing whole is left of what could be had, or the
		// loop ended in the middle of taking it.
		if _, res := p.b.Take(p.s, p.now, 0); true {
			got += res.Remaining
		}
		if want := floorOf(p.m.most(begin, p.now)); got != want {
			r.Fatalf("%d units from %d to %d, want %d", got, begin, p.now, want)
		}
	})
}

// Law 6: a bare Bucket never hands out more than the span between the earliest
// and the latest instant allows, in whatever order they come; a Table decides
// each as if it had come at the latest instant seen, and counts the wait from
// the caller's own.
func TestClockGoingBackGrantsNothing(t *testing.T) {
	eachAlgorithm(t, func(r *rapid.T, p *trial) {
		table := NewTable(Numbers{Bucket: inTable(p.b), Slots: p.slots}, 10, NewBudget(1<<20))
		var steady State
		earliest, latest, units := p.now, p.now-Instant(3*maxPeriod), int64(0)
		for range rapid.IntRange(1, 30).Draw(r, "events") {
			p.pass(r)
			now := p.now - Instant(rapid.SampledFrom([]time.Duration{0, 0, 1, time.Hour, p.per, 2 * p.per}).Draw(r, "late"))
			earliest, latest = min(earliest, now), max(latest, now)
			n := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, p.full}), rapid.Int64Range(0, p.full+1)).Draw(r, "n")
			var bare, want Result
			asked := now
			if p.listed { // with its last unit a list forgets the time; the Table does not
				asked = latest
			}
			if p.s, bare = p.b.Take(p.s, asked, n); bare.OK {
				units += n
			}
			if most := p.m.most(earliest, latest); rat(units).Cmp(most) > 0 {
				r.Fatalf("%d units passed from %d to %d, at most %v may", units, earliest, latest, most)
			}
			steady, want = p.b.Take(steady, latest, n)
			if late := latest.Sub(now); late > 0 {
				if want.Wait > 0 && !p.slots { // a guess from whenever one asks
					want.Wait += late
				}
				if want.Reset > 0 {
					want.Reset += late
				}
			}
			if _, got := take(table, now, key(1), n); got != want {
				r.Fatalf("take %d at %d, latest %d: the Table says %+v, want %+v", n, now, latest, got, want)
			}
			if rapid.IntRange(0, 4).Draw(r, "sweep") == 0 {
				table.Sweep(latest)
				if len(distinct(table)) == 0 {
					steady = State{} // idle: the same as none
				}
			}
		}
	})
}

// S28: a clock that alternates by an hour gives a burst and the rate of the time
// that really went by, and locks nobody out.
func TestAlternatingClockNeitherGrantsNorLocksOut(t *testing.T) {
	alone(t)
	total, extra := 0, int64(0)
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			b, err := a.make(10, time.Minute, 10)
			if err != nil {
				t.Fatal(err)
			}
			table := NewTable(Numbers{Bucket: inTable(b), Slots: a.slots}, 10, NewBudget(1<<20))
			passed := int64(0)
			const calls = 100_000
			for i := range calls { // 100 s
				at := start.Add(time.Duration(i) * ms)
				if i%2 == 1 {
					at = at.Add(-time.Hour)
				}
				if _, r := take(table, at, key(1), 1); r.OK {
					passed++
				}
			}
			want := floorOf(a.model(10, time.Minute, 10).most(start, start.Add((calls-2)*ms)))
			if a.estimates {
				want = 10 + 6 // ten in the first minute, of which a third still weighs at 99.998 s: 10*40/60 rounded down
			}
			if passed != want {
				t.Errorf("%d passed, want %d", passed, want)
			}
			total, extra = total+calls, extra+passed-want
			// One jump ahead by an hour and back: no lock-out longer than a period,
			// or two where the last window counts until this one is over.
			most := time.Minute
			if a.estimates {
				most *= 2
			}
			take(table, start.Add(2*time.Hour), key(1), 1)
			if _, r := take(table, start.Add(time.Hour), key(1), 10); r.Wait-time.Hour > most {
				t.Errorf("after a jump back by an hour the wait is %v", r.Wait)
			}
		})
	}
	t.Attr("S28", fmt.Sprintf("%d units too many in %d calls that go to and fro by an hour, no wait over a period or two windows", extra, total))
}
