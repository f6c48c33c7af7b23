package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The targets of this package run their seeds with every `go test`. To look for
// more, one at a time:
//
//	go test -run '^$' -fuzz '^FuzzBucketHistories$' -fuzztime 10m ./limit
//
// FuzzBucketDecidesLikeTheModel, FuzzNoHistoryLetsMoreThroughThanTheLimit and
// FuzzRequests draw from rapid's bit stream; FuzzBucketHistories reads its input
// as it is written below, so that an input can be read and written by hand. What
// it finds stands in testdata/fuzz and is run from then on.

func FuzzRequests(f *testing.F) { f.Fuzz(rapid.MakeFuzz(officeHistory)) }

// FuzzBucketHistories holds every algorithm to its model along a history of
// three bytes a step: what to do and how much time goes by, which take it is
// about, how many units.
func FuzzBucketHistories(f *testing.F) {
	scripts := [][]byte{
		{0x00, 0, 255, 0x00, 0, 1, 0x10, 0, 1, 0x20, 0, 1, 0x30, 0, 1, 0x40, 0, 255},          // all, one more, and as told
		{0x00, 0, 10, 0x31, 0, 5, 0x32, 0, 0, 0x02, 1, 3, 0x00, 0, 255, 0x50, 0, 1},           // give back late and at once
		{0x00, 0, 255, 0x03, 0, 255, 0x00, 0, 1, 0x10, 0, 1, 0x23, 0, 200, 0x60, 0, 255},      // debt
		{0x50, 0, 255, 0x10, 0, 255, 0x41, 0, 9, 0x11, 0, 9, 0x40, 0, 255, 0x10, 0, 255},      // across edges
		{0x00, 0, 0, 0x04, 0, 9, 0x54, 0, 9, 0x00, 0, 9, 0x04, 7, 9, 0x62, 0, 9, 0x30, 0, 99}, // late clocks
	}
	for a := range algorithms {
		for _, script := range scripts {
			f.Add(byte(a), int64(7), int64(time.Minute), int64(7), script)
			f.Add(byte(a), int64(293), int64(8760*time.Hour), int64(65_535), script)
			f.Add(byte(a), int64(1e9+1), int64(time.Second), int64(1), script)
			f.Add(byte(a), int64(3), int64(1), int64(2), script)
		}
	}
	f.Fuzz(func(t *testing.T, a byte, permits, per, burst int64, script []byte) {
		p := &trial{algorithm: algorithms[int(a)%len(algorithms)], permits: permits, per: time.Duration(per), full: permits, now: start, last: -1 << 62}
		if p.bursts {
			p.full = burst
		}
		var err error
		if p.b, err = p.make(p.permits, p.per, p.full); err != nil {
			return
		}
		p.m = p.model(p.permits, p.per, p.full)
		p.level()
		if len(script) > 90 {
			script = script[:90]
		}
		for ; len(script) >= 3; script = script[3:] {
			unit := time.Duration(max(1, int64(p.per)/p.permits))
			passes := []time.Duration{0, 1, max(0, p.wait-1), p.wait, p.per - 1, p.per, unit, 2*p.per + unit}[script[0]>>4&7]
			if end := p.now.Add(passes); end < start+Instant(35*maxPeriod) && end >= p.now {
				p.now = end
			}
			// 255 is all there ever is, 254 half of it.
			n := int64(script[2])
			if n >= 254 {
				n = p.full / (256 - n)
			}
			switch script[0] & 7 {
			case 0, 5, 6, 7:
				p.take(t, p.now, n)
			case 1, 2:
				var owed []*taken
				for _, tk := range p.takes {
					if !tk.settled && tk.n > 0 {
						owed = append(owed, tk)
					}
				}
				if len(owed) > 0 {
					tk := owed[int(script[1])%len(owed)]
					p.adjust(t, tk, 1+n%tk.n)
				}
			case 3:
				p.adjust(t, nil, -max(1, n))
			case 4:
				p.take(t, p.now-Instant(p.per)-Instant(script[1]), n)
			}
		}
		p.checkSpans(t)
	})
}
