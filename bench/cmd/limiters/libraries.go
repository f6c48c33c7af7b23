package main

import (
	"context"
	"hash/maphash"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	tollbooth "github.com/didip/tollbooth/v7/limiter"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// oursName is the column the others are compared with.
const oursName = "gateway"

// libraries are the columns of the table.
var libraries = []library{
	{
		name: oursName, algorithm: "all five; here token bucket",
		make:   func(n numbers, _ time.Duration) limiter { return ours(tokenBucket, n, false) },
		passed: func(n numbers) limiter { return ours(tokenBucket, n, true) },
		two:    oursTwo, how: "one call, atomic",
		sweeps: onCall,
	},
	{
		name: "x/time/rate", module: "golang.org/x/time", algorithm: "token bucket (float)",
		make:   func(n numbers, _ time.Duration) limiter { return xrate(n, false) },
		passed: func(n numbers) limiter { return xrate(n, true) },
		two:    xrateTwo, how: "Reserve, Cancel by hand",
	},
	{
		name: "sethvargo", module: "github.com/sethvargo/go-limiter", algorithm: "fixed window",
		make: sethvargo, two: sethvargoTwo, how: "Take, Burst +1 by hand", sweeps: timer,
	},
	{
		name: "ulule", module: "github.com/ulule/limiter/v3", algorithm: "fixed window",
		make: ululeLimiter, two: ululeTwo, how: "Get, Increment -1 by hand", sweeps: timer,
	},
	{
		name: "throttled", module: "github.com/throttled/throttled/v2", algorithm: "GCRA",
		make: throttledLimiter, how: "cannot: nothing gives back",
	},
	{
		name: "tollbooth", module: "github.com/didip/tollbooth/v7", algorithm: "token bucket (float)",
		make: tollboothLimiter, how: "cannot: nothing gives back", sweeps: expired,
	},
	{
		name: "httprate", module: "github.com/go-chi/httprate", algorithm: "sliding window",
		make: httprateLimiter, how: "cannot: nothing gives back", sweeps: windows,
	},
	{
		name: "floor", algorithm: "hash and CAS, no limit",
		make:   func(numbers, time.Duration) limiter { return floor(true) },
		passed: func(numbers) limiter { return floor(false) },
		how:    "–", bare: true,
	},
}

var background = context.Background()

// sameForAll makes a limiter whose check needs no scratch memory.
func sameForAll(c check) limiter { return limiter{worker: func() check { return c }} }

// floor is what no limiter can be below: a hash of the key and one CAS on a word
// it picks. It tells no keys apart and never refuses.
func floor(readClock bool) limiter {
	seed, words, clk := maphash.MakeSeed(), make([]atomic.Int64, 1<<21), newClock()
	for i := range words {
		words[i].Store(0) // let the kernel give the memory now
	}
	return sameForAll(func(key string) bool {
		p := &words[maphash.String(seed, key)%(1<<21)]
		v, next := p.Load(), int64(1)
		if readClock {
			next = int64(clk.now())
		}
		return p.CompareAndSwap(v, next)
	})
}

// lockFloor is what no limiter with a lock can be below when new keys come: each
// check holds one of a few mutexes for about as long as an insert takes, and none
// for longer. How long its checks stall is the machine's doing.
func lockFloor() limiter {
	seed := maphash.MakeSeed()
	var parts [16]struct {
		sync.Mutex
		n uint64
		_ [64]byte
	}
	return sameForAll(func(key string) bool {
		p := &parts[maphash.String(seed, key)%16]
		p.Lock()
		for range 16 {
			p.n += maphash.String(seed, key)
		}
		p.Unlock()
		return true
	})
}

// limiterMap is x/time/rate per key, as most users write it.
type limiterMap struct {
	m sync.Map
	numbers
}

func (m *limiterMap) get(key string) *rate.Limiter {
	v, ok := m.m.Load(key)
	if !ok {
		v, _ = m.m.LoadOrStore(key, rate.NewLimiter(rate.Limit(m.perSecond()), int(m.permits)))
	}
	return v.(*rate.Limiter)
}

func xrate(n numbers, passed bool) limiter {
	m := &limiterMap{numbers: n}
	if !passed {
		return sameForAll(func(key string) bool { return m.get(key).Allow() })
	}
	return limiter{worker: func() check {
		now := time.Now()
		return func(key string) bool {
			now = now.Add(step)
			return m.get(key).AllowN(now, 1)
		}
	}}
}

func xrateTwo(first, second numbers) func() checkTwo {
	m, o := &limiterMap{numbers: first}, &limiterMap{numbers: second}
	return func() checkTwo {
		return func(a, b string) bool {
			now := time.Now()
			r := m.get(a).ReserveN(now, 1)
			if r.DelayFrom(now) > 0 || !o.get(b).AllowN(now, 1) {
				r.CancelAt(now)
				return false
			}
			return true
		}
	}
}

func sethvargo(n numbers, expiry time.Duration) limiter {
	c := &memorystore.Config{
		Tokens: uint64(n.permits), Interval: n.per,
		SweepInterval: 24 * time.Hour, SweepMinTTL: 24 * time.Hour,
	}
	if expiry > 0 {
		c.SweepInterval, c.SweepMinTTL = expiry, n.per
	}
	s, err := memorystore.New(c)
	if err != nil {
		panic(err) // it has none to return
	}
	l := sameForAll(func(key string) bool {
		_, _, _, ok, _ := s.Take(background, key)
		return ok
	})
	l.close = func() { s.Close(background) }
	return l
}

func sethvargoTwo(first, second numbers) func() checkTwo {
	f, err := memorystore.New(&memorystore.Config{Tokens: uint64(first.permits), Interval: first.per})
	if err != nil {
		panic(err)
	}
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(second.permits), Interval: second.per})
	if err != nil {
		panic(err)
	}
	return func() checkTwo {
		return func(a, b string) bool {
			if _, _, _, ok, _ := f.Take(background, a); !ok {
				return false
			}
			if _, _, _, ok, _ := s.Take(background, b); !ok {
				f.Burst(background, a, 1)
				return false
			}
			return true
		}
	}
}

func ululeOf(n numbers, sweep time.Duration) *ulule.Limiter {
	store := ululememory.NewStoreWithOptions(ulule.StoreOptions{CleanUpInterval: sweep})
	return ulule.New(store, ulule.Rate{Period: n.per, Limit: n.permits})
}

func ululeLimiter(n numbers, expiry time.Duration) limiter {
	if expiry == 0 {
		expiry = 24 * time.Hour
	}
	l := ululeOf(n, expiry)
	return sameForAll(func(key string) bool {
		c, err := l.Get(background, key)
		return err == nil && !c.Reached
	})
}

func ululeTwo(first, second numbers) func() checkTwo {
	f, s := ululeOf(first, time.Hour), ululeOf(second, time.Hour)
	return func() checkTwo {
		return func(a, b string) bool {
			if c, err := f.Get(background, a); err != nil || c.Reached {
				f.Increment(background, a, -1)
				return false
			}
			if c, err := s.Get(background, b); err != nil || c.Reached {
				f.Increment(background, a, -1)
				return false
			}
			return true
		}
	}
}

func throttledLimiter(n numbers, _ time.Duration) limiter {
	store, err := memstore.NewCtx(0) // without a bound it forgets nothing
	if err != nil {
		panic(err)
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(1, n.nanosPerUnit()), MaxBurst: int(n.permits) - 1,
	})
	if err != nil {
		panic(err)
	}
	return sameForAll(func(key string) bool {
		limited, _, err := l.RateLimitCtx(background, key, 1)
		return err == nil && !limited
	})
}

func tollboothLimiter(n numbers, expiry time.Duration) limiter {
	if expiry == 0 {
		expiry = 24 * time.Hour
	}
	l := tollbooth.New(&tollbooth.ExpirableOptions{DefaultExpirationTTL: expiry}).
		SetMax(n.perSecond()).SetBurst(int(n.permits))
	t := sameForAll(func(key string) bool { return !l.LimitReached(key) })
	t.sweep = l.DeleteExpiredTokenBuckets
	return t
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// httprateLimiter asks without a request and sets no headers: only the core.
func httprateLimiter(n numbers, expiry time.Duration) limiter {
	if expiry > 0 {
		n.per = expiry
	}
	l := httprate.NewRateLimiter(int(n.permits), n.per, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	return limiter{worker: func() check {
		w, r := discard{http.Header{}}, &http.Request{}
		return func(key string) bool { return !l.OnLimit(w, r, key) }
	}}
}
