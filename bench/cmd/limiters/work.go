package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

var born = time.Now()

// A group of workloads runs in a process of its own and returns figures by name.
type group struct {
	name string
	run  func(library, scale) figures
}

type figures map[string]float64

// scale is how much work is done.
type scale struct {
	each time.Duration // for each figure of a check
	keys int
}

var groups = []group{{"checks", checks}, {"held", held}, {"stalls", stalls}}

const (
	keyBytes = 24
	batch    = 1024
)

// writeKey makes the key of client i: as long as many an address or token.
func writeKey(b []byte, i int) {
	copy(b, "user:")
	for j := keyBytes - 1; j >= 5; j-- {
		b[j] = byte('0' + i%10)
		i /= 10
	}
}

// keys are a batch of keys in memory that is used again, so that what is measured
// is the limiter's memory: a request has its key in the cache.
type keys struct {
	arena  [batch * keyBytes]byte
	string [batch]string
}

func newKeys() *keys {
	k := &keys{}
	for i := range k.string {
		k.string[i] = unsafe.String(&k.arena[i*keyBytes], keyBytes)
	}
	return k
}

// draw fills the batch with keys of n clients at random.
func (k *keys) draw(n int) {
	for i := range batch {
		writeKey(k.arena[i*keyBytes:(i+1)*keyBytes], rand.IntN(n))
	}
}

// freshKey is a key that may be kept.
func freshKey(i int) string {
	var b [keyBytes]byte
	writeKey(b[:], i)
	return string(b[:])
}

// cost returns the processor time of one check of n clients, in nanoseconds: that
// of the whole process, the collector's work for it included. The limiter must
// know the clients already, since it may keep no key of a batch.
func cost(c check, n int, each time.Duration) float64 {
	k := newKeys()
	k.draw(n)
	for range 8 {
		for _, key := range k.string {
			c(key)
		}
	}
	var spent time.Duration
	done, end := 0, time.Now().Add(10*each)
	for spent < each && time.Now().Before(end) {
		if n > 1 {
			k.draw(n)
		}
		begin := processCPU()
		for _, key := range k.string {
			c(key)
		}
		spent += processCPU() - begin
		done += batch
	}
	return float64(spent) / float64(done)
}

// costTogether returns the time of one check when two threads check one key: what
// passes on the clock, divided by the checks of both.
func costTogether(l limiter, each time.Duration) float64 {
	var total atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		c := l.worker()
		c(freshKey(0))
		all.Go(func() {
			k := newKeys()
			k.draw(1)
			n := int64(0)
			for !stop.Load() {
				for _, key := range k.string {
					c(key)
				}
				n += batch
			}
			total.Add(n)
		})
	}
	begin := time.Now()
	time.Sleep(each)
	stop.Store(true)
	all.Wait()
	return float64(time.Since(begin)) / float64(total.Load())
}

// allocations returns the allocations and bytes of one check.
func allocations(c check) (allocs, bytes float64) {
	const n = 100_000
	key := freshKey(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		c(key)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n
}

// checks measures everything that needs few keys.
func checks(lib library, s scale) figures {
	f := figures{}
	with := func(n numbers, measure func(limiter)) {
		l := lib.make(n, 0)
		l.worker()(freshKey(0))
		measure(l)
		if l.close != nil {
			l.close()
		}
	}
	with(roomy, func(l limiter) {
		f["hot"] = cost(l.worker(), 1, s.each)
		f["hot2"] = costTogether(l, s.each)
		f["allocs"], f["bytes"] = allocations(l.worker())
	})
	with(roomy, func(l limiter) {
		c := l.worker()
		for i := range 1000 {
			c(freshKey(i))
		}
		f["1k"] = cost(c, 1000, s.each)
	})
	if lib.passed != nil {
		c := lib.passed(roomy).worker()
		c(freshKey(0))
		f["passed"] = cost(c, 1, s.each)
	}
	if !lib.bare {
		with(single, func(l limiter) { f["refused"] = cost(l.worker(), 1, s.each) })
	}
	if lib.two != nil {
		refuses, passes := lib.two(roomy, single)(), lib.two(roomy, roomy)()
		a, b := freshKey(0), freshKey(1)
		f["tworefuse"] = cost(func(string) bool { return refuses(a, b) }, 1, s.each)
		f["twopass"] = cost(func(string) bool { return passes(a, b) }, 1, s.each)
	}
	if lib.name == oursName {
		for _, a := range algorithms {
			// Ours keep no key, so none need be known.
			f["hot "+a.name] = cost(ours(a.new, a.numbers, false).worker(), 1, s.each)
			f["hot2 "+a.name] = costTogether(ours(a.new, a.numbers, false), s.each)
			f["passed "+a.name] = cost(ours(a.new, a.numbers, true).worker(), 1, s.each)
		}
	}
	return f
}

// held measures what s.keys keys cost: to insert, to keep and to find.
func held(lib library, s scale) figures {
	f := figures{}
	if lib.bare {
		if s.keys <= 1_000_000 {
			f["many"] = cost(lib.make(roomy, 0).worker(), s.keys, s.each)
		}
		return f
	}
	heap0, gc0 := heap(), collect()
	l := lib.make(roomy, 0)
	c := l.worker()
	fresh := make([]string, 0, 4096)
	var spent time.Duration
	for i := 0; i < s.keys; {
		fresh = fresh[:0]
		for len(fresh) < cap(fresh) && i < s.keys {
			fresh = append(fresh, freshKey(i))
			i++
		}
		begin := processCPU()
		for _, key := range fresh {
			c(key)
		}
		spent += processCPU() - begin
	}
	clear(fresh)
	f["insert"] = float64(spent) / float64(s.keys)
	f["perkey"] = (heap() - heap0) / float64(s.keys)
	f["gc"] = max(0, collect()-gc0)
	f["many"] = cost(c, s.keys, s.each)
	runtime.KeepAlive(l)
	return f
}

// heap returns the bytes in use after a collection.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// collect returns the processor time of one full collection in milliseconds, of those
// that come when what the keys' coming left behind is gone.
func collect() float64 {
	const cycles = 3
	runtime.GC()
	runtime.GC()
	begin := processCPU()
	for range cycles {
		runtime.GC()
	}
	return float64(processCPU()-begin) / cycles / 1e6
}

// stalls measures the longest a check of a known client had to wait while s.keys
// new ones came, and while all of those were forgotten.
func stalls(lib library, s scale) figures {
	// More threads than cores, so that it is the kernel and not the Go scheduler
	// that shares them out: the kernel says how long a thread had to queue.
	runtime.GOMAXPROCS(4)
	if lib.bare {
		lib.make = func(numbers, time.Duration) limiter { return lockFloor() }
	}
	expiry := fillTime(lib, s.keys)
	for {
		f, ok := stallsIn(lib, s, expiry)
		if ok {
			return f
		}
		expiry *= 2 // something else kept the machine busy
	}
}

// fillTime estimates, with much to spare, how long it takes to insert n keys.
func fillTime(lib library, n int) time.Duration {
	l := lib.make(roomy, 0)
	if l.close != nil {
		defer l.close()
	}
	c := l.worker()
	sample := max(1, n/20)
	begin := time.Now()
	for i := range sample {
		c(freshKey(i))
	}
	return time.Second + 2*time.Since(begin)*time.Duration(n/sample)
}

const known = 1024 // clients whose checks are timed

func stallsIn(lib library, s scale, expiry time.Duration) (figures, bool) {
	l := lib.make(brief, expiry)
	if l.close != nil {
		defer l.close()
	}
	c := l.worker()
	begin := time.Now()
	for i := range known {
		c(freshKey(i))
	}
	w := watch(l)
	for i := range s.keys {
		c(freshKey(known + i))
	}
	f := figures{"grow": float64(w.longest()) / 1e6}
	filled := time.Since(begin)
	if (lib.sweeps == timer || lib.sweeps == windows || lib.sweeps == expired) && filled > expiry*9/10 {
		w.end()
		return nil, false
	}
	w.longest()
	switch lib.sweeps {
	case never:
		w.end()
		return f, true
	case onCall:
		time.Sleep(10 * brief.per)
		l.sweep()
	case expired:
		time.Sleep(expiry)
		l.sweep()
	case timer:
		time.Sleep(time.Until(begin.Add(expiry)) + 500*time.Millisecond)
	case windows:
		time.Sleep(time.Until(begin.Add(3*expiry)) + 500*time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
	f["sweep"] = float64(w.longest()) / 1e6
	w.end()
	runtime.KeepAlive(l)
	return f, true
}

// watcher checks known clients in turn, in a thread of its own.
type watcher struct {
	max  atomic.Int64
	laps atomic.Int64
	stop atomic.Bool
	done sync.WaitGroup
}

func watch(l limiter) *watcher {
	w := &watcher{}
	c := l.worker()
	w.done.Go(func() {
		runtime.LockOSThread()
		q := newQueue()
		var all [known]string
		for i := range all {
			all[i] = freshKey(i)
		}
		queued, ran := q.waited(), processCPU()
		for i := 0; !w.stop.Load(); i++ {
			begin := time.Now()
			c(all[i%known])
			took := time.Since(begin)
			queuedBefore, ranBefore := queued, ran
			queued, ran = q.waited(), processCPU()
			// What this thread queued for a processor is not the limiter's doing, nor
			// is the time in which no thread of this process ran, so that whoever
			// holds a lock queued as well.
			took = min(took-(queued-queuedBefore), ran-ranBefore)
			if int64(took) > w.max.Load() {
				w.max.Store(int64(took))
			}
			w.laps.Add(1)
		}
	})
	return w
}

// longest returns the longest check since it was last called, the present one
// included.
func (w *watcher) longest() time.Duration {
	for lap := w.laps.Load(); w.laps.Load() == lap; {
		time.Sleep(time.Millisecond)
	}
	return time.Duration(w.max.Swap(0))
}

func (w *watcher) end() {
	w.stop.Store(true)
	w.done.Wait()
}

func runGroup(group, lib string, s scale) (figures, error) {
	l, err := libraryNamed(lib)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.name == group {
			f := g.run(l, s)
			f["rss"] = peakRSS() / (1 << 20)
			return f, nil
		}
	}
	return nil, fmt.Errorf("no group %q", group)
}
