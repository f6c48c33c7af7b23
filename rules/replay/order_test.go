package replay

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gateway/limit"
)

// Records come out by instant, then by the order of decisions, then as they came,
// whatever order they came in.
func TestRecordsComeInTheOrderOfTheirInstants(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		o, n := newOrder(), r.IntN(3000)
		late := []int{1, 3, 100, 5000}[r.IntN(4)]
		var want []waiting
		for i := range n {
			w := waiting{at: limit.Instant(i/5 + r.IntN(late)), size: i, rec: &Record{}}
			if r.IntN(2) == 0 {
				w.seq = r.Uint64N(3)
			}
			o.add(w)
			want = append(want, w)
		}
		slices.SortStableFunc(want, func(a, b waiting) int {
			switch {
			case a.before(&b):
				return -1
			case b.before(&a):
				return 1
			}
			return 0
		})
		for i, w := range want {
			if got := o.take(); got != w {
				t.Fatalf("of %d, late by up to %d: number %d is %+v, want %+v", n, late, i, got, w)
			}
		}
		if o.take().rec != nil || o.len() != 0 || o.bytes != 0 {
			t.Fatalf("%d left, of %d bytes", o.len(), o.bytes)
		}
	}
}
