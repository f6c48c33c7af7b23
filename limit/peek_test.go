package limit

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A Peek says what an Acquire at the same instant says, and leaves no trace: two
// limiters live through the same history, and one of them is peeked all the time.
func TestAPeekSaysWhatAnAcquireWouldAndTakesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		make2 := func() []*Table {
			b := NewBudget(1 << 30)
			slots, err := NewConcurrency(2)
			if err != nil {
				t.Fatal(err)
			}
			log, err := NewSlidingLog(3, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return []*Table{
				NewTable(tokenNumbers(t, 3, time.Minute, 3), 1000, b), NewTable(windowNumbers(t, 4, time.Minute), 1000, b),
				NewTable(Numbers{Bucket: slots, Slots: true}, 1000, b), NewTable(Numbers{Bucket: log}, 1000, b),
			}
		}
		plain, peeked := make2(), make2()
		now := start
		var l Limiter
		var grants [][2]Grant
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			seed := rapid.Uint64().Draw(t, "claims")
			claims := func(tables []*Table) []Claim {
				r := rand.New(rand.NewPCG(seed, 1))
				var list []Claim
				for _, i := range r.Perm(len(tables))[:1+r.IntN(len(tables))] {
					c := claim(tables[i], key(r.IntN(3)), 1)
					if r.IntN(4) == 0 {
						c.Mode = DryRun
					}
					list = append(list, c)
				}
				return list
			}
			first := claims(peeked)
			unnumbered := func(v Verdict) Verdict { v.Seq = 0; return v }
			said := unnumbered(l.Peek(now, first))
			if again := unnumbered(l.Peek(now, claims(peeked))); again != said {
				t.Fatalf("peeked twice: %+v, then %+v", said, again)
			}
			one, two := claims(plain), claims(peeked)
			g1, v1 := l.Acquire(context.Background(), now, one)
			g2, v2 := l.Acquire(context.Background(), now, two)
			if v1, v2 := unnumbered(v1), unnumbered(v2); v1 != v2 || said != v2 {
				t.Fatalf("a peek said %+v, Acquire %+v, and %+v where nobody peeked", said, v2, v1)
			}
			for i := range one {
				if one[i].Result != two[i].Result || first[i].Result != two[i].Result {
					t.Fatalf("claim %d: a peek said %+v, Acquire %+v, and %+v where nobody peeked", i, first[i].Result, two[i].Result, one[i].Result)
				}
			}
			if v1.OK {
				grants = append(grants, [2]Grant{g1, g2})
			}
			if n := len(grants); n > 0 && rapid.Bool().Draw(t, "done") {
				g := grants[n-1]
				grants = grants[:n-1]
				g[0].Done(now, giveBack(1))
				g[1].Done(now, giveBack(1))
			}
		}
		for i := range plain {
			if a, b := plain[i].Stats(), peeked[i].Stats(); a != b {
				t.Fatalf("table %d: %+v where nobody peeked, %+v", i, a, b)
			}
		}
	})
}

func TestAPeekOfAClientNeverSeenRemembersNothing(t *testing.T) {
	tables := rules(t, 2)
	var l Limiter
	claims := []Claim{claim(tables[0], key(1), 1), claim(tables[1], key(1), 1)}
	for range 5 {
		if v := l.Peek(start, claims); !v.OK {
			t.Fatalf("verdict %+v", v)
		}
	}
	if slices.ContainsFunc(tables, func(table *Table) bool { return holds(table, key(1)) || table.Stats().Keys != 0 }) {
		t.Error("a peek is remembered")
	}
	if n := testing.AllocsPerRun(100, func() { l.Peek(start, claims) }); n != 0 {
		t.Errorf("a peek allocates %v times", n)
	}
}
