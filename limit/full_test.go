package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// crowd fills t: clients 0 to n-1 use all they have.
func crowd(tb failer, t *Table, now Instant, n int) {
	tb.Helper()
	for i := range n {
		if drain(t, now, key(i)) == 0 {
			tb.Fatalf("client %d found no place", i)
		}
	}
}

// G01, third part, in every algorithm: under a flood of new clients one at its
// limit stays there, the number of keys holds, and what is thrown out is counted.
func TestFloodInEveryAlgorithm(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		table := a.table(t, 5, 20)
		drain(table, start, key(0))
		passed := int64(0)
		for i := 1; i <= 1000; i++ {
			if _, r := take(table, start, key(i), 1); r.OK {
				passed++
			}
			if table.Stats().Keys > 20 {
				t.Fatalf("%d keys of 20", table.Stats().Keys)
			}
			if _, r := take(table, start, key(0), 1); r.OK {
				t.Fatalf("the client at its limit passed after %d newcomers", i)
			}
		}
		st := table.Stats()
		want := int64(1000) // everybody finds the place of one that has used less
		if a.name == "concurrency" {
			want = 19 + 8*5 // who has a request in progress stays; the rest share eight counters
		}
		if passed != want {
			t.Errorf("%d newcomers passed, want %d", passed, want)
		}
		if inUse := st.EvictedUnits + spilledUnits(table) + 19; passed != inUse || st.Evictions != st.EvictedUnits {
			t.Errorf("%d passed; %d are in use or given away; %+v", passed, inUse, st)
		}
		audit(t, table)
	})
}

// Closed: a newcomer is refused as full, without a wait, and replaces only who is idle.
func TestClosedReplacesOnlyIdleKeysInEveryAlgorithm(t *testing.T) {
	eachSort(t, func(t *testing.T, a sort) {
		table := a.table(t, 5, 10)
		var grants []Grant
		for i := range 10 {
			g, _ := take(table, start, key(i), 1) // four of five are left
			grants = append(grants, g)
		}
		for i := range 30 {
			_, v, c := acquire(start, closed(claim(table, key(100+i), 1)))
			if v.OK || !v.Full || v.Wait != 0 || c[0].Result != (Result{}) {
				t.Fatalf("newcomer: %+v, %+v, want Full", v, c[0].Result)
			}
		}
		if _, v, _ := acquire(start, closed(claim(table, key(3), 1))); !v.OK {
			t.Errorf("a known client: %+v", v)
		}
		if st := table.Stats(); st.Evictions != 0 || st.Spilled != 0 || st.Keys != 10 {
			t.Errorf("%+v, want nobody thrown out and nothing shared", st)
		}
		at := start.Add(3 * time.Minute) // all are idle but who is in progress
		if a.name == "concurrency" {
			if _, v, _ := acquire(at, closed(claim(table, key(200), 1))); !v.Full {
				t.Errorf("with all in progress: %+v, want Full", v)
			}
			grants[7].Done(at, nil)
		}
		if _, v, _ := acquire(at, closed(claim(table, key(200), 1))); !v.OK || table.Stats().Evictions != 0 || table.Stats().Keys != 10 {
			t.Errorf("a newcomer when one is idle: %+v, %+v", v, table.Stats())
		}
		audit(t, table)
	})
}

// Section 5: newcomers without a place share eight counters of the rule's own
// numbers. Each decides like the model of one client, so all of them together
// never pass more than eight times the bound, whoever they are.
func TestUnrememberedClientsTogetherStayBounded(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				const permits, per = 6, time.Minute
				b, err := a.make(permits, per, permits)
				if err != nil {
					t.Fatal(err)
				}
				// No memory at all: nobody is ever remembered.
				table := NewTable(Numbers{Bucket: inTable(b), Slots: a.slots}, 1000, NewBudget(0))
				var models [overflows]model
				var latest [overflows]Instant
				for i := range models {
					models[i], latest[i] = a.model(permits, per, permits), -1<<62
				}
				type open struct {
					Grant
					at   Instant
					n, i int64
				}
				var grants []open
				now := start
				for range rapid.IntRange(1, 40).Draw(r, "events") {
					now += Instant(rapid.OneOf(rapid.Int64Range(0, int64(per)), rapid.SampledFrom([]int64{0, 0, 1})).Draw(r, "pass"))
					if len(grants) > 0 && rapid.IntRange(0, 3).Draw(r, "op") == 0 {
						i := rapid.IntRange(0, len(grants)-1).Draw(r, "of")
						o := grants[i]
						grants = append(grants[:i], grants[i+1:]...)
						at := max(now, latest[o.i])
						latest[o.i] = at
						for range 2 {
							o.Done(now, giveBack(o.n))
						}
						models[o.i].add(event{at: at, back: o.n, taken: o.at})
						continue
					}
					k := key(rapid.IntRange(0, 1_000_000).Draw(r, "client"))
					i := k.Lo % overflows
					n := rapid.Int64Range(1, permits+1).Draw(r, "n")
					late := now - Instant(rapid.SampledFrom([]int64{0, 0, 0, 1, int64(per)}).Draw(r, "late"))
					if n <= permits { // else it can never pass, and no counter is asked
						latest[i] = max(latest[i], late)
					}
					there := floorOf(models[i].left(latest[i]))
					g, res := take(table, late, k, n)
					if res.OK != (n <= there) {
						r.Fatalf("take %d of counter %d: %+v with %d there", n, i, res, there)
					}
					if res.OK {
						models[i].add(event{at: latest[i], units: n})
						grants = append(grants, open{g, latest[i], n, int64(i)})
						there -= n
					}
					if n <= permits && res.Remaining != max(0, there) {
						r.Fatalf("take %d of counter %d: %+v, want %d left", n, i, res, there)
					}
				}
				if table.Stats().Keys != 0 {
					r.Fatalf("%+v without memory", table.Stats())
				}
			})
			// A million clients at one instant: exactly eight times the limit.
			b, _ := a.make(7, time.Minute, 7)
			table := NewTable(Numbers{Bucket: inTable(b), Slots: a.slots}, 1000, NewBudget(0))
			passed := 0
			for i := range 2000 {
				if _, r := take(table, start, key(i), 1); r.OK {
					passed++
				}
			}
			if passed != 8*7 {
				t.Errorf("%d of 2,000 clients without memory passed, want 8 counters of 7", passed)
			}
		})
	}
}

// What an eviction gives away is what the State weighs: in a sliding window also
// what was used in the window before.
func TestEvictionWeighsTheWindowBefore(t *testing.T) {
	table := NewTable(Numbers{Bucket: slidingWindowOf(t, 10, time.Minute)}, 3, NewBudget(1<<20))
	take(table, start, key(1), 9)
	take(table, start, key(2), 4)
	at := start.Add(75 * sec) // three quarters: 6.75 and 3
	take(table, at, key(3), 5)
	take(table, at, key(4), 1)
	if holds(table, key(2)) || !holds(table, key(1)) || !holds(table, key(3)) {
		t.Errorf("of 6.75, 3 and 5 units not the 3 were given away")
	}
	if st := table.Stats(); st.Evictions != 1 || st.EvictedUnits != 3 {
		t.Errorf("%+v, want one eviction of 3 units", st)
	}
	take(table, at, key(5), 9) // the 1 of client 4
	take(table, at, key(6), 9) // the 5 of client 3
	take(table, at, key(7), 9) // the 6.75 of client 1, rounded up
	if st := table.Stats(); st.Evictions != 4 || st.EvictedUnits != 3+1+5+7 {
		t.Errorf("%+v, want four evictions of 16 units", st)
	}
}

// A charge to a client that was thrown out and finds no place again is not lost:
// it is one of those who are not remembered.
func TestChargeToAClientWithoutAPlaceCounts(t *testing.T) {
	table := NewTable(tokenNumbers(t, 5, time.Hour, 5), 1, NewBudget(1<<20))
	g, _ := take(table, start, key(1), 1)
	drain(table, start, key(2)) // throws it out and is at its limit
	if holds(table, key(1)) {
		t.Fatal("not thrown out")
	}
	g.Done(start, giveBack(-5))
	if _, r := take(table, start, key(1), 1); r.OK {
		t.Error("a client passed that was charged all it has")
	}
	audit(t, table)
}
