// Limiters measures limiter cores on the same workloads and prints one table.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

const million = 1_000_000

func main() {
	full := flag.Bool("full", false, "5,000,000 keys too, and more repetitions (15 to 25 minutes)")
	reps := flag.Int("reps", 0, "repetitions of the short workloads (default 3, full 7)")
	only := flag.String("only", "", "comma-separated columns to measure (default all)")
	each := flag.Duration("each", 100*time.Millisecond, "time for each figure of a check")
	group := flag.String("group", "", "run one group of workloads of one limiter in this process: checks, held or stalls")
	keys := flag.Int("keys", million, "keys, with -group")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "limiters: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *group != "" {
		err = child(*group, *only, scale{each: *each, keys: *keys})
	} else {
		err = parent(ctx, *full, *reps, *only, *each)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "limiters: %v\n", err)
		os.Exit(1)
	}
}

// child measures one limiter and writes its figures for the parent.
func child(group, lib string, s scale) error {
	debug.SetMemoryLimit(5 << 30)
	f, err := runGroup(group, lib, s)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// job is one run of one process.
type job struct {
	group string
	keys  int
}

// jobs are those of each limiter, the long ones last; all limiters do one before
// any does the next.
func jobs(full bool, reps int) []job {
	big := 2
	if full {
		big = 3
	}
	if reps == 0 {
		reps = 3
		if full {
			reps = 7
		}
	}
	var all []job
	for rep := range max(reps, big) {
		if rep < reps {
			all = append(all, job{"checks", 0})
		}
		if rep < big {
			all = append(all, job{"held", million}, job{"stalls", million})
		}
	}
	if full {
		all = append(all, job{"held", 5 * million}, job{"stalls", 5 * million})
	}
	return all
}

func parent(ctx context.Context, full bool, reps int, only string, each time.Duration) error {
	columns := libraries
	if only != "" {
		columns = nil
		for name := range strings.SplitSeq(only, ",") {
			l, err := libraryNamed(name)
			if err != nil {
				return err
			}
			columns = append(columns, l)
		}
	}
	loadBefore := load()
	r := results{}
	err := r.measureAll(ctx, columns, jobs(full, reps), each)
	if len(r) == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "limiters: not finished; this is what was measured")
	}
	return errors.Join(err, write(os.Stdout, columns, r, machine(loadBefore, load()), full))
}

// measureAll adds the figures of all jobs to r, until ctx ends.
func (r results) measureAll(ctx context.Context, columns []library, all []job, each time.Duration) error {
	begin := time.Now()
	for i, j := range all {
		for _, l := range columns {
			if l.bare && j.keys > million && j.group == "held" {
				continue
			}
			fmt.Fprintf(os.Stderr, "%4.0fs  %d of %d: %s %s\n", time.Since(begin).Seconds(), i+1, len(all), j, l.name)
			f, err := measure(ctx, l, j, each)
			switch {
			case errors.Is(err, errSlow):
				fmt.Fprintf(os.Stderr, "limiters: %s of %s: %v; its cells stay empty\n", j, l.name, err)
			case err != nil:
				return fmt.Errorf("%s of %s: %w", j, l.name, err)
			default:
				r.add(l.name, j.keys, f)
			}
		}
	}
	return nil
}

func (j job) String() string {
	if j.keys == 0 {
		return j.group
	}
	return fmt.Sprintf("%s at %dM", j.group, j.keys/million)
}

const maxJob = 8 * time.Minute

var errSlow = fmt.Errorf("not done in %v", maxJob)

// measure runs j of l in a process of its own.
func measure(ctx context.Context, l library, j job, each time.Duration) (figures, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxJob, errSlow)
	defer cancel()
	c := exec.CommandContext(ctx, self, "-group", j.group, "-only", l.name, "-keys", strconv.Itoa(j.keys), "-each", each.String())
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, os.Stderr
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	var f figures
	return f, json.Unmarshal(out.Bytes(), &f)
}
