package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// results are all figures of a limiter by name.
type results map[string]map[string][]float64

func (r results) add(lib string, keys int, f figures) {
	if r[lib] == nil {
		r[lib] = map[string][]float64{}
	}
	for name, v := range f {
		if keys > million && name != "rss" {
			name += "5"
		}
		r[lib][name] = append(r[lib][name], v)
	}
}

func (r results) median(lib, name string) (float64, bool) {
	all := slices.Sorted(slices.Values(r[lib][name]))
	if len(all) == 0 {
		return 0, false
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, true
}

// least returns the least of the figures: right for stalls, to which what else
// the machine does can only add.
func (r results) least(lib, name string) (float64, bool) {
	if len(r[lib][name]) == 0 {
		return 0, false
	}
	return slices.Min(r[lib][name]), true
}

// row is one line of the table.
type row struct {
	title  string
	cell   func(r results, l library) string
	longer bool // only of a full run
}

// figure is a row of medians, each with its ratio to ours unless no ratio is wanted.
func figure(title, name, format string, ratio bool) row {
	return row{title: title, cell: func(r results, l library) string {
		v, ok := r.median(l.name, name)
		if !ok {
			return "–"
		}
		s := fmt.Sprintf(format, v)
		if base, ok := r.median(oursName, name); ratio && ok && base > 0 && l.name != oursName {
			s += fmt.Sprintf(" (%s×)", short(v/base))
		}
		return s
	}}
}

// short prints a ratio with two digits that count.
func short(v float64) string {
	switch {
	case v < 1:
		return fmt.Sprintf("%.2f", v)
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func fullOnly(r row) row {
	r.longer = true
	return r
}

func rows() []row {
	all := []row{
		{title: "algorithm", cell: func(_ results, l library) string { return l.algorithm }},
		figure("hot key, 1 thread, ns", "hot", "%.0f", true),
		figure("hot key, 2 threads, ns", "hot2", "%.0f", true),
		figure("hot key, clock passed in, ns", "passed", "%.0f", true),
		figure("hot key, refused, ns", "refused", "%.0f", true),
		{title: "allocations a check (bytes)", cell: func(r results, l library) string {
			n, _ := r.median(l.name, "allocs")
			b, ok := r.median(l.name, "bytes")
			if !ok {
				return "–"
			}
			return fmt.Sprintf("%.0f (%.0f)", n, b)
		}},
		figure("1,000 keys, ns", "1k", "%.0f", true),
		figure("1M keys, ns", "many", "%.0f", true),
		figure("new key, up to 1M, ns", "insert", "%.0f", true),
		{title: "two rules, all or nothing", cell: func(_ results, l library) string { return l.how }},
		figure("two rules, the second refuses, ns", "tworefuse", "%.0f", true),
		figure("two rules, both pass, ns", "twopass", "%.0f", true),
		figure("bytes a key at 1M", "perkey", "%.0f", true),
		figure("GC CPU a cycle, 1M keys, ms", "gc", "%.1f", false),
		fullOnly(figure("GC CPU a cycle, 5M keys, ms", "gc5", "%.1f", false)),
		stall("longest stall while 1M keys come, ms", "grow"),
		fullOnly(stall("longest stall while 5M keys come, ms", "grow5")),
		stall("longest stall while 1M keys are forgotten, ms", "sweep"),
		fullOnly(stall("longest stall while 5M keys are forgotten, ms", "sweep5")),
	}
	for _, a := range algorithms {
		all = append(all, row{title: a.name + ": hot key 1 / 2 threads / clock passed in, ns", cell: func(r results, l library) string {
			one, ok := r.median(l.name, "hot "+a.name)
			two, _ := r.median(l.name, "hot2 "+a.name)
			passed, _ := r.median(l.name, "passed "+a.name)
			if !ok {
				return "–"
			}
			return fmt.Sprintf("%.0f / %.0f / %.0f", one, two, passed)
		}})
	}
	return all
}

func stall(title, name string) row {
	return row{title: title, cell: func(r results, l library) string {
		v, ok := r.least(l.name, name)
		switch {
		case ok:
			return fmt.Sprintf("%.1f", v)
		case l.sweeps == never && !l.bare:
			return "never forgets"
		}
		return "–"
	}}
}

func write(w io.Writer, columns []library, r results, machine string, full bool) error {
	var b strings.Builder
	b.WriteString("| |")
	for _, l := range columns {
		b.WriteString(" " + l.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, row := range rows() {
		if row.longer && !full {
			continue
		}
		b.WriteString("| " + row.title + " |")
		for _, l := range columns {
			b.WriteString(" " + row.cell(r, l) + " |")
		}
		b.WriteString("\n")
	}
	rss := 0.0
	for _, f := range r {
		for _, v := range f["rss"] {
			rss = max(rss, v)
		}
	}
	fmt.Fprintf(&b, "\n%s Largest process: %.0f MB.\n%s\n", machine, rss, versions(columns))
	_, err := io.WriteString(w, b.String())
	return err
}

// versions are those of the modules that were built in.
func versions(columns []library) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var all []string
	for _, l := range columns {
		for _, m := range info.Deps {
			if m.Path == l.module {
				all = append(all, m.Path+" "+m.Version)
			}
		}
	}
	return strings.Join(all, ", ") + "."
}

func machine(before, after string) string {
	s := fmt.Sprintf("%s, %d processors, %s/%s, %s.", model(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if before != "" {
		s += fmt.Sprintf(" Load average %s before, %s after.", before, after)
	}
	return s
}

func model() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // absent but on Linux
	for line := range strings.Lines(string(text)) {
		if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "Unknown processor"
}

// load is the load average of the last minute, "" where nobody knows.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
