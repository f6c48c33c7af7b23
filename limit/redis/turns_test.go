package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// mixes runs a test with rules in memory, in a store, and with the one here and the
// other there: of says which of the two a rule is.
func mixes(t *testing.T, test func(t *testing.T, p *place, rule func(of int, s set) *rule)) {
	server := redistest.Start(t)
	store := storePlace(t, server)
	for _, where := range [][2]string{{"memory", "memory"}, {"store", "store"}, {"memory", "store"}, {"store", "memory"}} {
		t.Run(where[0]+" and "+where[1], func(t *testing.T) {
			test(t, store, func(of int, s set) *rule {
				r := store.rule(t, s)
				if where[of] == "memory" {
					r.shared = nil
				} else {
					r.shared.Returns = true // so that each is asked for
				}
				return r
			})
		})
	}
}

// left returns what a key has left under r.
func (r *rule) left(at limit.Instant) int64 {
	_, res := r.take(at, key(1), 0)
	return res.Remaining
}

// Who goes away gives its turn back if it is the last; else its turn stays empty.
func TestATurnComesBackOnlyFromTheLast(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		r := p.rule(t, leaky(10, time.Second, time.Second))
		queue := make([]limit.Grant, 4) // turns at 0, 100, 200 and 300 ms
		for i := range queue {
			queue[i], _ = r.take(start, key(1), 1)
		}
		at := func(d time.Duration) limit.Instant { return start.Add(d) }
		turn := func(d time.Duration) time.Duration {
			t.Helper()
			g, res := r.take(at(d), key(1), 1)
			if p.cancel(&g, at(d)); !res.OK {
				t.Fatalf("at %v: %+v", d, res)
			}
			return d + res.Wait
		}
		if got := turn(10 * ms); got != 400*ms {
			t.Fatalf("the fifth turn is at %v", got)
		}
		p.cancel(&queue[1], at(20*ms)) // not the last
		if got := turn(20 * ms); got != 400*ms {
			t.Errorf("after one in the middle has gone the next turn is at %v, want 400ms", got)
		}
		p.cancel(&queue[3], at(30*ms)) // the last
		if got := turn(30 * ms); got != 300*ms {
			t.Errorf("after the last has gone the next turn is at %v, want 300ms", got)
		}
		p.cancel(&queue[3], at(40*ms)) // twice is once
		p.cancel(&queue[2], at(40*ms)) // now the last
		if got := turn(40 * ms); got != 200*ms {
			t.Errorf("after both have gone the next turn is at %v, want 200ms", got)
		}
		if p.settle(&queue[0], at(50*ms), 1); turn(50*ms) != 200*ms {
			t.Errorf("one that has left gave its turn back")
		}
	})
}

// A turn of a life that was made to be forgotten gives nothing back to the next one,
// though that is as long as it was.
func TestATurnOfAForgottenKeyStaysEmpty(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		r := p.rule(t, leaky(10, time.Second, time.Second))
		r.take(start, key(1), 1)
		g, _ := r.take(start, key(1), 1) // up to 200 ms
		at := start.Add(100 * ms)
		if p.clock != nil {
			p.clock(at)
		}
		if !p.limiter.Forget(r.table, r.shared, key(1)) {
			t.Fatal("not forgotten")
		}
		r.take(at, key(1), 1) // up to 200 ms, too
		p.cancel(&g, at)
		if _, res := r.take(at, key(1), 1); res.Wait != 100*ms {
			t.Errorf("%+v, want a wait of 100ms", res)
		}
	})
}

// A request that waits in one bucket leaves every leaky one at the same time.
func TestARequestLeavesAllItsLeakyBucketsAtOnce(t *testing.T) {
	mixes(t, func(t *testing.T, p *place, rule func(int, set) *rule) {
		slow, quick := rule(0, leaky(1, time.Second, 3*time.Second)), rule(1, leaky(10, time.Second, time.Second))
		both := func(at time.Duration) (limit.Grant, limit.Verdict) {
			g, v, _ := p.ask(start.Add(at), quick.claim(key(1), 1), slow.claim(key(1), 1))
			return g, v
		}
		if _, v := both(0); !v.OK || v.Wait != 0 {
			t.Fatalf("the first: %+v", v)
		}
		if _, v := both(0); !v.OK || v.Wait != time.Second { // the turn in the slow one; the quick one would have had 100 ms
			t.Fatalf("the second: %+v, want a wait of 1s", v)
		}
		// Behind it in the quick one alone: not before 1.1 s, which is more than it lets wait.
		if _, res := quick.take(start, key(1), 1); res.OK || res.Wait != 100*ms {
			t.Errorf("in the quick one: %+v, want a refusal for 100ms", res)
		}
		if _, res := quick.take(start.Add(100*ms), key(1), 1); !res.OK || res.Wait != time.Second {
			t.Errorf("in the quick one at 100 ms: %+v, want a wait of 1s", res)
		}
		// The third would leave the slow one at 2 s: the quick one does not wait so long,
		// and nothing is taken of either. At 1 s it does.
		before := slow.left(start.Add(200 * ms))
		for range 3 {
			if _, v := both(200 * ms); v.OK || v.Wait != 800*ms {
				t.Fatalf("the third: %+v, want a refusal for 800ms", v)
			}
		}
		if after := slow.left(start.Add(200 * ms)); after != before {
			t.Errorf("refusals have taken %d places of the slow one", before-after)
		}
		if _, v := both(time.Second - us); v.OK {
			t.Errorf("a hair earlier it passes")
		}
		third, v := both(time.Second)
		if !v.OK || v.Wait != time.Second {
			t.Errorf("the third as told: %+v, want a wait of 1s", v)
		}
		// It goes away: it was the last in both.
		p.cancel(&third, start.Add(time.Second))
		if _, v := both(time.Second); !v.OK || v.Wait != time.Second {
			t.Errorf("after the third has gone away: %+v, want a wait of 1s", v)
		}
	})
}

// A request that has to wait takes no slot before it leaves, and is not refused for
// want of one; but all its other units are taken.
func TestARequestThatWaitsHoldsNoSlot(t *testing.T) {
	mixes(t, func(t *testing.T, p *place, rule func(int, set) *rule) {
		queue, inside, beside := rule(0, leaky(1, time.Second, 3*time.Second)), rule(1, slotsOf(1)), rule(1, bucket(5, time.Hour, 5))
		all := func() []limit.Claim {
			return []limit.Claim{inside.claim(key(1), 1), beside.claim(key(1), 1), queue.claim(key(1), 1)}
		}
		first, v, _ := p.ask(start, all()...)
		if !v.OK || v.Wait != 0 || inside.left(start) != 0 {
			t.Fatalf("the first: %+v, %d slots left", v, inside.left(start))
		}
		second, v, claims := p.ask(start, all()...) // without a slot
		if !v.OK || v.Wait != time.Second || beside.left(start) != 3 {
			t.Fatalf("the second: %+v %+v, %d left", v, claims, beside.left(start))
		}
		// Without the queue's wait the slot decides, and nothing is taken.
		if _, v, _ := p.ask(start, all()[:2]...); v.OK || v.Wait != time.Second || beside.left(start) != 3 {
			t.Fatalf("without a slot: %+v, %d left", v, beside.left(start))
		}
		now := start.Add(500 * ms)
		p.cancel(&second, now)
		if beside.left(now) != 4 || inside.left(now) != 0 {
			t.Errorf("after the second has gone %d are left, and %d slots", beside.left(now), inside.left(now))
		}
		// Its turn is over, and the slot is taken: it need not wait, so it is refused.
		now = start.Add(time.Second)
		for range 2 {
			if _, v, _ = p.ask(now, all()...); v.OK || v.Wait != time.Second || beside.left(now) != 4 || queue.left(now) != 4 {
				t.Errorf("without a slot and without a wait: %+v, %d left, %d places", v, beside.left(now), queue.left(now))
			}
		}
		p.settle(&first, now, 0)
		third, v, _ := p.ask(now, all()...)
		if !v.OK || v.Wait != 0 || inside.left(now) != 0 {
			t.Errorf("with a slot: %+v, %d left", v, inside.left(now))
		}
		p.settle(&third, now, 0)
		if inside.left(now) != 1 || beside.left(now) != 3 || queue.left(now) != 3 {
			t.Errorf("in the end %d slots, %d units and %d places are left; want 1, 3 and 3", inside.left(now), beside.left(now), queue.left(now))
		}
		fourth, v, _ := p.ask(now, all()...) // with one, which is anybody's until it leaves
		if !v.OK || v.Wait != time.Second || inside.left(now) != 1 || beside.left(now) != 2 {
			t.Errorf("the fourth: %+v, %d slots and %d units left", v, inside.left(now), beside.left(now))
		}
		p.settle(&fourth, now.Add(time.Second), 0)
		if s := p.limiter.Store.(timed).Stats(); inside.left(now.Add(time.Second)) != 1 || s.Leases != 0 {
			t.Errorf("%d slots left, %d leases", inside.left(now.Add(time.Second)), s.Leases)
		}
	})
}

// Who is blocked under a rule of slots does not queue up for another.
func TestWhoIsBlockedDoesNotQueueUp(t *testing.T) {
	mixes(t, func(t *testing.T, p *place, rule func(int, set) *rule) {
		queue, inside := rule(0, leaky(1, sec, 9*sec)), rule(1, slotsOf(1).punished(2, time.Minute, time.Minute, time.Minute))
		inside.take(start, key(1), 1)
		for i, blocked := range []bool{false, false, true, true} {
			if _, v, all := p.ask(start, inside.claim(key(1), 1)); v.OK || all[0].Blocked != blocked {
				t.Fatalf("refusal %d: %+v", i, all)
			}
		}
		queue.take(start, key(1), 1)
		for range 3 {
			if _, v, all := p.ask(start, inside.claim(key(1), 1), queue.claim(key(1), 1)); v.OK || v.Wait != time.Minute {
				t.Errorf("%+v %+v, want a refusal of a minute", v, all)
			}
		}
		if n := queue.left(start); n != 9 {
			t.Errorf("%d places left, want 9", n)
		}
	})
}

// A leaky bucket that refuses since the turn elsewhere is too far ahead counts that
// for its penalty as any refusal.
func TestARefusalOfALaterTurnIsPunished(t *testing.T) {
	mixes(t, func(t *testing.T, p *place, rule func(int, set) *rule) {
		slow, quick := rule(0, leaky(1, time.Minute, time.Minute)), rule(1, leaky(10, sec, sec).punished(2, time.Minute, time.Minute, time.Minute))
		both := func() (limit.Verdict, limit.Claim) {
			_, v, all := p.ask(start, quick.claim(key(1), 1), slow.claim(key(1), 1))
			for _, c := range all {
				if c.Table == quick.table {
					return v, c
				}
			}
			return v, limit.Claim{}
		}
		if v, _ := both(); !v.OK {
			t.Fatalf("the first: %+v", v)
		}
		for i, want := range []time.Duration{59 * sec, 59 * sec, time.Minute} { // the turn in 60 s, less the second that it lets wait
			v, c := both()
			if v.OK || v.Wait != want || c.Blocked != (i == 2) {
				t.Errorf("refusal %d: %+v, blocked %v, want %v", i, v, c.Blocked, want)
			}
		}
		if v, c := both(); v.OK || !c.Blocked {
			t.Errorf("while blocked: %+v", v)
		}
		if n := slow.left(start); n != 1 {
			t.Errorf("%d places left in the slow one, want 1", n)
		}
	})
}

// A peek says what has room, and how long a request would have to wait.
func TestAPeekSaysHowLongToWait(t *testing.T) {
	mixes(t, func(t *testing.T, p *place, rule func(int, set) *rule) {
		queue, inside := rule(0, leaky(1, time.Second, 3*time.Second)), rule(1, slotsOf(1))
		all := func() []limit.Claim { return []limit.Claim{inside.claim(key(1), 1), queue.claim(key(1), 1)} }
		p.ask(start, all()...)
		for range 3 {
			claims := all()
			if v := p.limiter.Peek(start, claims); !v.OK || v.Wait != time.Second {
				t.Errorf("%+v %+v, want a wait of 1s", v, claims)
			}
		}
		if queue.left(start) != 3 {
			t.Errorf("%d places left after peeks, want 3", queue.left(start))
		}
	})
}

// A dry run lets nobody wait.
func TestADryRunLetsNobodyWait(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		dry, live := p.rule(t, leaky(1, time.Second, 3*time.Second)), p.rule(t, leaky(5, time.Second, time.Second))
		for i := range 3 {
			c := dry.claim(key(1), 1)
			c.Mode = limit.DryRun
			if _, v, _ := p.ask(start, c, live.claim(key(1), 1)); !v.OK || v.Wait != time.Duration(i)*200*ms {
				t.Fatalf("%+v", v)
			}
		}
		if dry.left(start) != 1 {
			t.Errorf("%d places left, want 1 of 4", dry.left(start))
		}
	})
}

// What never left comes back whole, whatever a refund may be; while somebody waits
// nothing else does.
func TestWhatNeverLeftIsNoRefund(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		s := patient(1, time.Second, 2, 5*time.Second)
		s.refunds = func() (limit.Bucket, error) { return limit.NewFixedWindow(1, time.Hour) }
		r := p.rule(t, s)
		if r.shared != nil {
			r.shared.Returns = true
		}
		take := func() limit.Grant {
			c := r.claim(key(1), 1)
			c.Pending = true
			g, v, _ := p.ask(start, c)
			if !v.OK {
				t.Fatalf("%+v", v)
			}
			return g
		}
		wait := func() time.Duration {
			c := r.claim(key(1), 1)
			p.limiter.Peek(start, []limit.Claim{c})
			g, _, all := p.ask(start, c)
			p.cancel(&g, start)
			return all[0].Result.Wait
		}
		first := take()
		take()
		for range 4 { // all of them last, and never refunds
			third := take()
			p.cancel(&third, start)
			if got := wait(); got != time.Second {
				t.Fatalf("a wait of %v after one that never left, want 1s", got)
			}
		}
		take()
		p.settle(&first, start, 1) // the one refund of the hour, of a turn with others behind
		if got := wait(); got != 2*time.Second {
			t.Errorf("a wait of %v after a refund while somebody waits, want 2s", got)
		}
	})
}

// An edit that lets requests wait, or no longer, keeps what was used.
func TestAnEditOfTheWaitKeepsWhatWasUsed(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		r := p.rule(t, bucket(10, time.Second, 10))
		r.take(start, key(1), 9)
		r.renew(t, start, patient(10, time.Second, 10, time.Second))
		if n := r.left(start); n != 1 {
			t.Errorf("%d left once requests wait, want 1", n)
		}
		for i, want := range []time.Duration{0, 100 * ms, 200 * ms} {
			if _, res := r.take(start, key(1), 1); !res.OK || res.Wait != want {
				t.Errorf("take %d: %+v, want a wait of %v", i, res, want)
			}
		}
		r.renew(t, start, patient(20, time.Second, 10, time.Second)) // 12 are in use: 50 ms each
		if _, res := r.take(start, key(1), 1); !res.OK || res.Wait != 150*ms {
			t.Errorf("at twice the rate: %+v, want a wait of 150ms", res)
		}
		r.renew(t, start, gcra(20, time.Second, 10))
		if _, res := r.take(start, key(1), 1); res.OK {
			t.Errorf("without a wait: %+v", res)
		}
	})
}

// A clock of the store that goes back makes nobody wait for longer than may be.
func TestAClockThatGoesBackMakesNobodyWaitLonger(t *testing.T) {
	p := storePlace(t, redistest.Start(t))
	for _, s := range []set{leaky(10, time.Second, time.Second), patient(10, time.Second, 1, time.Second)} {
		r := p.rule(t, s)
		r.shared.Returns = true
		for range 3 {
			r.take(start.Add(time.Minute), key(1), 1) // up to 300 ms after it
		}
		for i, c := range []struct {
			at   time.Duration
			ok   bool
			wait time.Duration
		}{
			{0, false, 59_300 * ms},
			{time.Minute - 700*ms - us, false, us},
			{time.Minute - 700*ms, true, time.Second},
			{time.Minute - 600*ms, true, time.Second},
			{time.Minute, true, 500 * ms},
		} {
			if _, res := r.take(start.Add(c.at), key(1), 1); res.OK != c.ok || res.Wait != c.wait {
				t.Errorf("%s, step %d: %+v, want %v and a wait of %v", s.name, i, res, c.ok, c.wait)
			}
		}
	}
}

// A refusal for want of a place is remembered, but for a second at most, since others may
// go away; not at all where the request waits for something else; and not after
// somebody has gone away here.
func TestRefusalsOfAQueueAreRememberedForAMoment(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	calls := func() float64 { return server.Figure("commandstats", "cmdstat_evalsha:calls") }
	r, other := p.rule(t, leaky(1, time.Minute, time.Minute)), p.rule(t, leaky(1, time.Minute, time.Minute))
	r.take(now(), key(1), 1)
	last, res := r.take(now(), key(1), 1)
	first := now()
	if _, full := r.take(first, key(1), 1); full.OK || !res.OK {
		t.Fatalf("%+v, then %+v", res, full)
	}
	before := calls()
	for i := range 10 {
		if _, res := r.take(first.Add(time.Duration(i)*90*ms), key(1), 1); res.OK || res.Wait > time.Minute || res.Wait < 30*time.Second {
			t.Errorf("%+v", res)
		}
	}
	if n := calls() - before; n != 0 {
		t.Errorf("the store was asked %v times of 10", n)
	}
	if r.take(first.Add(time.Second), key(1), 1); calls() != before+1 {
		t.Errorf("the store is not asked again after a second")
	}
	if last.Cancel(now()); calls() != before+2 {
		t.Errorf("a turn is not given back")
	}
	if _, res := r.take(first.Add(1500*ms), key(1), 1); !res.OK {
		t.Errorf("when the last has gone: %+v", res)
	}
	// One that waits for another bucket is refused for that alone.
	other.take(now(), key(1), 1)
	_, v, _ := p.ask(now(), r.claim(key(2), 2), other.claim(key(1), 1))
	if _, res := r.take(now(), key(2), 2); v.OK || !res.OK {
		t.Errorf("with two rules %+v, with one %+v", v, res)
	}
}

// A give-back that the store does not hear of, or whose reply is lost, leaves the turn
// empty or free: never is it anybody else's before its time.
func TestALostGiveBackLetsNobodyThrough(t *testing.T) {
	server := redistest.Start(t)
	f := redistest.StartFaulty(t, server)
	opts := options(f.Addr)
	opts.Timeout = 2 * time.Second
	p, q := served(open(t, opts)), served(open(t, options(server.Addr)))
	id := "lost" + strconv.FormatInt(rules.Add(1), 10)
	mine, theirs := p.ruleNamed(t, id, leaky(1, 30*time.Second, time.Minute)), q.ruleNamed(t, id, leaky(1, 30*time.Second, time.Minute))
	mine.take(now(), key(1), 1)
	g, res := mine.take(now(), key(1), 1)
	if !res.OK || res.Wait > 40*time.Second { // 30 s, and what the answer took
		t.Fatalf("%+v", res)
	}
	f.Swallow(true)
	g.Cancel(now())
	if _, res := theirs.take(now(), key(1), 1); res.OK && res.Wait < 5*time.Second { // not at once, when the first has left 30 s ago
		t.Errorf("after a lost give-back: %+v", res)
	}
}

// Thousands that hang up at once do not keep the store from others, and all give back
// what they hold.
func TestThousandsThatHangUpAtOnce(t *testing.T) {
	server := redistest.Start(t)
	f := redistest.StartFaulty(t, server)
	s := open(t, options(f.Addr))
	p := served(s)
	const waiters = mostInFlight + 500
	r := p.rule(t, fixed(2*waiters, 366*day))
	r.shared.Returns = true
	grants := make([]limit.Grant, waiters)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 100 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < waiters; i = next.Add(1) - 1 {
				grants[i], _ = r.take(now(), key(1), 1)
			}
		})
	}
	wg.Wait()
	if _, res := r.take(now(), key(1), 0); res.Remaining != waiters {
		t.Fatalf("%+v with %d taken of %d", res, waiters, 2*waiters)
	}
	f.Delay(100 * ms)
	for i := range grants {
		wg.Go(func() { grants[i].Cancel(now()) })
	}
	for range 5 {
		if _, v, all := p.ask(now(), r.claim(key(2), 1)); !v.OK || all[0].Fate != limit.There {
			t.Errorf("one that comes meanwhile: %+v, decided by %d", v, all[0].Fate)
		}
	}
	wg.Wait()
	if _, res := r.take(now(), key(1), 0); res.Remaining != 2*waiters || s.Stats().Errors["busy"] != 0 {
		t.Errorf("%+v in the end, of %d; errors %v", res, 2*waiters, s.Stats().Errors)
	}
}

// gateways returns places that count in one store, with the clock of the first.
func gateways(t *testing.T, n int) (*redistest.Server, []*place) {
	server := redistest.Start(t)
	var all []*place
	for range n {
		all = append(all, storePlace(t, server))
	}
	return server, all
}

// A thousand requests wait at two gateways, and half of them hang up before their turn:
// departures at both together are never closer than W/N, and nothing is left of anybody.
func TestOfAThousandWaitersAtTwoGatewaysHalfHangUp(t *testing.T) {
	server, both := gateways(t, 2)
	id := "even" + strconv.FormatInt(rules.Add(1), 10)
	const each = 10 * ms // 100 a second
	rulesOf := []*rule{both[0].ruleNamed(t, id, leaky(100, time.Second, 10*time.Second)), both[1].ruleNamed(t, id, leaky(100, time.Second, 10*time.Second))}
	type waiter struct {
		at      int
		turn    time.Duration
		grant   limit.Grant
		hangsUp time.Duration // 0 is not
	}
	random := rand.New(rand.NewPCG(1, 2))
	var all []*waiter
	for i := range 1001 {
		g, res := rulesOf[i%2].take(start, key(1), 1)
		if !res.OK || res.Wait != time.Duration(i)*each {
			t.Fatalf("request %d: %+v", i, res)
		}
		w := &waiter{at: i % 2, turn: res.Wait, grant: g}
		if i > 0 && random.IntN(2) == 0 {
			w.hangsUp = us + time.Duration(random.Int64N(int64(w.turn-us)))/us*us
		}
		all = append(all, w)
	}
	for _, r := range rulesOf {
		if _, res := r.take(start, key(1), 1); res.OK || res.Wait != each {
			t.Errorf("with 1000 places taken: %+v", res)
		}
	}
	var left []time.Duration
	type event struct {
		at time.Duration
		do func(now limit.Instant)
	}
	var events []event
	for _, w := range all {
		p := both[w.at]
		if w.hangsUp > 0 {
			events = append(events, event{w.hangsUp, func(now limit.Instant) { p.cancel(&w.grant, now) }})
			continue
		}
		events = append(events, event{w.turn, func(now limit.Instant) {
			left = append(left, w.turn)
			p.settle(&w.grant, now, 0)
		}})
	}
	for i := range 300 { // more come meanwhile, wherever there is room
		at := time.Duration(random.Int64N(int64(10*time.Second))) / us * us
		events = append(events, event{at, func(now limit.Instant) {
			if g, res := rulesOf[i%2].take(now, key(1), 1); res.OK {
				left = append(left, now.Sub(start)+res.Wait)
				both[i%2].settle(&g, now, 0)
			}
		}})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		e.do(start.Add(e.at))
	}
	slices.Sort(left)
	for i := 1; i < len(left); i++ {
		if apart := left[i] - left[i-1]; apart < each {
			t.Fatalf("departures %d and %d are %v apart, at least %v", i-1, i, apart, each)
		}
	}
	if len(left) < 500 {
		t.Errorf("%d left", len(left))
	}
	// The last who left: a period later all is as it was.
	last := start.Add(left[len(left)-1])
	for _, r := range rulesOf {
		if _, res := r.take(last.Add(each), key(1), 0); res.Remaining != 1001 || res.Reset != 0 {
			t.Errorf("in the end %+v", res)
		}
	}
	name := string(appendKey(nil, "gw", rulesOf[0].shared, key(1)))
	var ttl int64
	if fmt.Sscan(server.Do("PTTL", name), &ttl); ttl < 0 || time.Duration(ttl)*ms > testSlack+11*time.Second {
		t.Errorf("the key lives for %d ms", ttl)
	}
}

// Random arrivals at two gateways, of one and of two leaky buckets, of which half hang up:
// what leaves each bucket is never closer than W/N for what it took.
func TestDeparturesFromAllGatewaysAreNeverCloserThanTheRate(t *testing.T) {
	_, both := gateways(t, 2)
	rapid.Check(t, func(r *rapid.T) {
		permits := rapid.Int64Range(1, 9).Draw(r, "permits")
		each := [2]time.Duration{time.Second, 700 * ms}
		id := "law" + strconv.FormatInt(rules.Add(1), 10)
		var at [2][2]*rule // gateway, bucket
		local := rapid.Bool().Draw(r, "the second in memory, at the first gateway alone")
		for g := range both {
			for b, per := range each {
				at[g][b] = both[g].ruleNamed(r, id+strconv.Itoa(b), leaky(permits, per*time.Duration(permits), 5*per))
				if at[g][b].shared.Returns = true; local && b == 1 {
					at[g][b].shared = nil
				}
			}
		}
		type waiter struct {
			gateway int
			buckets []int
			units   int64
			turn    limit.Instant
			grant   limit.Grant
		}
		var queue, left []*waiter
		now := start
		depart := func(until limit.Instant) {
			slices.SortStableFunc(queue, func(a, b *waiter) int { return int(a.turn - b.turn) })
			for len(queue) > 0 && queue[0].turn <= until {
				left = append(left, queue[0])
				both[queue[0].gateway].settle(&queue[0].grant, queue[0].turn, 0)
				queue = queue[1:]
			}
		}
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second/us)).Draw(r, "pass")/rapid.SampledFrom([]int64{1, 5, 50}).Draw(r, "of")) * us)
			depart(now)
			if len(queue) > 0 && rapid.Bool().Draw(r, "hangs up") {
				i := rapid.OneOf(rapid.Just(len(queue)-1), rapid.IntRange(0, len(queue)-1)).Draw(r, "who")
				both[queue[i].gateway].cancel(&queue[i].grant, now)
				queue = slices.Delete(queue, i, i+1)
				continue
			}
			w := &waiter{units: rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(r, "units")}
			if !local {
				w.gateway = rapid.IntRange(0, 1).Draw(r, "gateway")
			}
			w.buckets = rapid.SampledFrom([][]int{{0}, {1}, {0, 1}, {1, 0}}).Draw(r, "buckets")
			var claims []limit.Claim
			for _, b := range w.buckets {
				claims = append(claims, at[w.gateway][b].claim(key(1), w.units))
			}
			g, v, _ := both[w.gateway].ask(now, claims...)
			if !v.OK {
				continue
			}
			if v.Wait > 5*time.Second {
				r.Fatalf("a wait of %v", v.Wait)
			}
			w.turn, w.grant = now.Add(v.Wait), g
			queue = append(queue, w)
			depart(now)
		}
		depart(now.Add(limit.MaxWait))
		for b, per := range each {
			var before *waiter
			for _, w := range left {
				if !slices.Contains(w.buckets, b) {
					continue
				}
				// To a microsecond, since a turn is the first whole one in which it may be.
				if before != nil && w.turn.Sub(before.turn) < per*time.Duration(before.units)-us {
					r.Fatalf("departures from bucket %d are %v apart, after %d units at least %v", b, w.turn.Sub(before.turn), before.units, per)
				}
				before = w
			}
		}
	})
}
