package limit

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Requests at one instant from many threads: each place is given once, with a turn of
// its own, in some order; and of their refusals just as many go unpunished as may.
func TestTurnsAndPenaltiesAreExactFromManyThreads(t *testing.T) {
	const threads, each, places, unpunished = 8, 50, 100, 30
	for range 20 {
		n := leakyNumbers(t, 1000, sec, places*ms)
		n.Penalty = penalty(t, unpunished, time.Hour, time.Hour, time.Hour)
		table := NewTable(n, 1000, NewBudget(1<<24))
		var mu sync.Mutex
		var turns []time.Duration
		refused, blocked := 0, 0
		together(threads, func(int) {
			for range each {
				_, v, c := acquire(start, claim(table, key(1), 1))
				mu.Lock()
				switch {
				case v.OK:
					turns = append(turns, v.Wait)
				case c[0].Blocked:
					blocked++
				default:
					refused++
				}
				mu.Unlock()
			}
		})
		slices.Sort(turns)
		for i, turn := range turns {
			if turn != time.Duration(i)*ms {
				t.Fatalf("turn %d is in %v", i, turn)
			}
		}
		if len(turns) != 1+places || refused != unpunished || blocked != threads*each-1-places-unpunished {
			t.Errorf("%d have turns, %d are refused, %d blocked", len(turns), refused, blocked)
		}
		audit(t, table)
	}
}
