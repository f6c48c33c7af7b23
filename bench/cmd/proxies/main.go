// Proxies measures the gateway and other reverse proxies on the same work, all at
// once in front of one upstream, and prints one table.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	serve := flag.String("serve", "", "be one of the servers that are measured: upstream, reverseproxy, xrate or fasthttp")
	upstream := flag.String("upstream", "", "address of the upstream, with -serve")
	gateway := flag.String("gateway", "", "the gateway's binary (default: it is built)")
	versus := flag.String("vs", "", "another binary of the gateway, to be compared")
	only := flag.String("only", "", "comma-separated proxies to measure (default all that are installed)")
	what := flag.String("works", "", "comma-separated works to measure: allowed, refused, posted, paced (default all)")
	rounds := flag.Int("rounds", 9, "how often each is measured, all in turn")
	requests := flag.Int("requests", 20_000, "requests of each measurement")
	conns := flag.Int("conns", 64, "client connections")
	memory := flag.Bool("memory", false, "measure memory and streams instead (about ten minutes)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case *serve != "":
		err = be(ctx, *serve, *upstream)
	default:
		b := &bench{gateway: *gateway, versus: *versus, rounds: *rounds, requests: *requests, conns: *conns}
		if *only != "" {
			b.only = strings.Split(*only, ",")
		}
		if *what != "" {
			b.works = strings.Split(*what, ",")
		}
		if *memory {
			err = b.memoryTable(ctx, os.Stdout, fullSizes)
		} else {
			err = b.run(ctx, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "proxies: %v\n", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	gateway, versus         string
	only, works             []string
	rounds, requests, conns int
	dir                     string
	upstream                *running
	store                   *running // nil where redis-server is not installed
}

// base is the proxy that the others are compared with.
const base = "reverseproxy"

// limiting is what it is compared with where it refuses.
const limiting = "reverseproxy + x/time/rate"

// prepare makes what all measurements need. The func that it returns ends it.
func (b *bench) prepare(ctx context.Context) (end func(), err error) {
	if b.dir, err = os.MkdirTemp("", "proxies-"); err != nil {
		return nil, err
	}
	remove := func() { os.RemoveAll(b.dir) }
	if b.gateway == "" {
		b.gateway = filepath.Join(b.dir, "gateway")
		if err := build(ctx, b.gateway); err != nil {
			remove()
			return nil, fmt.Errorf("building the gateway: %w", err)
		}
	}
	if b.upstream, err = b.start(ctx, proxy{name: "upstream", command: self("upstream")}, ""); err != nil {
		remove()
		return nil, err
	}
	end = func() { b.upstream.end(); remove() }
	if _, err := exec.LookPath(redisServer.name); err != nil {
		fmt.Fprintf(os.Stderr, "%s is not installed, and left out\n", redisServer.name)
		return end, nil
	}
	if b.store, err = b.start(ctx, redisServer, ""); err != nil {
		end()
		return nil, err
	}
	return func() { b.store.end(); b.upstream.end(); remove() }, nil
}

// run compares all proxies and prints one table.
func (b *bench) run(ctx context.Context, out io.Writer) error {
	f, all, err := b.collect(ctx)
	if err != nil {
		return err
	}
	f.print(out, all, b)
	return ctx.Err()
}

// collect measures all proxies.
func (b *bench) collect(ctx context.Context) (figures, []*running, error) {
	end, err := b.prepare(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	var all []*running
	for _, p := range b.proxies() {
		if b.only != nil && !slices.Contains(b.only, p.name) && p.name != base && p.name != "the other gateway" {
			continue
		}
		r, err := b.start(ctx, p, b.upstream.addr)
		if err != nil {
			return nil, nil, err
		}
		defer r.end()
		r.idle = r.memory()
		all = append(all, r)
	}
	f := figures{}
	for round := -1; round < b.rounds && ctx.Err() == nil; round++ {
		order := slices.Clone(all)
		if round%2 != 0 {
			slices.Reverse(order)
		}
		for _, r := range order {
			if err := b.pace(f, r, round); err != nil {
				return nil, nil, fmt.Errorf("%s, %s: %w", r.name, paced, err)
			}
			for _, w := range works {
				if w.limited && !r.limits || b.works != nil && !slices.Contains(b.works, w.name) {
					continue
				}
				cpu, took, err := b.measure(r, w)
				if err != nil {
					return nil, nil, fmt.Errorf("%s, %s: %w", r.name, w.name, err)
				}
				if round >= 0 { // the first one warms up
					f.add(r.name, w.name, round, cpu)
					f.add(r.name, w.name+" rate", round, float64(b.requests)/took.Seconds())
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", max(0, round+1), b.rounds)
	}
	for _, r := range all {
		r.loaded = r.memory()
	}
	return f, all, ctx.Err()
}

// pace measures how much later answers come through r than from the upstream itself,
// asked right before, in microseconds.
func (b *bench) pace(f figures, r *running, round int) error {
	if b.works != nil && !slices.Contains(b.works, paced) {
		return nil
	}
	n := max(b.conns, b.requests/8)
	bare, err := latency(b.upstream.addr, n, b.conns)
	if err != nil {
		return err
	}
	through, err := latency(r.addr, n, b.conns)
	if err == nil && round >= 0 {
		f.add(r.name, paced, round, float64(through-bare)/1e3)
	}
	return err
}

// build builds the gateway as it is released, in its own module, with what that needs.
func build(ctx context.Context, path string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "gateway").Output()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/gateway")
	c.Dir, c.Stderr, c.Env = strings.TrimSpace(string(dir)), os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	return c.Run()
}

// measure has r do w and returns its processor time for 100,000 requests, in
// seconds.
func (b *bench) measure(r *running, w work) (cpu float64, took time.Duration, err error) {
	before, began := r.cpu(), time.Now()
	if err := load(r.addr, w, b.requests, b.conns); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	return (r.cpu() - before).Seconds() * 1e5 / float64(b.requests), took, nil
}
