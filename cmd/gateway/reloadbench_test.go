package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rulesOfPaths writes a file of n rules, each but one for a path of its own.
func rulesOfPaths(n int, limit string) string {
	var b strings.Builder
	b.WriteString(ports + "log: { access: off }\nroutes: [{ respond: { status: 204 } }]\nrules:\n  - { name: per-ip, limit: " + limit + " }\n")
	for i := range n - 1 {
		fmt.Fprintf(&b, "  - { name: r-%05d, match: /api/v1/res-%05d/**, key: header.X-Api-Key, limit: %s }\n", i, i, limit)
	}
	return b.String()
}

// longest sends requests one after the other until stop is set, and returns the
// longest that one took.
func (g *instance) longest(b *testing.B, stop *atomic.Bool) time.Duration {
	most := time.Duration(0)
	for i := 0; !stop.Load(); i++ {
		start := time.Now()
		if a, err := g.try("GET", fmt.Sprintf("/api/v1/res-%05d/x", i%9999), "X-Api-Key: k"); err != nil || a.status != 204 {
			b.Errorf("%d, %v", a.status, err)
			return most
		}
		most = max(most, time.Since(start))
	}
	return most
}

// A reload of 10,000 rules, all of them changed or only one: the binary with its file, asked by
// POST /reload, with a client beside it. reload-ms is the median from the question to the
// answer, logged-ms what the log says of it; longest-ms is the longest request
// meanwhile, quiet-ms the longest in the same time without a reload.
func BenchmarkReloadOfManyRules(b *testing.B) {
	all := [2]string{rulesOfPaths(10_000, "1000000/s"), rulesOfPaths(10_000, "2000000/s")}
	one := [2]string{all[0], strings.Replace(all[0], "1000000/s", "2000000/s", 1)}
	for what, files := range map[string][2]string{"all": all, "one": one} {
		b.Run(what, func(b *testing.B) {
			g := serve(b, files[0])
			var took []time.Duration
			beside := func(do func()) time.Duration {
				var stop atomic.Bool
				longest := make(chan time.Duration)
				go func() { longest <- g.longest(b, &stop) }()
				do()
				stop.Store(true)
				return <-longest
			}
			busy := beside(func() {
				for i := 1; b.Loop(); i++ {
					g.save(files[i%2])
					start := time.Now()
					if a := g.control("POST", "/reload"); a.status != 200 || !strings.Contains(a.body, "changed") {
						b.Fatalf("%d %s", a.status, a.body)
					}
					took = append(took, time.Since(start))
				}
			})
			quiet := beside(func() { time.Sleep(b.Elapsed()) })
			var logged []float64
			for _, line := range g.logged("configuration reloaded") {
				logged = append(logged, line["duration"].(float64)*1e3)
			}
			slices.Sort(took)
			slices.Sort(logged)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "reload-ms")
			b.ReportMetric(logged[len(logged)/2], "logged-ms")
			b.ReportMetric(float64(busy)/1e6, "longest-ms")
			b.ReportMetric(float64(quiet)/1e6, "quiet-ms")
		})
	}
}
