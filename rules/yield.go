package rules

import (
	"io"
	"runtime"
	"time"
)

// A large file takes a tenth of a second and more to read. Whoever does that for
// so long keeps requests waiting where there are no more processors than it and
// the collector take: the scheduler interrupts after 10 ms only. So whatever goes
// over all rules, or all of a file, stops now and then for others to run. To stop
// costs as much as to read a rule, for it wakes a thread that may find nothing to
// do; so it is done by the clock.

// pauses lets others run whenever a stretch of time is over. The zero value is ready.
type pauses struct {
	steps uint
	last  time.Time // when others ran, or the first look at the clock
}

const (
	// stretch is for how long nobody else is let run.
	stretch = 250 * time.Microsecond
	// looks is how many steps, of some microseconds each at most, are between two looks
	// at the clock.
	looks = 16
)

// step is called at each of many steps.
func (p *pauses) step() {
	if p.steps++; p.steps%looks == 0 {
		p.look()
	}
}

func (p *pauses) look() {
	switch {
	case p.last.IsZero():
		p.last = time.Now()
	case time.Since(p.last) >= stretch:
		runtime.Gosched()
		p.last = time.Now()
	}
}

// pausingReader lets others run as it is read from; yaml.v3 asks for 512 bytes at a
// time, of which it makes values for longer than a look at the clock takes.
type pausingReader struct {
	r io.Reader
	p pauses
}

func (r *pausingReader) Read(b []byte) (int, error) {
	r.p.look()
	return r.r.Read(b)
}
