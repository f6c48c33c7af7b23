//go:build long

package replay

import (
	"fmt"
	"io"
	"runtime"
	"testing"
)

// Ten million lines of a day, with a botnet of 100,000 addresses: the answers are
// those it was made with, and what is in memory does not grow with the log.
func TestTenMillionLinesHaveTheAnswersTheyWereMadeWith(t *testing.T) {
	d := dayOf{seconds: 86_400, users: 20_000, bots: 100_000, office: [2]int{8 * 3600, 16 * 3600}}
	in, out := io.Pipe()
	count := make(chan int, 1)
	go func() {
		count <- d.write(out)
		out.Close()
	}()
	before := cpuTime(t)
	rep := decideAll(t, NewRun(setOf(t, dayRules), ""), []string{"-"}, Options{Stdin: in})
	lines := <-count
	d.check(t, rep, lines)
	if lines < 9_500_000 {
		t.Errorf("only %d lines", lines)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const most = 400 << 20
	if m.Sys > most {
		t.Errorf("%d MiB taken from the system, more than %d", m.Sys>>20, most>>20)
	}
	t.Attr("replay", fmt.Sprintf("%d lines, %.0f a second of one core with the writing of them, %d MiB", lines,
		float64(lines)/(cpuTime(t)-before).Seconds(), m.Sys>>20))
}
