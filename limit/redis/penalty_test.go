package redis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

const sec = time.Second

// strict is 1 in 10 seconds, with a penalty for more than 2 refusals a minute: a
// block of 1, 2, 4, 4, … minutes.
var strict = bucket(1, 10*sec, 1).punished(2, time.Minute, time.Minute, 4*time.Minute)

// Every instant by hand: doubling, decay and forgetting.
func TestPenaltyByHand(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		r := p.rule(t, strict)
		for _, c := range []struct {
			at      time.Duration
			n       int64
			ok      bool
			blocked bool
			wait    time.Duration
		}{
			{0, 2, false, false, limit.Never}, // of a key of which nothing is known: counts nowhere
			{0, 1, true, false, 0},
			{1 * sec, 1, false, false, 9 * sec},
			{2 * sec, 1, false, false, 8 * sec},
			{3 * sec, 1, false, true, 60 * sec}, // the third in a minute: until 63 s
			{3 * sec, 1, false, true, 60 * sec},
			{10 * sec, 1, false, true, 53 * sec}, // there is room, and a block
			{10 * sec, 0, false, true, 53 * sec},
			{10 * sec, 2, false, true, limit.Never}, // what can never pass will not then
			{62 * sec, 1, false, true, 1 * sec},     // who is blocked does not prolong it
			{63*sec - us, 1, false, true, us},
			{63 * sec, 1, true, false, 0},
			{64 * sec, 1, false, false, 9 * sec},
			{65 * sec, 2, false, false, limit.Never}, // counts, too
			{66 * sec, 1, false, true, 120 * sec},    // doubled: until 186 s
			{186 * sec, 1, true, false, 0},
			{187 * sec, 1, false, false, 9 * sec},
			{188 * sec, 1, false, false, 8 * sec},
			{189 * sec, 1, false, true, 240 * sec}, // again: until 429 s
			{429 * sec, 1, true, false, 0},
			{430 * sec, 1, false, false, 9 * sec},
			{431 * sec, 1, false, false, 8 * sec},
			{432 * sec, 1, false, true, 240 * sec}, // max: until 672 s
			{672 * sec, 1, true, false, 0},
			{911 * sec, 1, true, false, 0},
			{912 * sec, 1, false, false, 9 * sec}, // 240 s after 672 s: one doubling less
			{913 * sec, 1, false, false, 8 * sec},
			{914 * sec, 1, false, true, 120 * sec},  // until 1034 s; the next would be of 240 s
			{1274 * sec, 1, true, false, 0},         // 240 s later of 120 s,
			{1275 * sec, 1, false, false, 9 * sec},  // and this refusal begins the count anew
			{1276 * sec, 1, false, false, 8 * sec},  //
			{1277 * sec, 1, false, true, 120 * sec}, // until 1397 s; two doublings again
			{1397*sec + 479*sec, 1, true, false, 0},
			{1397*sec + 480*sec, 1, false, false, 9 * sec}, // all taken back
			{1397*sec + 481*sec, 1, false, false, 8 * sec},
			{1397*sec + 482*sec, 1, false, true, 60 * sec},
		} {
			_, v, claims := p.ask(start.Add(c.at), r.claim(key(1), c.n))
			got := claims[0]
			if v.OK != c.ok || v.Wait != c.wait || got.Result.Wait != c.wait || got.Blocked != c.blocked {
				t.Fatalf("%d at %v: %+v, blocked %v, want %+v", c.n, c.at, v, got.Blocked, c)
			}
			if c.blocked && (got.Result.Remaining != 0 || got.Result.Reset != max(0, c.wait)) {
				t.Errorf("at %v: %+v while blocked", c.at, got.Result)
			}
		}
	})
}

// A record lives as long as what it says matters, which a key without usage does
// not; and gets back a time to live that it has lost.
func TestARecordLivesAsLongAsItMatters(t *testing.T) {
	server := redistest.Start(t)
	p := storePlace(t, server)
	name := ""
	lives := func(what string, want time.Duration) {
		t.Helper()
		var ttl int64
		fmt.Sscan(server.Do("PTTL", name), &ttl)
		// The server's own clock goes on, also on a machine that is busy.
		if got := time.Duration(ttl)*ms - testSlack; ttl < 0 || got > want || got < want-time.Minute {
			t.Errorf("%s: lives for %v more, want %v", what, got, want)
		}
	}
	long := bucket(1, 10*sec, 1).punished(2, 10*time.Hour, time.Hour, 4*time.Hour)
	r := p.ruleNamed(t, "long", long)
	name = string(appendKey(nil, "gw", r.shared, key(1))) + recordSuffix
	r.take(start, key(1), 1)
	if server.Do("EXISTS", name) != "0" {
		t.Error("who was never refused has a record")
	}
	r.take(start, key(1), 1)
	lives("one refusal of two in 10 hours", 5*time.Hour)
	r.take(start, key(1), 1)
	lives("two of them", 10*time.Hour)
	r.take(start, key(1), 1)
	lives("a block of an hour, and 4 until its doubling is gone", 10*time.Hour)
	at := start.Add(time.Hour)
	for range 6 { // room for none, since a tenth of two came back
		r.take(at, key(1), 1)
	}
	lives("two hours of the second, and 8 for two doublings", 10*time.Hour)
	at = at.Add(2 * time.Hour)
	for range 6 {
		r.take(at, key(1), 1)
	}
	lives("four hours of the third, and 8 for two doublings", 12*time.Hour)
	server.Do("PERSIST", name)
	r.take(at.Add(6*sec), key(1), 1)
	lives("after it has lost its time to live", 12*time.Hour)
	for _, plant := range [][]string{{"SET", name, "x"}, {"HSET", name, "h", "x"}} {
		server.Do("DEL", name)
		server.Do(plant...)
		r.take(at.Add(20*sec), key(1), 0)
		if server.Do("EXISTS", name) != "0" {
			t.Errorf("%v is left under the name of a record", plant)
		}
	}
}

// A blocked request charges nobody, and counts as nobody's refusal; nor does one
// that is only looked at. A try counts.
func TestWhoIsBlockedChargesNobody(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		r, beside, other := p.rule(t, strict), p.rule(t, bucket(5, time.Hour, 5)), p.rule(t, strict)
		for range 4 {
			p.ask(start, r.claim(key(1), 1), beside.claim(key(1), 1))
		}
		other.take(start, key(1), 1) // nothing is left of it
		now := start.Add(sec)
		of := func(claims []limit.Claim, r *rule) *limit.Claim {
			for i := range claims {
				if claims[i].Table == r.table {
					return &claims[i]
				}
			}
			return nil
		}
		for range 9 {
			_, v, claims := p.ask(now, beside.claim(key(1), 1), r.claim(key(1), 1), other.claim(key(1), 1))
			if v.OK || v.Wait != 59*sec || !of(claims, r).Blocked || of(claims, other).Blocked {
				t.Fatalf("%+v", v)
			}
		}
		if _, res := beside.take(now, key(1), 0); res.Remaining != 4 {
			t.Errorf("%d left of another rule, want 4", res.Remaining)
		}
		for range 9 {
			claims := []limit.Claim{other.claim(key(1), 1)}
			if v := p.limiter.Peek(now, claims); v.OK || claims[0].Blocked {
				t.Fatalf("looked at: %+v", v)
			}
		}
		for i := range 3 { // while a try counts
			claims := []limit.Claim{other.claim(key(1), 1)}
			if v := p.limiter.Try(now, claims); v.OK || claims[0].Blocked != (i == 2) {
				t.Fatalf("try %d: %+v, blocked %v", i, v, claims[0].Blocked)
			}
		}
		claims := []limit.Claim{other.claim(key(1), 1)}
		if v := p.limiter.Peek(now, claims); v.OK || !claims[0].Blocked || v.Wait != time.Minute {
			t.Errorf("looked at when blocked: %+v", v)
		}
		// A dry run is punished in its own books alone, on requests that pass.
		for i := range 6 {
			c := other.claim(key(2), 1)
			c.Mode = limit.DryRun
			if _, v, claims := p.ask(now, c); !v.OK || claims[0].Blocked != (i > 2) {
				t.Errorf("dry run %d: %+v, blocked %v", i, v, claims[0].Blocked)
			}
		}
		claims = []limit.Claim{other.claim(key(2), 1)}
		if v := p.limiter.Peek(now, claims); v.Wait != time.Minute {
			t.Errorf("a dry run that is blocked counts on: %+v", v)
		}
		never := p.rule(t, fixed(1, 366*day))
		if never.shared != nil {
			never.shared.Returns = true // so that it is asked
		}
		never.take(now, key(3), 1)
		other.take(now, key(3), 1)
		for range 6 {
			c := other.claim(key(3), 1)
			c.Mode = limit.DryRun
			p.ask(now, c, never.claim(key(3), 1))
		}
		other.take(now, key(3), 1)
		if _, _, claims := p.ask(now, other.claim(key(3), 1)); claims[0].Blocked {
			t.Error("a dry run counts what another rule refuses")
		}
	})
}

// An edit of a penalty holds from the next block on, and one that is gone blocks
// nobody.
func TestAPenaltyEndsWithItsRule(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		r := p.rule(t, strict)
		for range 4 {
			r.take(start, key(1), 1)
		}
		r.renew(t, start.Add(sec), bucket(1, 10*sec, 1).punished(1, time.Minute, time.Hour, time.Hour))
		if _, res := r.take(start.Add(2*sec), key(1), 1); res.Wait != 58*sec {
			t.Errorf("the block that was in force: %+v", res)
		}
		r.renew(t, start.Add(3*sec), bucket(1, 10*sec, 1))
		if _, res := r.take(start.Add(13*sec), key(1), 1); !res.OK {
			t.Errorf("without a penalty: %+v", res)
		}
	})
}

// Forgetting a key ends its block, also where requests in progress keep the key, and
// for all gateways.
func TestForgettingEndsABlock(t *testing.T) {
	server := redistest.Start(t)
	one, other := served(open(t, options(server.Addr))), served(open(t, options(server.Addr)))
	for _, s := range []set{bucket(1, time.Hour, 1), logged(1, time.Hour), slotsOf(1)} {
		s = s.punished(1, time.Hour, time.Hour, time.Hour)
		name := fmt.Sprintf("forget%d", rules.Add(1))
		mine, theirs := one.ruleNamed(t, name, s), other.ruleNamed(t, name, s)
		g, _ := mine.take(now(), key(1), 1)
		theirs.take(now(), key(1), 1)
		for i, r := range []*rule{mine, theirs, mine, theirs} {
			_, v, claims := r.at.ask(now(), r.claim(key(1), 1))
			if v.OK || !claims[0].Blocked || v.Wait > 61*time.Minute || v.Wait < 50*time.Minute {
				t.Errorf("%s: request %d of a key that is blocked for an hour: %+v, blocked %v", s.name, i, v, claims[0].Blocked)
			}
		}
		if gone := one.limiter.Forget(mine.table, mine.shared, key(1)); gone == s.slots {
			t.Errorf("%s: forgotten %v", s.name, gone)
		}
		other.limiter.Forget(theirs.table, theirs.shared, key(1)) // what it remembers by itself
		for _, r := range []*rule{mine, theirs} {
			if _, _, claims := r.at.ask(now(), r.claim(key(1), 0)); claims[0].Blocked || !claims[0].Result.OK {
				t.Errorf("%s: afterwards %+v, blocked %v", s.name, claims[0].Result, claims[0].Blocked)
			}
		}
		g.Done(now(), nil)
	}
}

// Refusals of a rule with a penalty are counted one by one, and a block is
// remembered: then the store is not asked again, whatever else the rule is.
func TestABlockIsRememberedAndARefusalIsNot(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	asked := func() float64 { return server.Figure("commandstats", "cmdstat_evalsha:calls") }
	for _, s := range []set{bucket(1, time.Hour, 1), slotsOf(1), logged(1, day)} {
		r, beside := p.rule(t, s.punished(20, day, day, day)), p.rule(t, fixed(1, 366*day))
		for _, k := range []limit.Digest{key(1), key(2)} { // the first with another that refuses
			r.shared.Returns = k == key(2)
			claims := func() []limit.Claim {
				c := []limit.Claim{r.claim(k, 1)}
				if k == key(1) {
					c = append(c, beside.claim(k, 1))
				}
				return c
			}
			at := now()
			p.ask(at, claims()...)
			before := asked()
			for i := range 25 {
				_, v, all := p.ask(at, claims()...)
				blocked := false
				for _, c := range all {
					blocked = blocked || c.Blocked && c.Table == r.table
				}
				if v.OK || blocked != (i >= 20) {
					t.Fatalf("%s: refusal %d: %+v, blocked %v", s.name, i, v, blocked)
				}
			}
			if n := asked() - before; n != 21 {
				t.Errorf("%s: the store was asked %v times of 25, want for 20 refusals and the block", s.name, n)
			}
			_, _, all := p.ask(at.Add(4*sec), claims()...)
			for _, c := range all {
				if w := c.Result.Wait; c.Table == r.table && (w > day-4*sec+time.Minute || w < day-time.Hour) {
					t.Errorf("%s: a wait of %v 4 s later, blocked %v", s.name, w, c.Blocked)
				}
			}
			if n := asked() - before; n != 21 {
				t.Errorf("%s: the store was asked for a block that is remembered", s.name)
			}
			p.ask(at.Add(5*sec), claims()...)
			if n := asked() - before; n != 22 {
				t.Errorf("%s: the store is not asked again after 5 s", s.name)
			}
		}
	}
}

// What another rule refuses as it has before is a refusal of those that this process
// counts, too.
func TestARememberedRefusalCountsForRulesOfThisProcess(t *testing.T) {
	p := storePlace(t, redistest.Start(t))
	shared, here := p.rule(t, fixed(1, 366*day)), p.rule(t, strict)
	here.shared = nil
	ask := func() (bool, bool) {
		_, v, claims := p.ask(start, shared.claim(key(1), 1), here.claim(key(1), 1))
		for _, c := range claims {
			if c.Table == here.table {
				return v.OK, c.Blocked
			}
		}
		return v.OK, false
	}
	if ok, _ := ask(); !ok {
		t.Fatal("the first is refused")
	}
	shared.take(start, key(1), 1) // refused, and remembered
	for i := range 4 {
		if ok, blocked := ask(); ok || blocked != (i >= 2) {
			t.Errorf("refusal %d: passes %v, blocked %v", i, ok, blocked)
		}
	}
}

// Many at once earn one block, by one refusal more than go unpunished, whoever asks
// where.
func TestManyAtOnceEarnOneBlock(t *testing.T) {
	server := redistest.Start(t)
	id := fmt.Sprintf("penalty%d", rules.Add(1))
	var passed, refused, blocked atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		p := served(open(t, options(server.Addr)))
		r := p.ruleNamed(t, id, calendar(10, limit.Month, midday).punished(30, 366*day, 100*day, 366*day))
		wg.Go(func() {
			for range 50 {
				_, v, claims := p.ask(now(), r.claim(key(1), 1))
				switch {
				case v.OK:
					passed.Add(1)
				case claims[0].Blocked:
					if blocked.Add(1); v.Wait > 101*day {
						t.Errorf("blocked for %v: twice", v.Wait)
					}
				default:
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 10 || refused.Load() != 30 || blocked.Load() != 260 {
		t.Errorf("%d passed, %d were refused and %d blocked of 300, want 10, 30 and 260", passed.Load(), refused.Load(), blocked.Load())
	}
}

// A refusal whose reply is lost counts once.
func TestALostRefusalCountsOnce(t *testing.T) {
	server := redistest.Start(t)
	f := redistest.StartFaulty(t, server)
	opts := options(f.Addr)
	opts.Timeout = 300 * time.Millisecond
	p := served(open(t, opts))
	r := p.rule(t, fixed(1, 366*day).punished(3, 366*day, day, day))
	r.take(now(), key(1), 1)
	r.take(now(), key(1), 1) // the first refusal
	f.Swallow(true)
	r.take(now(), key(1), 1) // the second
	f.Swallow(false)
	f.Cut()
	redistest.Eventually(t, "the store is asked again", func() bool {
		_, _, claims := p.ask(now(), r.claim(key(1), 0))
		return claims[0].Fate == limit.There
	})
	for i := range 2 {
		_, _, claims := p.ask(now(), r.claim(key(1), 1))
		if claims[0].Fate != limit.There || claims[0].Blocked != (i == 1) {
			t.Errorf("refusal %d: decided by %d, blocked %v", 3+i, claims[0].Fate, claims[0].Blocked)
		}
	}
}

// While the store is away its rules punish by themselves, or not at all.
func TestAPenaltyWhileTheStoreIsAway(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	s := New(options(server.Addr), nil)
	p := served(s)
	for _, open := range []bool{false, true} {
		r := p.rule(t, strict)
		at := now()
		for i := range 5 {
			c := r.claim(key(1), 1)
			c.Open = open
			_, v, claims := p.ask(at, c)
			if v.OK != (open || i == 0) || claims[0].Blocked != (!open && i > 2) {
				t.Errorf("open %v, request %d: %+v, blocked %v", open, i, v, claims[0].Blocked)
			}
		}
	}
}
