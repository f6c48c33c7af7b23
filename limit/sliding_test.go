package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// At saturation a sliding window gives N at first and N-1 in each window after
// that, wherever in its window it began; of N = 1 each second window gives none.
func TestSlidingWindowGivesOneLessAtSaturation(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 10, 100} {
		for _, begin := range []time.Duration{0, 1, 20 * sec, time.Minute - 1} {
			table := NewTable(Numbers{Bucket: slidingWindowOf(t, n, time.Minute)}, 10, NewBudget(1<<20))
			var windows [8]int64
			now := start.Add(begin)
			for {
				w := now.Sub(start) / time.Minute
				if w >= 8 {
					break
				}
				_, r := take(table, now, key(1), 1)
				if r.OK {
					windows[w]++
				} else {
					now = now.Add(r.Wait)
				}
			}
			for w, got := range windows {
				want := n - 1
				if w == 0 || n == 1 && w%2 == 0 {
					want = n
				}
				if got != want {
					t.Errorf("%d a minute from %v on: %d in window %d, want %d (%v)", n, begin, got, w, want, windows)
				}
			}
		}
	}
}

// The worst case of the sliding window: N in the last instant of one window, and
// then all that is given: less than 2N in any time of W, and as close to it as
// 2N-1 for a demand that knows how; of the log never more than N.
func TestMostThatPassesInAnySpan(t *testing.T) {
	const n = 10
	w := time.Minute
	for name, c := range map[string]struct {
		b    Bucket
		most int
	}{
		"sliding_window":     {slidingWindowOf(t, n, w), 2*n - 1},
		"sliding_window_log": {slidingLogOf(t, n, w), n},
	} {
		worst := 0
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, 0))
			table := NewTable(Numbers{Bucket: c.b}, 10, NewBudget(1<<20))
			var passed []Instant
			now := start
			if seed == 0 { // N at the end of a window, then each as soon as it may
				now = start.Add(w - 1)
				for i := 0; i < 4*n; i++ {
					_, res := take(table, now, key(1), 1)
					if !res.OK {
						now = now.Add(res.Wait)
						continue
					}
					passed = append(passed, now)
				}
			}
			for i := 0; i < 1000 && seed > 0; i++ {
				switch r.IntN(4) {
				case 0:
					now = now.Add(time.Duration(r.Int64N(int64(w))))
				case 1:
					now = now.Add(w - now.Sub(start)%w - 1) // the end of a window
				default:
					now = now.Add(time.Duration(r.Int64N(int64(w / 5))))
				}
				for range r.IntN(2 * n) {
					if _, res := take(table, now, key(1), 1); res.OK {
						passed = append(passed, now)
					}
				}
			}
			for i, from := range passed {
				in := 0
				for _, at := range passed[i:] {
					if at < from.Add(w) {
						in++
					}
				}
				worst = max(worst, in)
			}
		}
		if worst != c.most {
			t.Errorf("%s: at worst %d pass in a time of %v, want %d", name, worst, w, c.most)
		}
	}
}
