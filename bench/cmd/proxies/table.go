package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

// figures are those of each proxy and work, by round.
type figures map[string][]float64

func (f figures) add(proxy, what string, round int, v float64) {
	key := proxy + "\x00" + what
	for len(f[key]) <= round {
		f[key] = append(f[key], 0)
	}
	f[key][round] = v
}

func (f figures) of(proxy, what string) []float64 { return f[proxy+"\x00"+what] }

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// ratio is the median over the rounds of what a took for what b did.
func ratio(a, b []float64) float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			all = append(all, a[i]/b[i])
		}
	}
	return median(all)
}

// print writes the table, in Markdown.
func (f figures) print(w io.Writer, all []*running, b *bench) {
	fmt.Fprintf(w, "%d rounds of %d requests over %d connections, answers of %d bytes, %d processors, %s\n\n",
		b.rounds, b.requests, b.conns, answerSize, runtime.NumCPU(), runtime.Version())
	head := []string{"", "allowed, CPU-s/100k", "× " + base, "POST, CPU-s/100k", "× " + base, "req/s", "refused, CPU-s/100k", "× x/time/rate", "added p50 at 3k/s, µs", "MB idle → loaded"}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, r := range all {
		cell := func(what, than string) (string, string) {
			mine := f.of(r.name, what)
			if len(mine) == 0 {
				return "–", "–"
			}
			times := "–"
			if v := ratio(mine, f.of(than, what)); v > 0 {
				times = fmt.Sprintf("%.2f", v)
			}
			return fmt.Sprintf("%.2f", median(mine)), times
		}
		allowed, a := cell("allowed", base)
		posted, p := cell("posted", base)
		refused, x := cell("refused", limiting)
		added := "–"
		if v := f.of(r.name, paced); len(v) > 0 {
			added = fmt.Sprintf("%.0f", median(v))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.1fk | %s | %s | %s | %.0f → %.0f |\n", r.name, allowed, a, posted, p,
			median(f.of(r.name, "allowed rate"))/1000, refused, x, added, r.idle, r.loaded)
	}
	if plain, stored := "gateway", "gateway redis"; len(f.of(stored, "allowed")) > 0 {
		fmt.Fprintf(w, "\nOver the store × %.2f of the requests a second, and × %.2f of the processor time, the store's included.\n",
			ratio(f.of(stored, "allowed rate"), f.of(plain, "allowed rate")), ratio(f.of(stored, "allowed"), f.of(plain, "allowed")))
	}
	if plain, logging := "gateway", "gateway access log"; len(f.of(logging, "allowed")) > 0 {
		fmt.Fprintf(w, "\nWith access log and metrics × %.2f of without; of refused requests × %.2f.\n",
			ratio(f.of(logging, "allowed"), f.of(plain, "allowed")), ratio(f.of(logging, "refused"), f.of(plain, "refused")))
	}
}
