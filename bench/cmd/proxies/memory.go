package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sizes are how much is held and moved where memory is measured.
type sizes struct {
	keys     int           // clients of one rule
	expiry   time.Duration // after which a client is forgotten
	wait     time.Duration // until that shows, and again as long, twice
	down, up int64         // bytes
	rounds   int           // how often they are moved
}

var fullSizes = sizes{keys: 1_000_000, expiry: 2 * time.Minute, wait: 150 * time.Second, down: 1 << 30, up: 256 << 20, rounds: 3}

const mib = 1 << 20

// memoryTable measures what the gateway takes of memory, and streams, and prints one
// table.
func (b *bench) memoryTable(ctx context.Context, out io.Writer, s sizes) error {
	end, err := b.prepare(ctx)
	if err != nil {
		return err
	}
	defer end()
	fmt.Fprintf(out, "| | gateway | %s |\n|---|---|---|\n", base)
	if err := b.streams(ctx, out, s); err != nil {
		return err
	}
	return b.keys(ctx, out, s)
}

// streams moves bytes down and up through the gateway and a bare proxy, in turn.
func (b *bench) streams(ctx context.Context, out io.Writer, s sizes) error {
	both, idle := [2]*running{}, [2]float64{}
	for i, p := range b.proxies() {
		if p.name != "gateway" && p.name != base {
			continue
		}
		r, err := b.start(ctx, p, b.upstream.addr)
		if err != nil {
			return err
		}
		defer r.end()
		if i = 0; p.name == base {
			i = 1
		}
		both[i] = r
	}
	select {
	case <-time.After(2 * time.Second): // what a start takes is over
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, r := range both {
		idle[i] = r.resident("VmRSS")
	}
	fmt.Fprintf(out, "| idle, MB | %.0f | %.0f |\n", idle[0], idle[1])
	for _, way := range []struct {
		name  string
		bytes int64
		move  func(addr string, n int64) error
	}{{"down", s.down, pull}, {"up", s.up, push}} {
		cpu, grown := [2][]float64{}, [2]float64{}
		for range s.rounds {
			for i, r := range both {
				before, began := r.resident("VmRSS"), r.cpu()
				r.forgetPeak()
				if err := way.move(r.addr, way.bytes); err != nil {
					return fmt.Errorf("%s, %s: %w", r.name, way.name, err)
				}
				cpu[i] = append(cpu[i], (r.cpu()-began).Seconds()*(1<<30)/float64(way.bytes))
				grown[i] = max(grown[i], r.resident("VmHWM")-before)
			}
		}
		fmt.Fprintf(out, "| %d MiB %s, CPU-s/GiB | %.2f, × %.2f | %.2f |\n", way.bytes/mib, way.name, median(cpu[0]), ratio(cpu[0], cpu[1]), median(cpu[1]))
		fmt.Fprintf(out, "| %d MiB %s, MB more at the most | %+.1f | %+.1f |\n", way.bytes/mib, way.name, grown[0], grown[1])
	}
	return nil
}

// keys lets one rule remember many clients, and forget them.
func (b *bench) keys(ctx context.Context, out io.Writer, s sizes) error {
	p := proxy{name: "gateway", command: func(dir, listen, _ string) ([]string, error) {
		path := filepath.Join(dir, "gateway.yaml")
		return []string{b.gateway, "run", "-c", path}, os.WriteFile(path, fmt.Appendf(nil, `listen: %q
admin: off
log: { access: off }
routes: [{ respond: { status: 204 } }]
rules: [{ name: client, key: header.X-Api-Key, limit: 1/%ds, max_keys: %d }]
`, listen, int(s.expiry.Seconds()), max(1000, 2*s.keys)), 0o600)
	}}
	r, err := b.start(ctx, p, "")
	if err != nil {
		return err
	}
	defer r.end()
	if err := fill(r.addr, 0, min(s.keys, 1000)); err != nil { // connections and buffers
		return err
	}
	before, began := r.resident("VmRSS"), time.Now()
	if err := fill(r.addr, min(s.keys, 1000), s.keys); err != nil {
		return err
	}
	if took := time.Since(began); took > s.expiry {
		return fmt.Errorf("%d clients took %v, so that some are forgotten already", s.keys, took)
	}
	held := r.resident("VmRSS")
	fmt.Fprintf(out, "| %d clients of one rule, MB more | %+.0f | |\n", s.keys, held-before)
	for range 3 {
		select {
		case <-time.After(s.wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		fmt.Fprintf(out, "| %.0f s later, MB more | %+.0f | |\n", time.Since(began).Seconds(), r.resident("VmRSS")-before)
	}
	return nil
}

// fill sends a request of each client from one number to another, many at once.
func fill(addr string, from, to int) error {
	const conns, ahead = 8, 64
	return onEach(addr, conns, func(n int, c net.Conn, in *bufio.Reader) error {
		out := bufio.NewWriterSize(c, 64<<10)
		for i := from + n; i < to; {
			sent := 0
			for ; i < to && sent < ahead; i, sent = i+conns, sent+1 {
				fmt.Fprintf(out, "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: client-%012d\r\n\r\n", i)
			}
			if err := out.Flush(); err != nil {
				return err
			}
			for range sent {
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					return err
				}
				if res.StatusCode != http.StatusNoContent {
					return fmt.Errorf("status %d", res.StatusCode)
				}
			}
		}
		return nil
	})
}

func pull(addr string, n int64) error {
	res, err := http.Get(fmt.Sprintf("http://%s/down?bytes=%d", addr, n))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if got, err := io.Copy(io.Discard, res.Body); err != nil || got != n {
		return fmt.Errorf("%d bytes of %d: %w", got, n, err)
	}
	return nil
}

func push(addr string, n int64) error {
	res, err := http.Post("http://"+addr+"/up", "application/octet-stream", io.LimitReader(zeros{}, n))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if got := res.Header.Get("X-Received"); got != strconv.FormatInt(n, 10) {
		return errors.New("the upstream got " + got)
	}
	return nil
}

// zeros has no end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// resident returns a line of the kernel's account of r's memory, in MB: VmRSS or
// VmHWM, the most there was.
func (r *running) resident(what string) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	for line := range strings.Lines(string(data)) {
		if kb, ok := strings.CutPrefix(line, what+":"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n / 1024
		}
	}
	return 0
}

// forgetPeak begins VmHWM anew.
func (r *running) forgetPeak() {
	os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.cmd.Process.Pid), []byte("5"), 0)
}
