package replay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gateway/rules"
)

const threeRules = `
upstream: http://127.0.0.1:1
rules:
  - name: per-ip
    limit: 100/m
  - name: api
    match: /api/**
    key: [ip, method]
    limit: 10/s
    burst: 50
  - name: all
    key: global
    limit: 100000/s
`

// setOf compiles a file.
func setOf(tb testing.TB, file string) *rules.Set {
	tb.Helper()
	f, err := rules.Parse("gateway.yaml", []byte(file))
	if err != nil {
		tb.Fatal(err)
	}
	set, err := f.Compile(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// combinedLog writes a log of so many lines, of 20,000 clients.
func combinedLog(lines int) []byte {
	var b bytes.Buffer
	at := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for i := range lines {
		c := (i * 7919) % 20000
		fmt.Fprintf(&b, "198.51.%d.%d - - [%s] \"GET /api/items/%d?page=%d HTTP/1.1\" 200 %d \"https://www.example.com/shop\" \"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\"\n",
			c/250, c%250, at.Add(time.Duration(i)*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), i%500, i%7, 512+i%4096)
	}
	return b.Bytes()
}

// BenchmarkCombined is what is asked of one core: a million lines a second through
// three rules.
func BenchmarkCombined(b *testing.B) {
	const lines = 2_000_000
	path := filepath.Join(b.TempDir(), "access.log")
	if err := os.WriteFile(path, combinedLog(lines), 0o600); err != nil {
		b.Fatal(err)
	}
	before := cpuTime(b)
	n := 0
	for b.Loop() {
		n++
		r, err := Open([]string{path}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, outcomes := NewRun(setOf(b, threeRules), ""), []Outcome(nil)
		for {
			batch, err := r.Next()
			if err == io.EOF {
				break
			}
			outcomes = s.Do(batch, outcomes[:0])
			r.Free(batch)
		}
		rep := s.Report(r, Wanted{"clients", 0.001}, 10)
		r.Close()
		if rep.Lines != lines || rep.LinesUnread != 0 || rep.Rules[0].Requests != lines {
			b.Fatalf("%+v", rep.Totals)
		}
	}
	b.ReportMetric(float64(lines)*float64(n)/b.Elapsed().Seconds(), "lines/s")
	each := (cpuTime(b) - before).Seconds() / float64(n)
	b.ReportMetric(lines/each, "lines/core-s")
	before = cpuTime(b)
	countAddresses(b, path)
	b.ReportMetric(each/(cpuTime(b)-before).Seconds(), "×counting")
}

// countAddresses does what a one-liner would: it counts the lines of each address. How
// much longer a replay takes says more than what it does in a second of some machine.
func countAddresses(tb testing.TB, path string) {
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	counts := map[string]int{}
	in := bufio.NewScanner(f)
	for in.Scan() {
		address, _, _ := strings.Cut(in.Text(), " ")
		counts[address]++
	}
	if len(counts) != 20000 {
		tb.Fatalf("%d addresses", len(counts))
	}
}

// cpuTime returns the time that the processor has spent on this process: unlike the
// time by the clock it does not grow with what else the machine does.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
