package limit

import (
	"context"
	"errors"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func penalty(tb failer, refusals int64, per, block, max time.Duration) Penalty {
	tb.Helper()
	p, err := NewPenalty(refusals, per, block, max)
	if err != nil {
		tb.Fatalf("NewPenalty(%d, %v, %v, %v): %v", refusals, per, block, max, err)
	}
	return p
}

// strict is 1 in 10 seconds, with a penalty for more than 2 refusals a minute: a
// block of 1, 2, 4, 4, … minutes.
func strict(tb failer) Numbers {
	n := tokenNumbers(tb, 1, 10*sec, 1)
	n.Penalty = penalty(tb, 2, time.Minute, time.Minute, 4*time.Minute)
	return n
}

// Every instant by hand: doubling, decay and forgetting.
func TestPenaltyByHand(t *testing.T) {
	table := NewTable(strict(t), 100, NewBudget(1<<20))
	for _, c := range []struct {
		at      time.Duration
		ok      bool
		blocked bool
		wait    time.Duration
	}{
		{0, true, false, 0},
		{1 * sec, false, false, 9 * sec},
		{2 * sec, false, false, 8 * sec},
		{3 * sec, false, true, 60 * sec}, // the third in a minute: until 63 s
		{3 * sec, false, true, 60 * sec},
		{10 * sec, false, true, 53 * sec}, // there is room, and a block
		{62 * sec, false, true, 1 * sec},  // who is blocked does not prolong it
		{63*sec - 1, false, true, 1},
		{63 * sec, true, false, 0},
		{64 * sec, false, false, 9 * sec},
		{65 * sec, false, false, 8 * sec},
		{66 * sec, false, true, 120 * sec}, // doubled: until 186 s
		{186 * sec, true, false, 0},
		{187 * sec, false, false, 9 * sec},
		{188 * sec, false, false, 8 * sec},
		{189 * sec, false, true, 240 * sec}, // again: until 429 s
		{429 * sec, true, false, 0},
		{430 * sec, false, false, 9 * sec},
		{431 * sec, false, false, 8 * sec},
		{432 * sec, false, true, 240 * sec}, // max: until 672 s
		{672 * sec, true, false, 0},
		{911 * sec, true, false, 0},
		{912 * sec, false, false, 9 * sec}, // 240 s after 672 s: one doubling less
		{913 * sec, false, false, 8 * sec},
		{914 * sec, false, true, 120 * sec},  // until 1034 s; the next would be of 240 s
		{1274 * sec, true, false, 0},         // 240 s later of 120 s,
		{1275 * sec, false, false, 9 * sec},  // and this refusal begins the count anew
		{1276 * sec, false, false, 8 * sec},  //
		{1277 * sec, false, true, 120 * sec}, // until 1397 s; two doublings again
		{1397*sec + 479*sec, true, false, 0},
		{1397*sec + 480*sec, false, false, 9 * sec}, // all taken back
		{1397*sec + 481*sec, false, false, 8 * sec},
		{1397*sec + 482*sec, false, true, 60 * sec},
	} {
		_, v, claims := acquire(start.Add(c.at), claim(table, key(1), 1))
		r := claims[0]
		if v.OK != c.ok || v.Wait != c.wait || r.Result.Wait != c.wait || r.Blocked != c.blocked {
			t.Fatalf("at %v: %+v, blocked %v, want %+v", c.at, v, r.Blocked, c)
		}
		if c.blocked && (r.Result.Remaining != 0 || r.Result.Reset != c.wait) {
			t.Errorf("at %v: %+v while blocked", c.at, r.Result)
		}
		table.Sweep(start.Add(c.at))
		audit(t, table)
	}
	// The last block ends at 1397 + 482 + 60 = 1939 s; it is forgotten with its
	// doubling, 240 s later, and not before.
	table.Sweep(start.Add(2179*sec - 1))
	if !holds(table, key(1)) {
		t.Error("forgotten while a doubling is left")
	}
	table.Sweep(start.Add(2179 * sec))
	if holds(table, key(1)) {
		t.Error("remembered for ever")
	}
	audit(t, table)
}

func TestPenaltyNumbersThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		n               int64
		per, block, max time.Duration
		ok              bool
	}{
		{1, sec, 1, 1, true}, {0, sec, sec, sec, false}, {1, 0, sec, sec, false}, {1, sec, 0, sec, false}, {1, sec, 2 * sec, sec, false},
		{1, sec, maxPeriod, maxPeriod, true}, {1, sec, sec, maxPeriod + 1, false},
	} {
		if _, err := NewPenalty(c.n, c.per, c.block, c.max); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrNumbers) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A blocked request charges nobody, and counts as nobody's refusal; nor does one
// that is only looked at.
func TestWhoIsBlockedChargesNobody(t *testing.T) {
	b := NewBudget(1 << 20)
	table, beside, other := NewTable(strict(t), 10, b), NewTable(tokenNumbers(t, 5, time.Hour, 5), 10, b), NewTable(strict(t), 10, b)
	for range 4 {
		acquire(start, claim(table, key(1), 1), claim(beside, key(1), 1))
	}
	take(other, start, key(1), 1) // nothing is left of it
	for range 9 {
		_, v, c := acquire(start.Add(sec), claim(beside, key(1), 1), claim(table, key(1), 1), claim(other, key(1), 1))
		if v.OK || v.Wait != 59*sec || c[2].Blocked {
			t.Fatalf("%+v", v)
		}
	}
	if left(beside, start.Add(sec), key(1)) != 4 {
		t.Errorf("%d left", left(beside, start.Add(sec), key(1)))
	}
	var l Limiter
	for range 9 {
		claims := []Claim{claim(other, key(1), 1)}
		if v := l.Peek(start.Add(sec), claims); v.OK || claims[0].Blocked {
			t.Fatalf("looked at: %+v", v)
		}
	}
	for i := range 3 { // while a try counts
		claims := []Claim{claim(other, key(1), 1)}
		if v := l.Try(start.Add(sec), claims); v.OK || claims[0].Blocked != (i == 2) {
			t.Fatalf("try %d: %+v, blocked %v", i, v, claims[0].Blocked)
		}
	}
	// A dry run is punished in its own books alone.
	for i := range 6 {
		c := claim(other, key(2), 1)
		c.Mode = DryRun
		if _, v, claims := acquire(start.Add(sec), c); !v.OK || claims[0].Blocked != (i > 2) {
			t.Errorf("dry run %d: %+v, blocked %v", i, v, claims[0].Blocked)
		}
	}
}

// What cannot be afforded at any time is no more after a block: it stays never.
func TestAPenaltyEndsWithItsRule(t *testing.T) {
	table := NewTable(strict(t), 10, NewBudget(1<<20))
	block := func(k Digest, at Instant) {
		for range 4 {
			take(table, at, k, 1)
		}
		if _, r := take(table, at, k, 1); r.Wait < time.Minute {
			t.Fatalf("not blocked: %+v", r)
		}
	}
	block(key(1), start)
	if !table.Forget(key(1)) || left(table, start, key(1)) != 1 {
		t.Error("a reset leaves the block")
	}
	block(key(1), start)
	// Longer blocks hold from the next one on, and fewer refusals at once.
	longer := strict(t)
	longer.Penalty = penalty(t, 1, time.Minute, time.Hour, time.Hour)
	table.Renew(2, start.Add(sec), longer, 10)
	if _, r := take(table, start.Add(2*sec), key(1), 1); r.Wait != 58*sec {
		t.Errorf("the block that was in force: %+v", r)
	}
	table.Renew(3, start.Add(3*sec), tokenNumbers(t, 1, 10*sec, 1), 10)
	if _, r := take(table, start.Add(13*sec), key(1), 1); !r.OK { // 3 s of the refill are lost to the edits
		t.Errorf("without a penalty: %+v", r)
	}
	table.Sweep(start.Add(time.Minute))
	if holds(table, key(1)) {
		t.Error("a penalty that is no more keeps the key")
	}
	// Slots: those in progress keep the key, not its block.
	n := Numbers{Bucket: slots(t, 1), Slots: true, Penalty: penalty(t, 1, time.Minute, time.Minute, time.Minute)}
	table = NewTable(n, 10, NewBudget(1<<20))
	take(table, start, key(1), 1)
	for range 2 {
		take(table, start, key(1), 1)
	}
	if _, _, c := acquire(start, claim(table, key(1), 1)); !c[0].Blocked {
		t.Fatal("slots: not blocked")
	}
	if table.Forget(key(1)) {
		t.Error("requests in progress were forgotten")
	}
	if _, _, c := acquire(start, claim(table, key(1), 1)); c[0].Blocked || c[0].Result.OK {
		t.Errorf("slots after a reset: %+v", c[0].Result)
	}
}

// A flood does not flush out a block in force, nor one that is to be doubled before
// what weighs less.
func TestABlockInForceIsNotEvicted(t *testing.T) {
	table := NewTable(strict(t), 16, NewBudget(1<<20))
	for range 3 {
		take(table, start, key(0), 1)
	}
	take(table, start, key(0), 1)
	for i := 1; i < 500; i++ { // by then its bucket is full
		take(table, start.Add(20*sec+time.Duration(i)*ms), key(i), 1)
		take(table, start.Add(20*sec+time.Duration(i)*ms), key(i), 0)
	}
	if _, _, c := acquire(start.Add(21*sec), claim(table, key(0), 1)); !c[0].Blocked {
		t.Error("a flood ended the block")
	}
	audit(t, table)
}

// Against an obvious model: a list of refusals in exact rationals.
func TestPenaltyDecidesLikeTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		block := time.Duration(rapid.IntRange(1, 20).Draw(r, "block")) * sec
		most := block * time.Duration(rapid.IntRange(1, 9).Draw(r, "max"))
		refusals := rapid.Int64Range(1, 4).Draw(r, "refusals")
		n := tokenNumbers(r, 1, 3*sec, 2)
		n.Penalty = penalty(r, refusals, 7*sec, block, most)
		table := NewTable(n, 10, NewBudget(1<<20))
		limit, after := &tokenModel{permits: 1, per: 3 * sec, burst: 2}, &tokenModel{permits: refusals, per: 7 * sec, burst: refusals}
		var until, calm Instant
		level, now := 0, start
		for range rapid.IntRange(1, 80).Draw(r, "events") {
			now = now.Add(time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(sec)), rapid.SampledFrom([]int64{0, 0, int64(block), int64(most), int64(3 * sec)})).Draw(r, "pass")))
			ok, blocked, wait := false, now < until, until.Sub(now)
			if !blocked {
				if ok = limit.left(now).Cmp(rat(1)) >= 0; ok {
					limit.add(event{at: now, units: 1})
				} else {
					for ; level > 0 && now >= calm.Add(most); level-- {
						calm = calm.Add(most)
					}
					calm = now
					if after.left(now).Cmp(rat(1)) >= 0 {
						after.add(event{at: now, units: 1})
					} else {
						blocked, wait = true, min(block<<level, most)
						if wait < most {
							level++
						}
						until = now.Add(wait)
						calm = until
					}
				}
			}
			if blocked { // or until there is room, if that is later
				for limit.left(now.Add(wait)).Cmp(rat(1)) < 0 {
					missing := minus(rat(1), limit.left(now.Add(wait)))
					wait += time.Duration(-floorOf(new(big.Rat).Neg(missing.Mul(missing, rat(int64(3*sec))))))
				}
			}
			_, v, c := acquire(now, claim(table, key(1), 1))
			if v.OK != ok || c[0].Blocked != blocked || blocked && v.Wait != wait {
				r.Fatalf("at %v: %+v blocked %v, want %v, %v for %v", now.Sub(start), v, c[0].Blocked, ok, blocked, wait)
			}
			if rapid.IntRange(0, 3).Draw(r, "sweep") == 0 {
				table.Sweep(now)
			}
			audit(r, table)
		}
	})
}

func TestRefusingWithAPenaltyAllocatesNothing(t *testing.T) {
	table := NewTable(strict(t), 10, NewBudget(1<<20))
	claims, now := make([]Claim, 1), start
	var l Limiter
	for range 4 {
		take(table, now, key(1), 1)
	}
	if got := testing.AllocsPerRun(500, func() {
		now = now.Add(2 * sec)
		claims[0] = claim(table, key(1), 1)
		l.Acquire(context.Background(), now, claims)
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
