package peers

import (
	"math"
	"testing"
	"time"
)

// As many wait as nginx lets wait: the time is never a place too short.
func TestAQueueTakesAsManyAsNginxs(t *testing.T) {
	for _, c := range []struct {
		n, count int64
		period   time.Duration
		want     time.Duration
	}{
		{2, 1, time.Second, 2 * time.Second},
		{10, 3, time.Second, 3333334 * time.Microsecond}, // 3.333333 s holds nine only
		{0, 5, time.Second, 0},
		{1, 1e9, time.Second, time.Microsecond},
		{1e9, 1, 366 * 24 * time.Hour, math.MaxInt64},
		{60, 1, time.Minute, time.Hour},
		{61, 1, time.Minute, math.MaxInt64},
	} {
		if got := waitFor(c.n, c.count, c.period); got != c.want {
			t.Errorf("%d at %d in %v: %v, want %v", c.n, c.count, c.period, got, c.want)
		}
	}
}
