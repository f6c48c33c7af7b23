package main

import (
	"fmt"
	"time"
)

// numbers are what a limiter is set to. The burst is permits.
type numbers struct {
	permits int64
	per     time.Duration
}

func (n numbers) perSecond() float64 { return float64(n.permits) / n.per.Seconds() }

// nanosPerUnit is the time in which one unit comes back.
func (n numbers) nanosPerUnit() time.Duration { return n.per / time.Duration(n.permits) }

var (
	roomy  = numbers{1_000_000_000, time.Hour}       // always has room
	single = numbers{1, time.Hour}                   // refuses all but the first
	brief  = numbers{10, 10 * time.Millisecond}      // is idle again at once
	crowd  = numbers{10_000, 100 * time.Microsecond} // always has room and forgets soon: for a log
)

// check asks for one unit of key.
type check func(key string) bool

// checkTwo asks for one unit of a of the first rule and one of b of the second:
// both are taken or none.
type checkTwo func(a, b string) bool

// limiter is one set-up limiter.
type limiter struct {
	// worker returns the check for one goroutine, which may have scratch memory of
	// its own, as a request has.
	worker func() check
	// sweep forgets what is idle, all at once. It is nil when the limiter cannot
	// be told to.
	sweep func()
	// close ends what the limiter started. It may be nil.
	close func()
}

// library is one column of the table.
type library struct {
	name      string
	module    string // whose version is printed; "" for ours
	algorithm string
	// make sets one up. With an expiry, keys are to be forgotten no earlier than
	// that after their last use; without, never.
	make func(n numbers, expiry time.Duration) limiter
	// passed is make with the clock passed in, nil when that is not possible.
	passed func(n numbers) limiter
	// two sets up two rules, nil when all or nothing cannot be had; how says how it
	// is done, or why not.
	two func(first, second numbers) func() checkTwo
	how string
	// sweeps says who forgets idle keys.
	sweeps sweeping
	// bare says that there is no memory of keys to measure.
	bare bool
}

// sweeping is who forgets idle keys, and when.
type sweeping uint8

const (
	never   sweeping = iota
	onCall           // when told to; idle is decided by the numbers
	expired          // when told to, once the expiry is over
	timer            // by itself, within the expiry
	windows          // by itself, within three times the expiry
)

func libraryNamed(name string) (library, error) {
	for _, l := range libraries {
		if l.name == name {
			return l, nil
		}
	}
	return library{}, fmt.Errorf("no limiter %q", name)
}
