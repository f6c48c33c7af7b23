package main

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the time all threads of this process have run, whatever else the
// machine did meanwhile.
func processCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return time.Since(born)
	}
	return time.Duration(ts.Nano())
}

// peakRSS is the most memory this process ever had, in bytes.
func peakRSS() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Maxrss) * 1024
}

// queue says how long the calling thread has waited for a processor that others
// had. The thread must be locked to its goroutine.
type queue struct {
	file *os.File
	buf  [64]byte
}

func newQueue() *queue {
	f, err := os.Open("/proc/thread-self/schedstat")
	if err != nil {
		return &queue{} // a kernel without it: nothing is taken off
	}
	return &queue{file: f}
}

func (q *queue) waited() time.Duration {
	if q.file == nil {
		return 0
	}
	n, _ := q.file.ReadAt(q.buf[:], 0)
	_, rest, _ := bytes.Cut(q.buf[:n], []byte{' '})
	wait, _, _ := bytes.Cut(rest, []byte{' '})
	ns, err := strconv.ParseInt(string(wait), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}
