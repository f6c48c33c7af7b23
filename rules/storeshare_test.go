package rules

import (
	"testing"
	"time"

	"gateway/limit"
)

// While the store is away each gateway lets its share of a queue wait: of so many
// requests of one key that come at once, how many pass at once, how many wait, and for
// how long the last does.
func TestTheShareOfAQueue(t *testing.T) {
	for _, tt := range []struct {
		rule     string
		replicas string
		passes   int64 // at once
		waits    int64
		last     time.Duration
	}{
		{"limit: 10/s, algorithm: leaky_bucket, max_wait: 1s", "1", 1, 10, time.Second},
		{"limit: 10/s, algorithm: leaky_bucket, max_wait: 1s", "2", 1, 5, time.Second},
		{"limit: 10/s, algorithm: leaky_bucket, max_wait: 1s", "3", 1, 4, time.Second},                 // 4 a second
		{"limit: 10/s, algorithm: leaky_bucket, max_wait: 150ms", "4", 1, 0, 0},                        // 3 a second, which makes no place
		{"limit: 10/s, algorithm: leaky_bucket, max_wait: 300ms, cost: 4", "10", 1, 0, 0},              // a request of 4 passes all the same
		{"limit: 10/s, burst: 6, max_wait: 500ms", "2", 3, 2, 400 * time.Millisecond},                  // 5 a second, 3 at once
		{"limit: 10/s, burst: 6, algorithm: gcra, max_wait: 100ms", "2", 3, 0, 0},                      // no unit comes back so soon
		{"limit: 10/s, algorithm: leaky_bucket, max_wait: 1s, store: memory", "5", 1, 10, time.Second}, // shares nothing
	} {
		s := compile(t, "upstream: http://a\nstore: { redis: { url: \"redis://127.0.0.1:1\", replicas: "+tt.replicas+" } }\nrules:\n  - {name: a, "+tt.rule+"}\n", nil)
		r := s.Rules[0]
		b, st, now := r.Base.Numbers.Bucket, limit.State{}, limit.Instant(1e18)
		var passes, waits int64
		var last time.Duration
		for {
			next, res := b.Take(st, now, r.Cost)
			if !res.OK {
				break
			}
			if st = next; res.Wait > 0 {
				waits++
			} else {
				passes++
			}
			last = res.Wait
		}
		if passes != tt.passes || waits != tt.waits || last != tt.last {
			t.Errorf("%s, one of %s: %d pass, %d wait, the last for %v; want %d, %d, %v", tt.rule, tt.replicas, passes, waits, last, tt.passes, tt.waits, tt.last)
		}
		if tt.replicas != "1" && !r.InProcess {
			if terms := r.Base.Shared.Terms; terms.Whole == 0 || r.Base.Places == 0 {
				t.Errorf("%s: the store counts %+v", tt.rule, terms)
			}
		}
	}
}
