package limit

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"
)

var (
	someLimits  = []int64{1, 3, 7, 293, 106_752, 1e9, 1e9 + 1}
	somePeriods = []time.Duration{time.Second, time.Minute, day, 8760 * time.Hour}
)

// F23, L8, S22: no product overflows and no permit is lost or won, for all the
// limits and periods at which arithmetic in int64 nanoseconds breaks. What is
// there after a time T is compared with integers of any size.
func TestManyNumbersAreExact(t *testing.T) {
	exact, refused, instants := 0, 0, 0
	for _, permits := range someLimits {
		for _, per := range somePeriods {
			for _, burst := range []int64{permits, 1, 65_535} {
				t.Run(fmt.Sprintf("%d per %v burst %d", permits, per, burst), func(t *testing.T) {
					// Filling: burst*per/permits, rounded up, is refused over 100 years.
					fill := new(big.Int).Mul(big.NewInt(burst), big.NewInt(int64(per)))
					fill.Add(fill, big.NewInt(permits-1)).Div(fill, big.NewInt(permits))
					b, err := NewTokenBucket(permits, per, burst)
					if fill.Cmp(big.NewInt(int64(100*366*day))) > 0 {
						if !errors.Is(err, ErrNumbers) {
							t.Fatalf("error %v for a bucket that takes %v ns to fill", err, fill)
						}
						refused++
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					full := time.Duration(fill.Int64())
					empty, r := b.Take(State{}, start, burst)
					if want := (Result{OK: true, Reset: ceilDiv(int64(per), permits)}); r != want {
						t.Fatalf("after taking all: %+v, want %+v", r, want)
					}
					if _, r = b.Take(empty, start, burst); r.Wait != full {
						t.Errorf("wait for all: %v, want %v", r.Wait, full)
					}
					for _, d := range []time.Duration{0, 1, full / 3, full / 2, full - 1, full, full + 1, 2 * full, maxFill} {
						want := new(big.Int).Mul(big.NewInt(int64(d)), big.NewInt(permits))
						want.Div(want, big.NewInt(int64(per)))
						if want.Cmp(big.NewInt(burst)) > 0 {
							want.SetInt64(burst)
						}
						if _, r := b.Take(empty, start.Add(d), 0); r.Remaining != want.Int64() {
							t.Errorf("%v after: %d left, want %v", d, r.Remaining, want)
						}
						instants++
					}
					if b.Idle(empty, start.Add(full-1)) || !b.Idle(empty, start.Add(full)) {
						t.Errorf("not idle from %v on exactly", full)
					}
					exact++
				})
			}
		}
	}
	t.Attr("S22", fmt.Sprintf("%d sets of numbers exact at %d instants, %d refused", exact, instants, refused))
}

func ceilDiv(a, b int64) time.Duration { return time.Duration((a + b - 1) / b) }

// The count of a whole day under full demand, in steps that fall badly against
// the rate: B at once and then exactly the rate.
func TestADayAtFullDemandIsExact(t *testing.T) {
	alone(t)
	days, units := 0, int64(0)
	for _, c := range []struct {
		permits int64
		per     time.Duration
		burst   int64
		step    time.Duration
		want    int64
	}{
		{7, time.Minute, 7, 77 * ms, 7 + 10_080},                 // 7*60*24
		{7, time.Minute, 1, time.Second, 1 + 9_600},              // one place: a unit each 8.6 s, asked for each 9 s
		{3, time.Second, 3, 50*ms + 7, 3 + 259_200},              // 3*86,400
		{3, time.Second, 100, 100 * ms, 100 + 259_200},           // the burst changes nothing else
		{1_000_003, 24 * time.Hour, 50, 86 * ms, 50 + 1_000_003}, // a truncated interval would be off by 0.0998 %
	} {
		t.Run(fmt.Sprintf("%d per %v burst %d", c.permits, c.per, c.burst), func(t *testing.T) {
			b := tokens(t, c.permits, c.per, c.burst)
			var s State
			passed := int64(0)
			for at := time.Duration(0); ; at = min(at+c.step, day) {
				for {
					next, r := b.Take(s, start.Add(at), 1)
					if s = next; !r.OK {
						break
					}
					passed++
				}
				if at == day {
					break
				}
			}
			if passed != c.want {
				t.Errorf("%d passed in a day, want %d", passed, c.want)
			}
			days, units = days+1, units+passed
		})
	}
	t.Attr("S22", fmt.Sprintf("%d days at full demand, %d units, none too many or too few", days, units))
}

// L9: 1 per second polled each ms and each µs for 10 s gives 1 + 10, not 1:
// asking often does not round the refill away.
func TestPollingDoesNotEatTheRefill(t *testing.T) {
	alone(t)
	for _, poll := range []time.Duration{10 * ms, ms, time.Microsecond} {
		for _, burst := range []int64{1, 10} {
			if burst > 1 && poll < ms {
				continue // ten million steps are enough once
			}
			b := tokens(t, 1, time.Second, burst)
			var s State
			s, _ = b.Take(s, start, burst-1)
			passed := 0
			for at := time.Duration(0); at <= 10*time.Second; at += poll {
				next, r := b.Take(s, start.Add(at), 1)
				if r.OK {
					passed++
				} else {
					// The same through takes of nothing, which bring a State up to now.
					next, _ = b.Take(next, start.Add(at), 0)
				}
				s = next
			}
			if passed != 11 {
				t.Errorf("polled each %v with burst %d: %d passed, want 11", poll, burst, passed)
			}
		}
	}
}

// C07: a limit that lets nothing or everything through is refused when it is made.
func TestConstructorsRefuseNumbersNoLimitCanHave(t *testing.T) {
	for _, c := range []struct {
		permits int64
		per     time.Duration
		burst   int64
		ok      bool
	}{
		{0, time.Minute, 1, false},
		{-1, time.Minute, 1, false},
		{math.MinInt64, time.Minute, 1, false},
		{math.MaxInt64, time.Nanosecond, 1, false},
		{math.MaxInt64, day, math.MaxInt64, false},
		{1, 0, 1, false},
		{1, -time.Second, 1, false},
		{1, math.MinInt64, 1, false},
		{1, 366*day + 1, 1, false},
		{1, math.MaxInt64, 1, false},
		{1, time.Second, 0, false},
		{1, time.Second, -5, false},
		{1, time.Second, math.MaxInt64, false},
		{1, 366 * day, 100, true},  // 100 years to fill, and not more:
		{1, 366 * day, 101, false}, // 101 years
		{3, 366 * day, 300, true},
		{3, 366 * day, 301, false},
		{1, time.Nanosecond, 1, true},
		{1, 366 * day, 1, true},
		{10_000_000, time.Second, 65_535, true},
		{1_000_000_000_000_000, 366 * day, 1_000_000_000_000_000, true},
	} {
		if _, err := NewTokenBucket(c.permits, c.per, c.burst); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrNumbers) {
			t.Errorf("NewTokenBucket(%d, %v, %d): error %v, want ok %v", c.permits, c.per, c.burst, err, c.ok)
		}
		if c.burst != 1 || c.per == time.Nanosecond {
			continue
		}
		if _, err := NewFixedWindow(c.permits, c.per); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrNumbers) {
			t.Errorf("NewFixedWindow(%d, %v): error %v, want ok %v", c.permits, c.per, err, c.ok)
		}
	}
}

// A request for more than can ever be there is told so, up to the largest integer.
func TestMoreThanTheLimitCanNeverPass(t *testing.T) {
	for _, b := range []Bucket{tokens(t, 10, time.Second, 10), window(t, 10, time.Second)} {
		for _, n := range []int64{11, maxUnits, math.MaxInt64} {
			if _, r := b.Take(State{}, start, n); r.OK || r.Wait != Never || r.Remaining != 10 {
				t.Errorf("%T: take of %d: %+v, want a refusal for ever with 10 left", b, n, r)
			}
		}
	}
}

// A charge afterwards makes a debt of one burst at most, whatever was charged.
func TestDebtStopsAtOneBurst(t *testing.T) {
	for _, n := range []int64{20, 21, maxUnits, math.MaxInt64, math.MinInt64 + 1} {
		if n < 0 {
			n = -(n + 1) // the largest charge there is
		}
		b := tokens(t, 10, time.Second, 10)
		s, _ := b.Take(State{}, start, 0)
		s = b.Adjust(s, start, -n)
		// 20 units in use: 11 must come back before one is there.
		if _, r := b.Take(s, start, 1); r.OK || r.Remaining != 0 || r.Wait != 1100*ms {
			t.Errorf("after a charge of %d: %+v, want a wait of 1.1s", n, r)
		}
		w := window(t, 10, time.Second)
		s, _ = w.Take(State{}, start, 0)
		s = w.Adjust(s, start, -n)
		if _, r := w.Take(s, start, 1); r.OK || r.Remaining != 0 || r.Wait != time.Second {
			t.Errorf("after a charge of %d: %+v, want a wait for the end of the window", n, r)
		}
	}
}
