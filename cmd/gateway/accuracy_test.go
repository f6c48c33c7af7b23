package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Row S23: two seconds at four times the rate. What is judged is each decision, at
// the instant that the access log says, so that it does not matter how busy the
// machine is: nothing passes before it may, and nothing is refused that was sent
// when it might have passed.
func TestLiveDecisionsAreThoseOfTheRate(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	rates := []int{5, 20, 50, 100} // a second
	var rules strings.Builder
	for _, r := range rates {
		fmt.Fprintf(&rules, "  - { name: r%d, match: /r%d, key: global, limit: %d/s, burst: 1 }\n", r, r, r)
	}
	g := serve(t, ports+"log: { access: json }\nupstream: "+up.URL+"\nrules:\n"+rules.String())

	var wg sync.WaitGroup
	sent := make([][]time.Time, len(rates)) // when the requests that were refused were sent
	for i, rate := range rates {
		wg.Go(func() {
			pause := time.Second / time.Duration(4*rate)
			ok := 0
			for began := time.Now(); time.Since(began) < 2*time.Second || ok < 2; time.Sleep(pause) { // the pace
				at := time.Now()
				a, err := g.try("GET", fmt.Sprintf("/r%d", rate))
				switch {
				case err != nil:
					t.Error(err)
					return
				case a.status == 200:
					ok++
				case a.status == 429:
					sent[i] = append(sent[i], at)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "the access log has all that passed", func() bool { return strings.Count(g.out.String(), `"status":200`) == up.total() })

	passed := map[string][]int64{}
	for line := range strings.SplitSeq(strings.TrimSpace(g.out.String()), "\n") {
		var e struct {
			At     int64
			Path   string
			Result string
		}
		do(t, json.Unmarshal([]byte(line), &e))
		if e.Result == "allowed" {
			passed[e.Path] = append(passed[e.Path], e.At)
		}
	}
	var said []string
	for i, rate := range rates {
		at := passed[fmt.Sprintf("/r%d", rate)]
		slices.Sort(at)
		period := int64(time.Second) / int64(rate)
		// With one place in the bucket there is room again a period after one has passed.
		early, late := 0, 0
		for n := 1; n < len(at); n++ {
			if at[n] < at[n-1]+period {
				early++
			}
		}
		for _, s := range sent[i] {
			const clocks = int64(5 * time.Millisecond) // between the gateway's and the test's, at most
			n, _ := slices.BinarySearch(at, s.UnixNano())
			if n == 0 || s.UnixNano() > at[n-1]+period+clocks {
				late++
			}
		}
		if early > 0 || late > 0 || len(at) < 2 {
			t.Errorf("%d a second: of %d that passed %d came too early, and %d of %d were refused when there was room", rate, len(at), early, late, len(sent[i]))
		}
		said = append(said, fmt.Sprintf("%d of %d at %d/s", len(at), len(at)+len(sent[i]), rate))
	}
	score(t, "S23", "0 decisions wrong: %s passed", strings.Join(said, ", "))
}
