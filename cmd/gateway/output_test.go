package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Row J8: whatever becomes of its logs, the gateway serves on.
func TestLogsThatCannotBeWrittenStopNothing(t *testing.T) {
	type pipe struct{ r, w *os.File }
	open := func(t *testing.T) pipe {
		r, w, err := os.Pipe()
		do(t, err)
		t.Cleanup(func() { r.Close() })
		return pipe{r, w}
	}
	for name, c := range map[string]struct {
		requests int
		stdout   func(t *testing.T) *os.File
		lost     float64 // lines; 0 is some
	}{
		// A pipe holds 64 KiB, a buffer as much, the queue 4096 lines of over 300 bytes.
		"nobody reads": {requests: 5000, stdout: func(t *testing.T) *os.File { return open(t).w }},
		"the reader has gone": {requests: 200, lost: 200, stdout: func(t *testing.T) *os.File {
			p := open(t)
			p.r.Close()
			return p.w
		}},
		"the disk is full": {requests: 200, lost: 200, stdout: func(t *testing.T) *os.File {
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			do(t, err)
			return f
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			path := t.TempDir() + "/gateway.yaml"
			write(t, path, ports+"upstream: "+up.URL+"\nrules:\n  - { name: a, key: ip, limit: 100000/365d }\n")
			out := c.stdout(t)
			g := serveFileAt(t, path, func(cmd *exec.Cmd) { cmd.Stdout = out })
			out.Close()
			n := c.requests
			if counts := g.statuses(n, 16, "/"+strings.Repeat("x", 100), nil); counts[200] != n {
				t.Errorf("answers %v, want %d × 200", counts, n)
			}
			eventually(t, "the loss is counted", func() bool {
				n := g.metrics()["gateway_log_dropped_total"]
				return n > 0 && (c.lost == 0 || n == c.lost)
			})
			// serveFileAt sees to it that it stops with exit code 0.
		})
	}
}

// Without a stdout at all, no socket takes its number: lines go nowhere, never to a client.
func TestAClosedStdoutIsNobodysConnection(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	path := t.TempDir() + "/gateway.yaml"
	write(t, path, ports+"upstream: "+up.URL+"\nlog: { access: json }\nrules: []\n")
	g := serveFileAt(t, path, func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"/bin/sh", "-c", `exec "$0" "$@" >&- <&-`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	})
	c := dialRaw(t, g.addr)
	for range 20 {
		if res := c.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); res.StatusCode != 200 {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
	if counts := g.statuses(200, 8, "/", nil); counts[200] != 200 {
		t.Errorf("answers %v, want 200 × 200", counts)
	}
}

// The same of stderr, on which little is written but by requests too.
func TestStderrThatNobodyReadsStopsNothing(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	path := t.TempDir() + "/gateway.yaml"
	file := func(limit int) string {
		text := ports + "upstream: " + up.URL + "\nrules:\n"
		for i := range 30 { // a warning each
			text += fmt.Sprintf("  - { name: rule%d, key: ip, limit: %d/365d }\n", i, limit)
		}
		return text
	}
	write(t, path, file(1_000_000))
	r, w, err := os.Pipe()
	do(t, err)
	defer r.Close()
	g := launch(t, []string{"run", "-c", path}, func(cmd *exec.Cmd) { cmd.Stderr = w })
	w.Close()
	g.path = path
	// Read up to the line with the addresses, then no more.
	for b := make([]byte, 1); g.addr == ""; {
		if _, err := r.Read(b); err != nil {
			t.Fatal(err)
		}
		g.errs.Write(b)
		if b[0] == '\n' && len(g.logged("serving")) > 0 {
			g.awaitServing()
		}
	}
	for v := range 50 { // each reload has 32 lines; a pipe holds 64 KiB, the queue 1024 lines
		g.save(file(1_000_000 + v))
		if a, err := request(g.client, "POST", "http://"+g.admin+"/reload"); err != nil || a.status != 200 {
			t.Fatalf("reload %d: %d %s %v", v, a.status, a.body, err)
		}
	}
	if counts := g.statuses(100, 8, "/", nil); counts[200] != 100 {
		t.Errorf("answers %v, want 100 × 200", counts)
	}
	if n := g.metrics()["gateway_log_dropped_total"]; n == 0 {
		t.Error("no lost line is counted")
	}
	g.stop()
}

func TestAccessLogHasALineForEachRequest(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"upstream: "+up.URL+"\nrules:\n  - { name: a, key: ip, limit: 40/365d }\n  - { name: trial, key: ip, limit: 30/365d, dry_run: true }\n")
	for i := range 45 {
		a, err := g.try("GET", fmt.Sprintf("/p/%d?api_key=canary", i), "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"Authorization: canary", "Cookie: canary", "User-Agent: a\"b\\")
		do(t, err)
		if a.header.Get("X-Request-Id") == "" {
			t.Error("no X-Request-Id")
		}
	}
	g.stop() // writes what is left
	text := g.out.String()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 45 {
		t.Fatalf("%d lines, want 45", len(lines))
	}
	if strings.Contains(text, "canary") {
		t.Errorf("a secret is in the access log:\n%s", text)
	}
	seq, counts, dry := 0.0, map[any]int{}, 0
	for _, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if m["seq"].(float64) <= seq {
			t.Errorf("seq %v after %v", m["seq"], seq)
		}
		seq = m["seq"].(float64)
		counts[m["result"]]++
		if m["dry_run_rule"] == "trial" {
			dry++
		}
		for _, name := range []string{"at", "client", "peer", "method", "path", "status", "bytes", "duration", "route", "request_id", "trace_id", "cost", "settled"} {
			if m[name] == nil {
				t.Errorf("no %s in %s", name, line)
			}
		}
		if m["result"] == "rejected" && m["rule"] != "a" {
			t.Errorf("a refusal by %v, want a", m["rule"])
		}
	}
	if counts["allowed"] != 40 || counts["rejected"] != 5 || dry != 10 {
		t.Errorf("results %v, %d would have been refused; want 40 allowed, 5 rejected, 10", counts, dry)
	}
}
