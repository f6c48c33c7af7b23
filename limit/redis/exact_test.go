package redis

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// every is each algorithm with small numbers: 3 units, in a second where that says
// anything; and some with a penalty, which nobody here earns.
var every = []set{
	bucket(3, time.Second, 3), gcra(3, time.Second, 3), fixed(3, time.Second), sliding(3, time.Second), logged(3, time.Second), slotsOf(3),
	leaky(3, time.Second, 667*ms), patient(3, time.Second, 3, ms), // two places, and none
	calendar(3, limit.Day, midday), calendar(3, limit.Month, midday).punished(1000, time.Hour, time.Hour, time.Hour),
	bucket(3, time.Second, 3).punished(1000, time.Hour, time.Hour, time.Hour), sliding(3, time.Second).punished(1000, time.Hour, time.Hour, time.Hour),
	logged(3, time.Second).punished(1000, time.Hour, time.Hour, time.Hour), slotsOf(3).punished(1000, time.Hour, time.Hour, time.Hour),
	leaky(3, time.Second, 667*ms).punished(1000, time.Hour, time.Hour, time.Hour),
}

func eachSet(t *testing.T, test func(t *testing.T, p *place, s set)) {
	places(t, func(t *testing.T, p *place) {
		for _, s := range every {
			t.Run(s.name, func(t *testing.T) { test(t, p, s) })
		}
	})
}

// Law 1: a refused take changes nothing, however often it is repeated.
func TestARefusedTakeChangesNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, p *place, s set) {
		r, still := p.rule(t, s), p.rule(t, s)
		if r.shared != nil {
			r.shared.Returns = true // so that each is asked for
		}
		for _, x := range []*rule{r, still} {
			x.take(start, key(1), 2)
		}
		for i := range 20 {
			if _, res := r.take(start.Add(time.Duration(i)*ms), key(1), 2); res.OK {
				t.Fatalf("a take of 2 with 1 left passed: %+v", res)
			}
		}
		_, got := r.take(start.Add(300*ms), key(1), 1)
		_, want := still.take(start.Add(300*ms), key(1), 1)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after 20 refusals (-without them +with them):\n%s", diff)
		}
	})
}

// Law 2: what is given back at once leaves room for the same take and no more; but for
// a turn in a leaky bucket, which only who never left gives back.
func TestGivingBackAtOnceLeavesWhatWasThere(t *testing.T) {
	eachSet(t, func(t *testing.T, p *place, s set) {
		r := p.rule(t, s)
		_, before := r.take(start, key(1), 1)
		for i, back := range []func(*limit.Grant){func(g *limit.Grant) { p.cancel(g, start) }, func(g *limit.Grant) { p.settle(g, start, 2) }} {
			g, _ := r.take(start, key(1), 2)
			back(&g)
			back(&g) // which does nothing
			want := before.Remaining
			if i == 1 && strings.HasPrefix(s.name, "leaky_bucket") {
				want -= 2
			}
			if _, after := r.take(start, key(1), 0); after.Remaining != want {
				t.Errorf("%d left after give-back %d, want %d", after.Remaining, i, want)
			}
		}
	})
}

// Law 6: a clock that goes back grants nothing.
func TestAClockThatGoesBackGrantsNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, p *place, s set) {
		r := p.rule(t, s)
		if r.shared != nil {
			r.shared.Returns = true
		}
		passed := 0
		for i := range 40 {
			at := start.Add(10 * time.Second)
			if i%2 == 1 {
				at = start.Add(-time.Duration(i) * time.Hour)
			}
			if s.slots {
				at = start // only a gateway that is gone gives up its slots
			}
			if _, res := r.take(at, key(1), 1); res.OK {
				passed++
			}
		}
		if passed != 3 {
			t.Errorf("%d of 40 passed on a clock that goes to and fro, want 3", passed)
		}
	})
}

// A reservation that may come back makes a refusal say a second; a refund is bounded.
func TestPendingUnitsAndRefunds(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		for _, s := range []set{
			bucket(3, time.Hour, 3), fixed(3, time.Hour), sliding(3, time.Hour), logged(3, time.Hour), calendar(3, limit.Day, midday), patient(3, time.Hour, 3, time.Second),
			bucket(3, time.Hour, 3).punished(1000, time.Hour, time.Hour, time.Hour), calendar(3, limit.Day, midday).punished(1000, time.Hour, time.Hour, time.Hour),
		} {
			t.Run(s.name, func(t *testing.T) {
				s.refunds = func() (limit.Bucket, error) { return limit.NewFixedWindow(2, time.Hour) }
				if strings.HasPrefix(s.name, "calendar") {
					s.refunds = func() (limit.Bucket, error) { return limit.NewCalendarWindow(2, limit.Day, midday) }
				}
				r := p.rule(t, s)
				if r.shared != nil {
					r.shared.Returns = true
				}
				ask := func() (limit.Grant, limit.Result) {
					c := r.claim(key(1), 1)
					c.Pending = true
					g, _, all := p.ask(start, c)
					return g, all[0].Result
				}
				var grants []limit.Grant
				for range 3 {
					g, res := ask()
					if !res.OK {
						t.Fatalf("refused with room: %+v", res)
					}
					grants = append(grants, g)
				}
				if _, res := ask(); res.OK || res.Wait != time.Second {
					t.Errorf("with 3 of 3 reserved: %+v, want a wait of 1s", res)
				}
				p.settle(&grants[0], start, 0) // counts
				for i, want := range []int64{1, 2, 2} {
					if i == 2 { // the two refunds of this hour are used up
						g, _ := ask()
						p.settle(&g, start, 1)
						want = 1
					} else {
						p.settle(&grants[i+1], start, 1)
					}
					if _, res := r.take(start, key(1), 0); res.Remaining != want {
						t.Errorf("after refund %d: %d left, want %d", i+1, res.Remaining, want)
					}
				}
				g, _ := ask()
				p.settle(&g, start, 0)
				if _, res := ask(); res.OK || res.Wait <= time.Second {
					t.Errorf("with all used up: %+v, want a wait of the limit", res)
				}
			})
		}
	})
}

// What was taken while the rule had a count may come back any moment, also for a request
// that came after it was edited away.
func TestARefusalOnlyForUnitsInFlightSaysASecond(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		for _, set := range []set{bucket(1, time.Minute, 1), fixed(1, time.Minute), sliding(1, time.Minute), logged(1, time.Minute), calendar(1, limit.Day, midday), patient(1, time.Minute, 1, 0)} {
			r := p.rule(t, set)
			c := r.claim(key(1), 1)
			c.Pending = true
			p.ask(start, c)
			if _, res := r.take(start, key(1), 1); res.OK || res.Wait != time.Second {
				t.Errorf("%s: %+v, want a refusal for a second", set.name, res)
			}
		}
	})
}

// An edit keeps what was used: 60 of 100 an hour used leave nothing of 10 an hour,
// and 140 of 200. What was taken before and comes back later is no more than it was.
func TestAnEditKeepsWhatWasUsed(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		for _, n := range []struct{ to, left int64 }{{10, 0}, {200, 140}, {60, 0}, {61, 1}} {
			for _, s := range []func(int64) set{
				func(n int64) set { return bucket(n, time.Hour, n) }, func(n int64) set { return fixed(n, time.Hour) },
				func(n int64) set { return sliding(n, time.Hour) }, func(n int64) set { return logged(n, time.Hour) },
				func(n int64) set { return calendar(n, limit.Week, midday) }, func(n int64) set { return patient(n, time.Hour, n, time.Second) },
			} {
				r := p.rule(t, s(100))
				r.take(start, key(1), 50)
				g, _ := r.take(start, key(1), 10)
				r.renew(t, start, s(n.to))
				name := fmt.Sprintf("%s to %d", s(1).name, n.to)
				if _, res := r.take(start, key(1), 0); res.Remaining != n.left {
					t.Errorf("%s: %d left, want %d", name, res.Remaining, n.left)
				}
				p.settle(&g, start, 10)
				want := min(n.to, n.left+10)
				if n.to == 10 || n.to == 60 { // 60 used were more than it holds, or just as much
					want = max(0, n.to-50)
				}
				_, res := r.take(start, key(1), 0)
				if s(1).name == "token_bucket" && n.to == 10 {
					want = 0 // capped at the burst: another life, in which nothing of the take is left
				}
				if res.Remaining != want {
					t.Errorf("%s: %d left after 10 came back, want %d", name, res.Remaining, want)
				}
			}
		}
	})
}

// Numbers too large for microseconds are counted in coarser grains, as exactly.
func TestLargeNumbersAreCountedInCoarserGrains(t *testing.T) {
	p := storePlace(t, redistest.Start(t))
	for _, c := range []struct {
		set   set
		grain time.Duration
	}{
		{bucket(1_000_003, 30*day, 1_000_003), ms},
		{bucket(100_003, 30*day, 2000), 10 * us},
		{sliding(1_000_000, day), 100 * us},
	} {
		r := p.rule(t, c.set)
		if r.shared.Terms.Grain != c.grain {
			t.Errorf("%s: grain %v, want %v", c.set.name, r.shared.Terms.Grain, c.grain)
		}
		full := r.shared.Terms.Burst
		if _, res := r.take(start, key(1), full); !res.OK {
			t.Errorf("%s: %+v", c.set.name, res)
		}
		_, res := r.take(start, key(1), 1)
		if res.OK || res.Wait <= 0 {
			t.Fatalf("%s: %+v", c.set.name, res)
		}
		if _, early := r.take(start.Add(res.Wait-c.grain), key(1), 1); early.OK {
			t.Errorf("%s: passes a grain before its wait of %v is over", c.set.name, res.Wait)
		}
		if _, then := r.take(start.Add(res.Wait), key(1), 1); !then.OK {
			t.Errorf("%s: does not pass when its wait of %v is over: %+v", c.set.name, res.Wait, then)
		}
	}
	for _, s := range []set{bucket(999_999_999_989, 366*day, 999_999_999_989), sliding(999_999_999_989, 366*day)} {
		if _, err := limit.NewShared("x", s.numbers(t)); err == nil {
			t.Errorf("%s of 10^12 in a year is taken; no grain counts it", s.name)
		}
	}
}

// All or nothing: of several rules one that refuses leaves the others as they were,
// and the refusal says what those have.
func TestSeveralRulesAllOrNothing(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		for _, s := range every {
			t.Run(s.name, func(t *testing.T) {
				many, one := p.rule(t, s), p.rule(t, fixed(1, time.Hour))
				many2 := p.rule(t, bucket(5, time.Hour, 5))
				if many.shared != nil {
					one.shared.Returns, many.shared.Returns = true, true
				}
				one.take(start, key(2), 1)
				for range 4 {
					_, v, claims := p.ask(start, many.claim(key(1), 1), one.claim(key(2), 1), many2.claim(key(2), 1))
					if v.OK || v.Wait != time.Hour {
						t.Fatalf("verdict %+v, want a refusal of an hour", v)
					}
					for _, c := range claims {
						want := limit.Result{OK: true, Remaining: 3}
						switch c.Table {
						case one.table:
							want = limit.Result{Wait: time.Hour, Reset: time.Hour}
						case many2.table:
							want.Remaining = 5
						}
						if diff := cmp.Diff(want, c.Result); diff != "" {
							t.Errorf("(-want +got):\n%s", diff)
						}
					}
				}
				if _, res := many.take(start, key(1), 3); !res.OK {
					t.Errorf("the other rule has not all it had: %+v", res)
				}
			})
		}
	})
}

// A dry run takes what it has room for on requests that pass, and refuses nothing.
func TestADryRunNeverRefuses(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		dry, live := p.rule(t, fixed(2, time.Hour)), p.rule(t, fixed(4, time.Hour))
		would := 0
		for i := range 6 {
			c := dry.claim(key(1), 1)
			c.Mode = limit.DryRun
			_, v, claims := p.ask(start, c, live.claim(key(1), 1))
			if v.OK != (i < 4) {
				t.Errorf("request %d: %+v", i, v)
			}
			for _, c := range claims {
				if c.Table == dry.table && !c.Result.OK && v.OK {
					would++
				}
			}
		}
		if would != 2 {
			t.Errorf("the dry run would have refused %d of the 4 that passed, want 2", would)
		}
	})
}

// A peek says what a take would, and takes nothing.
func TestAPeekTakesNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, p *place, s set) {
		r := p.rule(t, s)
		for range 5 {
			if p.clock != nil {
				p.clock(start)
			}
			claims := []limit.Claim{r.claim(key(1), 3)}
			if v := p.limiter.Peek(start, claims); !v.OK || claims[0].Result.Remaining != 0 {
				t.Fatalf("a peek of 3 says %+v %+v", v, claims[0].Result)
			}
		}
		if _, res := r.take(start, key(1), 3); !res.OK {
			t.Errorf("after peeks: %+v", res)
		}
	})
}

// Ten clients at once get the limit and not one more, whoever asks where.
func TestManyAtOnceGetTheLimit(t *testing.T) {
	server := redistest.Start(t)
	var stores []*Store
	for range 3 {
		stores = append(stores, open(t, options(server.Addr)))
	}
	for _, s := range []set{bucket(500, time.Hour, 500), fixed(500, day), sliding(500, 300*day), logged(500, day), slotsOf(500), calendar(500, limit.Day, midday),
		calendar(500, limit.Week, midday).punished(3, time.Hour, time.Hour, time.Hour)} {
		id := "many" + strconv.FormatInt(rules.Add(1), 10)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for i := range 12 {
			p := &place{limiter: limit.Limiter{Store: stores[i%3]}, budget: limit.NewBudget(1 << 30), clock: func(limit.Instant) {}}
			r := p.ruleNamed(t, id, s)
			wg.Go(func() {
				for range 100 {
					if _, res := r.take(limit.InstantOf(time.Now()), key(1), 1); res.OK {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := passed.Load(); n != 500 {
			t.Errorf("%s: %d of 1200 passed, want 500", s.name, n)
		}
	}
}

// A Lua number holds a Go one on its way there and back.
func TestAnswersAreRead(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.Int64Range(-1<<53, 1<<53).Draw(r, "n")
		if got := number(string(appendNumber(nil, n))); got != n {
			r.Fatalf("%d comes back as %d", n, got)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte("1"))
	f.Add([]byte(string(make([]byte, 1+answerBytes))))
	f.Add([]byte(string(make([]byte, 1+answerBytes+waitBytes))))
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind, size := range map[limit.Algorithm]int{limit.TokenBucket: 1 + answerBytes, limit.LeakyBucket: 1 + answerBytes + waitBytes} {
			claims := []limit.Claim{{Shared: &limit.Shared{Terms: limit.Terms{Algorithm: kind}}}}
			if _, err := readAnswer(string(data), claims); err == nil && len(data) != size {
				t.Errorf("an answer of %d bytes is taken", len(data))
			}
		}
	})
}
