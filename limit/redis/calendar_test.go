package redis

import (
	"errors"
	"sync"
	"testing"
	"time"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// Two gateways whose clocks are wrong by up to weeks, each in its own direction,
// admit exactly the limit in each window by the store's clock, over the end of a
// month and the night in which Berlin puts its clocks on.
func TestGatewaysWithSkewedClocksShareTheWindowsOfACalendar(t *testing.T) {
	server := redistest.Start(t)
	begin := start.Add(85*day + 23*time.Hour)                                                        // 28 March 2025, midnight in Berlin
	days := []limit.Instant{begin, begin.Add(day), begin.Add(2 * day), begin.Add(3*day - time.Hour)} // the 30th has 23 hours
	for i := 1; i < 5; i++ {
		days = append(days, days[3].Add(time.Duration(i)*day))
	}
	april := days[4]
	for _, skew := range []time.Duration{0, 10 * time.Second, 13 * time.Hour, 20 * day} {
		east, west := storePlace(t, server), storePlace(t, server)
		east.skew, west.skew = skew, -skew
		name := "cal" + skew.String()
		var daily, monthly []*rule
		for _, p := range []*place{east, west} {
			daily = append(daily, p.ruleNamed(t, name+"d", calendar(7, limit.Day, zone(t, "Europe/Berlin"))))
			monthly = append(monthly, p.ruleNamed(t, name+"m", calendar(50, limit.Month, zone(t, "Europe/Berlin"))))
			for _, r := range []*rule{daily[len(daily)-1], monthly[len(monthly)-1]} {
				r.shared.Returns = true // so that each is asked for
			}
		}
		passed, byMonth := make([]int, len(days)), [2]int{}
		today := 0
		for i, at := 0, begin; at < days[len(days)-1]; i, at = i+1, at.Add(time.Hour) {
			for today+1 < len(days) && days[today+1] <= at {
				today++
			}
			month := 0
			if at >= april {
				month = 1
			}
			for j := range 2 {
				if _, res := daily[(i+j)%2].take(at, key(1), 1); res.OK {
					passed[today]++
				} else if want := days[today+1].Sub(at); res.Wait != want {
					t.Fatalf("skew %v: at %v a wait of %v for the next day, want %v", skew, at.Time(), res.Wait, want)
				}
				if _, res := monthly[(i+j)%2].take(at, key(1), 1); res.OK {
					byMonth[month]++
				} else if want := april.Sub(at); month == 0 && res.Wait != want {
					t.Fatalf("skew %v: at %v a wait of %v for April, want %v", skew, at.Time(), res.Wait, want)
				}
			}
		}
		for i := range days[1:] {
			if passed[i] != 7 {
				t.Errorf("skew %v: %d passed on day %d, want 7", skew, passed[i], i)
			}
		}
		if byMonth != [2]int{50, 50} {
			t.Errorf("skew %v: %v passed in March and in April, want 50 in each", skew, byMonth)
		}
		// The edge, to the microsecond.
		var r []*rule
		for _, p := range []*place{east, west} {
			r = append(r, p.ruleNamed(t, name+"e", calendar(2, limit.Month, zone(t, "Europe/Berlin"))))
			r[len(r)-1].shared.Returns = true
		}
		for i, want := range []bool{true, true, false, false} {
			if _, res := r[i%2].take(april-limit.Instant(us), key(1), 1); res.OK != want {
				t.Errorf("skew %v: take %d a microsecond before April: %+v", skew, i, res)
			}
		}
		for i, want := range []bool{true, true, false, false} {
			if _, res := r[i%2].take(april, key(1), 1); res.OK != want {
				t.Errorf("skew %v: take %d as April begins: %+v", skew, i, res)
			}
		}
		for i := range r { // and a clock that goes back begins no window anew
			if _, res := r[i].take(april-limit.Instant(us), key(1), 1); res.OK || res.Wait != 30*day+us {
				t.Errorf("skew %v: back in March: %+v", skew, res)
			}
		}
	}
}

// A gateway whose clock is far off asks twice once, and from then on once.
func TestAClockThatIsFarOffCostsOneCallMore(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	s := p.limiter.Store.(*Store)
	s.clock.here = func() limit.Instant { return limit.InstantOf(time.Now().Add(-400 * day)) }
	calls := func() float64 { return server.Figure("commandstats", "cmdstat_evalsha:calls") }
	r, twin := p.rule(t, calendar(1000, limit.Month, midday)), p.rule(t, fixed(1000, 366*day))
	r.shared.Returns = true
	dry := p.rule(t, calendar(1000, limit.Day, midday))
	ask := func() (limit.Grant, []limit.Claim) {
		c := dry.claim(key(1), 1)
		c.Mode = limit.DryRun
		g, v, claims := p.ask(now(), r.claim(key(1), 1), twin.claim(key(1), 1), c)
		if !v.OK {
			t.Fatalf("%+v", v)
		}
		return g, claims
	}
	r.take(now(), key(2), 0) // and the scripts are there
	s.clock.ahead.Store(0)
	ask()
	s.clock.ahead.Store(0)
	for i, want := range []float64{2, 1, 1} {
		before := calls()
		_, claims := ask()
		if n := calls() - before; n != want {
			t.Errorf("request %d made %v calls, want %v", i, n, want)
		}
		for _, c := range claims {
			if c.Result.Remaining != int64(998-i) {
				t.Errorf("request %d: %+v, want %d left: what was asked twice is taken once", i, c.Result, 998-i)
			}
		}
	}
	// So is what comes back, and what is charged afterwards.
	g, _ := ask()
	s.clock.ahead.Store(0)
	g.Done(now(), func(c *limit.Claim) int64 { return map[bool]int64{true: -2, false: 1}[c.Table == r.table] })
	if _, res := r.take(now(), key(1), 0); res.Remaining != 993 {
		t.Errorf("%d left after 5 were taken and 2 charged, want 993", res.Remaining)
	}
	if _, res := dry.take(now(), key(1), 0); res.Remaining != 996 {
		t.Errorf("%d left after one of 5 came back, want 996", res.Remaining)
	}
	late, _ := r.take(now(), key(4), 1)
	server.Do("DEL", string(appendKey(nil, "gw", r.shared, key(4))))
	s.clock.ahead.Store(0)
	p.settle(&late, now(), -3)
	if _, res := r.take(now(), key(4), 0); res.Remaining != 997 {
		t.Errorf("%d left of a key that was forgotten before 3 were charged, want 997", res.Remaining)
	}
	// Where no two looks at a clock agree, the store does not decide.
	wild := 0
	s.clock.here = func() limit.Instant { wild++; return limit.Instant(wild%3) * limit.Instant(400*day) }
	_, _, claims := p.ask(now(), r.claim(key(3), 1))
	if claims[0].Fate != limit.Here {
		t.Errorf("decided by %d when the store's clock cannot be told", claims[0].Fate)
	}
	if err := error(wrongTime(1)); !errors.As(err, new(wrongTime)) || err.Error() == "" {
		t.Error("the error says nothing")
	}
}

// What was taken in a window that is over comes back to nobody, and what is charged
// then is charged to the window of now.
func TestAWindowThatIsOverTakesNothingBack(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		r := p.rule(t, calendar(10, limit.Month, zone(t, "UTC")))
		if r.shared != nil {
			r.shared.Returns = true
		}
		back, _ := r.take(start, key(1), 4)
		charged, _ := r.take(start, key(1), 4)
		february := start.Add(31 * day)
		r.take(february, key(1), 5)
		p.settle(&back, february, 4)
		if _, res := r.take(february, key(1), 0); res.Remaining != 5 {
			t.Errorf("%d left in February after 4 of January came back, want 5", res.Remaining)
		}
		p.settle(&charged, february, -3)
		if _, res := r.take(february, key(1), 0); res.Remaining != 2 {
			t.Errorf("%d left in February after 3 were charged, want 2", res.Remaining)
		}
		late, _ := r.take(february, key(2), 1) // which is forgotten before it is settled
		p.settle(&late, february.Add(28*day), -4)
		if _, res := r.take(february.Add(28*day), key(2), 0); res.Remaining != 6 {
			t.Errorf("%d left in March after 4 were charged, want 6", res.Remaining)
		}
	})
}

// Many at once, while the month ends: the limit of each month and not one more.
func TestManyAtOnceOverTheEndOfAMonth(t *testing.T) {
	server := redistest.Start(t)
	april := start.Add(89*day + 22*time.Hour) // in Berlin
	edge := storePlace(t, server)
	edge.clock(april - limit.Instant(us))
	var gateways []*rule
	for i := range 4 {
		p := storePlace(t, server)
		p.skew = time.Duration(i-2) * 9 * day
		p.now.Store(int64(april))
		p.clock = func(limit.Instant) {} // one hand moves it
		gateways = append(gateways, p.ruleNamed(t, "month", calendar(300, limit.Month, zone(t, "Europe/Berlin"))))
		gateways[i].shared.Returns = true
	}
	flood := func() (passed int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, r := range gateways {
			wg.Go(func() {
				for range 150 {
					if _, res := r.take(april, key(1), 1); res.OK {
						mu.Lock()
						passed++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		return passed
	}
	march := flood()
	edge.clock(april)
	if n := flood(); march != 300 || n != 300 {
		t.Errorf("%d of 600 passed in March and %d in April, want 300 each", march, n)
	}
}
