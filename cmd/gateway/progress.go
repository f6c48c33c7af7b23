package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gateway/rules/replay"
)

// progress shows on a terminal how far a replay has come.
type progress struct {
	done chan struct{}
	wait sync.WaitGroup
}

const progressEach = 200 * time.Millisecond

// startProgress shows nothing unless out is a terminal, nor in the first moments.
func startProgress(out io.Writer, r *replay.Reader) *progress {
	p := &progress{done: make(chan struct{})}
	if !isTerminal(out) {
		return p
	}
	p.wait.Go(func() {
		begun := time.Now()
		tick := time.NewTicker(progressEach)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-p.done:
				if shown {
					fmt.Fprint(out, "\r\x1b[K")
				}
				return
			case now := <-tick.C:
				bytes, lines, all := r.Progress()
				fmt.Fprint(out, "\r\x1b[K"+progressLine(bytes, lines, all, now.Sub(begun)))
				shown = true
			}
		}
	})
	return p
}

// stop takes the bar away.
func (p *progress) stop() {
	close(p.done)
	p.wait.Wait()
}

// progressLine says how far a replay has come after so much time; all is 0 when
// nobody knows how much there is.
func progressLine(bytes, lines, all int64, after time.Duration) string {
	rate := float64(lines) / max(after.Seconds(), 0.001)
	text := fmt.Sprintf("%s lines, %s/s", grouped(lines), grouped(int64(rate)))
	if all <= 0 || bytes <= 0 {
		return text
	}
	const width = 20 // so that all of it fits into 80 columns
	part := min(1, float64(bytes)/float64(all))
	full := int(part * width)
	left := time.Duration(float64(after) * (1 - part) / part).Round(time.Second)
	return fmt.Sprintf("%s%s %3.0f %%  %s, %v left", strings.Repeat("█", full), strings.Repeat("░", width-full), 100*part, text, left)
}
