package limit

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// rules returns n Tables of one Budget: rule i is i+1 per hour.
func rules(tb testing.TB, n int) []*Table {
	tb.Helper()
	b := NewBudget(1 << 30)
	tables := make([]*Table, n)
	for i := range tables {
		tables[i] = NewTable(tokenNumbers(tb, int64(i)+1, time.Hour, int64(i)+1), 1000, b)
	}
	return tables
}

// Whichever rule refuses, and in whatever order they are named, nothing is taken.
func TestAllOrNothingInEveryOrder(t *testing.T) {
	for refuses := range 4 {
		for seed := range uint64(24) {
			tables := rules(t, 5)
			drain(tables[refuses], start, key(1)) // of the others nothing is used
			var claims []Claim
			for _, table := range tables {
				claims = append(claims, claim(table, key(1), 1))
			}
			r := rand.New(rand.NewPCG(seed, 0))
			r.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
			_, v, claims := acquire(start, claims...)
			if v.OK || v.Full || v.Wait != ceilDiv(int64(time.Hour), int64(refuses)+1) {
				t.Fatalf("rule %d has no room: verdict %+v", refuses, v)
			}
			for _, c := range claims {
				i := slices.Index(tables, c.Table)
				if want := i != refuses; c.Result.OK != want {
					t.Errorf("rule %d says %v, want %v", i, c.Result.OK, want)
				}
				if want := int64(i + 1); i != refuses && (c.Result.Remaining != want || left(c.Table, start, key(1)) != want) {
					t.Errorf("rule %d says %d left, want %d as before", i, c.Result.Remaining, want)
				}
				if i != refuses && holds(c.Table, key(1)) {
					t.Errorf("rule %d remembers a client that took nothing", i)
				}
			}
		}
	}
}

// The refusal names the longest wait, and Never is the longest of all.
func TestVerdictHasTheStrictestWait(t *testing.T) {
	tables := rules(t, 3)
	drain(tables[0], start, key(1)) // one per hour
	drain(tables[2], start, key(1)) // three per hour
	_, v, _ := acquire(start, claim(tables[2], key(1), 1), claim(tables[1], key(1), 1), claim(tables[0], key(1), 1))
	if v.OK || v.Wait != time.Hour {
		t.Errorf("verdict %+v, want a wait of 1h", v)
	}
	if _, v, _ = acquire(start.Add(v.Wait-1), claim(tables[2], key(1), 1), claim(tables[0], key(1), 1)); v.OK || v.Wait != 1 {
		t.Errorf("1 ns before the wait is over: verdict %+v", v)
	}
	if _, v, _ = acquire(start.Add(time.Hour), claim(tables[2], key(1), 1), claim(tables[0], key(1), 1)); !v.OK {
		t.Errorf("after the wait: verdict %+v", v)
	}
	_, v, _ = acquire(start.Add(time.Hour), claim(tables[0], key(1), 1), claim(tables[1], key(1), 3))
	if v.OK || v.Wait != Never {
		t.Errorf("3 units of a limit of 2: verdict %+v, want Never", v)
	}
}

// A claim of 0 units passes whatever was used, takes and remembers nothing.
func TestNothingWantedAlwaysPasses(t *testing.T) {
	tables := rules(t, 2)
	drain(tables[0], start, key(1))
	_, v, c := acquire(start, claim(tables[0], key(1), 0), claim(tables[1], key(1), 0))
	if !v.OK || c[0].Result.Remaining != 0 || c[1].Result.Remaining != 2 {
		t.Errorf("verdict %+v, %d and %d left; want to pass with 0 and 2", v, c[0].Result.Remaining, c[1].Result.Remaining)
	}
	if holds(tables[1], key(1)) {
		t.Error("a client that took nothing is remembered")
	}
	if _, v, _ := acquire(start, []Claim{}...); !v.OK {
		t.Error("a request without rules was refused")
	}
}

func TestDryRunNeverChangesTheOutcome(t *testing.T) {
	tables := rules(t, 2)
	shadow := func(n int64) Claim {
		c := claim(tables[0], key(1), n)
		c.Mode = DryRun
		return c
	}
	// It counts what the enforced rule admits.
	_, v, c := acquire(start, shadow(1), claim(tables[1], key(1), 1))
	if !v.OK || !c[0].Result.OK || left(tables[0], start, key(1)) != 0 {
		t.Fatalf("first: verdict %+v, dry run %+v", v, c[0].Result)
	}
	// Without room it says so and the request passes; so with what can never pass.
	for _, n := range []int64{1, 5} {
		_, v, c = acquire(start, shadow(n), claim(tables[1], key(1), 0))
		if !v.OK || v.Wait != 0 || c[0].Result.OK || c[0].Result.Wait == 0 {
			t.Errorf("dry run of %d without room: verdict %+v, result %+v", n, v, c[0].Result)
		}
	}
	if _, v, c = acquire(start, claim(tables[1], key(1), 1), shadow(1)); !v.OK || c[1].Result.Remaining != 0 {
		t.Errorf("the enforced rule beside a dry run without room: %+v, %+v", v, c[1].Result)
	}
	// It is not charged when an enforced rule refuses.
	if _, v, c = acquire(start.Add(time.Hour), shadow(0)); c[0].Result.Remaining != 1 {
		t.Fatal("the dry run did not refill")
	}
	drain(tables[1], start.Add(time.Hour), key(1))
	if _, v, c = acquire(start.Add(time.Hour), shadow(1), claim(tables[1], key(1), 1)); v.OK || c[0].Result.Remaining != 1 {
		t.Errorf("enforced rule without room: verdict %+v, dry run %+v, want 1 left", v, c[0].Result)
	}
	if got := left(tables[0], start.Add(time.Hour), key(1)); got != 1 {
		t.Errorf("the dry run was charged for a refused request: %d left, want 1", got)
	}
}

// A dry run whose memory is full neither refuses nor hinders the enforced rule.
func TestDryRunWithoutMemoryIsNoRefusal(t *testing.T) {
	b := NewBudget(1 << 20)
	shadow := NewTable(tokenNumbers(t, 1, time.Hour, 1), 1, b)
	live := NewTable(tokenNumbers(t, 1, time.Hour, 1), 100, b)
	take(shadow, start, key(0), 1) // the only place, by a client at its limit
	for i := 1; i <= 3; i++ {
		c := claim(shadow, key(i), 1)
		c.Mode = DryRun
		if _, v, _ := acquire(start, c, claim(live, key(i), 1)); !v.OK || v.Full {
			t.Errorf("client %d: verdict %+v, want to pass", i, v)
		}
		if left(live, start, key(i)) != 0 {
			t.Errorf("client %d was not counted by the live rule", i)
		}
	}
	audit(t, shadow)
}

func TestThousandRulesInOneRequest(t *testing.T) {
	alone(t)
	tables := rules(t, 1000)
	var claims []Claim
	for i := range tables {
		claims = append(claims, claim(tables[(i*7+3)%1000], key(i), 1))
	}
	if _, v, _ := acquire(start, claims...); !v.OK {
		t.Fatalf("first request: %+v", v)
	}
	_, v, _ := acquire(start, claims...) // rule 0 is one per hour
	if v.OK || v.Wait != time.Hour {
		t.Errorf("second request: %+v, want a wait of 1h", v)
	}
	for i := range claims {
		if want, got := tables[0] != claims[i].Table, claims[i].Result.OK; got != want {
			t.Fatalf("rule %d: room %v, want %v", i, got, want)
		}
	}
}

func TestMisuseOfAcquirePanicsBeforeAnyLock(t *testing.T) {
	tables := rules(t, 2)
	other := tokenTable(t, 1, time.Hour, 1)
	for name, claims := range map[string][]Claim{
		"one table twice":        {claim(tables[0], key(1), 1), claim(tables[1], key(1), 1), claim(tables[0], key(2), 1)},
		"a negative number":      {claim(tables[0], key(1), 1), claim(tables[1], key(1), -1)},
		"tables of two budgets":  {claim(tables[1], key(1), 1), claim(other, key(1), 1)},
		"a negative number only": {claim(tables[0], key(1), -1)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			new(Limiter).Acquire(context.Background(), start, claims)
		}()
	}
	if _, v, _ := acquire(start, claim(tables[0], key(1), 1), claim(tables[1], key(1), 1)); !v.OK {
		t.Errorf("after the panics: %+v", v)
	}
}
