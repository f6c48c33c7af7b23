package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"gateway/limit"
)

// runBallast is how much less often garbage is collected: a collection begins
// when as much has been allocated as was in use and in the ballast.
const runBallast = 8 << 20

// ballast makes the collector take the heap for larger than it is. A gateway with
// few keys uses a few MB, and would collect them some hundred times a second under
// load; with many keys it makes no difference. The ballast is never touched, so it
// takes no memory itself; it is to be kept reachable. Who sets GOGC or GOMEMLIMIT knows
// better, and gets none.
func ballast(size int) []byte {
	if ownCollector() {
		return nil
	}
	return make([]byte, size)
}

// ownCollector says that whoever starts the gateway has set the collector.
func ownCollector() bool {
	return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != ""
}

const (
	// headroom is what may be allocated between two collections beside many keys,
	// unless that is less than a fifth of what they take.
	headroom = 24 << 20
	// release is how much of the memory of keys must have become free for it to be
	// given back to the system at once.
	release = 16 << 20
)

// memory keeps what the process takes near what its keys need. The collector by
// itself lets as much garbage gather as is in use, which is as much again as a
// million keys take, although to collect beside them costs no more than without
// them: they hold no pointers. And when nobody comes any more it looks for garbage
// every other minute only, so that keys that are forgotten would not be given back.
type memory struct {
	tables  func() []*limit.Table
	percent func(int) // sets GOGC; nil leaves it
	collect func()    // collects, and gives back what is free

	set        int   // the last percent
	most, last int64 // bytes of keys: the most since the last collection, and at the last look
}

// run looks after the memory until ctx ends.
func (m *memory) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.look()
		}
	}
}

// newMemory returns a memory for what tables holds.
func newMemory(tables func() []*limit.Table) *memory {
	m := &memory{tables: tables, collect: debug.FreeOSMemory}
	if !ownCollector() {
		m.percent = func(n int) { debug.SetGCPercent(n) }
	}
	return m
}

func (m *memory) look() {
	held := int64(0)
	for _, t := range m.tables() {
		held += t.Stats().Bytes
	}
	// To set it stops the world, if not for long: small changes are let be.
	if n := percentBeside(held); m.percent != nil && n != m.set && (m.set == 0 || 4*n < 3*m.set || 3*n > 4*m.set) {
		m.set = n
		m.percent(n)
	}
	m.most = max(m.most, held)
	if m.most-held >= release && held == m.last { // the sweep is over
		m.most = held
		m.collect()
	}
	m.last = held
}

// percentBeside is the GOGC for keys that take so many bytes.
func percentBeside(held int64) int {
	return int(min(100, max(20, 100*headroom/(held+runBallast+1))))
}
