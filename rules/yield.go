package rules

import (
	"io"
	"runtime"
)

// A large file takes a tenth of a second and more to read. Whoever does that for
// so long keeps requests waiting where there are no more processors than it and
// the collector take: the scheduler interrupts after 10 ms only. So whatever goes
// over all rules, or all of a file, stops now and then for others to run.

// pauses lets others run at every so many calls of step. The zero value is ready.
type pauses int

// stretch is how many steps, of some microseconds each, are done at a time.
const stretch = 32

func (p *pauses) step() {
	if *p++; *p%stretch == 0 {
		runtime.Gosched()
	}
}

// pausingReader lets others run at every so many calls of Read; yaml.v3 asks for
// 512 bytes at a time.
type pausingReader struct {
	r io.Reader
	p pauses
}

func (r *pausingReader) Read(b []byte) (int, error) {
	r.p.step()
	return r.r.Read(b)
}
