package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gateway/rules/replay"
)

// everyKind has a rule of each kind, so tight that each of them refuses some.
const everyKind = `
trusted_proxies: [127.0.0.1/32]
upstream: UPSTREAM
groups:
  premium:
    header.X-API-Key: [p-*]
exempt:
  - header.X-Exempt: "1"
rules:
  - name: per-ip
    limit: 100/s
    burst: 30
  - name: per-key
    key: header.X-API-Key
    missing: skip
    limit: 30/s
    burst: 8
    tiers: { premium: { limit: 60/s } }
  - name: login
    match: POST /login
    key: body.username
    missing: reject
    limit: 5/2s
    algorithm: sliding_window_log
    count: { status: 401 }
  - name: slots
    match: /slow/**
    key: ip
    concurrency: 3
  - name: search
    match: /search/**
    key: path
    limit: 60/s
    algorithm: fixed_window
    cost: { /search/a: 5, /search/**: 2 }
    refund: { status: 5xx, upstream_error: true }
  - name: scanners
    match: { path: "/c*" }
    key: ip
    limit: 40/s
    burst: 5
    penalty: { after: 3/m, block: 1s }
  - name: queue
    match: /q
    key: ip
    algorithm: leaky_bucket
    limit: 100/s
    max_wait: 30ms
  - name: users
    match: /u/:user/**
    key: path.user
    limit: 20/s
    burst: 6
    cost: { /u/*/big: 3, /u/**: 1 }
  - name: quota
    key: global
    limit: 12000/m
    burst: 5000
    cost: { header: X-Cost, reserve: 1, max: 10 }
  - name: trial
    key: ip/24
    limit: 200/s
    burst: 10
    dry_run: true
`

// The promise of `replay`: the access log of a gateway under load, with many requests
// at a time on the same few keys, decided anew by the same file, gives every decision
// as it was.
func TestReplayOfOurOwnLogRepeatsEveryDecision(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/slow"):
			time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond) // so that requests overlap
		case r.URL.Path == "/login":
			io.Copy(io.Discard, r.Body)
			w.WriteHeader([]int{200, 401, 401, 500}[rand.IntN(4)])
		case strings.HasPrefix(r.URL.Path, "/search"):
			w.WriteHeader([]int{200, 200, 503}[rand.IntN(3)])
		default:
			w.Header().Set("X-Cost", strconv.Itoa(rand.IntN(12)))
		}
	}))
	defer up.Close()
	g := serve(t, ports+strings.ReplaceAll(everyKind, "UPSTREAM", up.URL))

	// Each wave fits into the queue of the log, so that no line is dropped.
	const waves, wave, workers = 4, 3000, 48
	for n := range waves {
		var wg sync.WaitGroup
		for worker := range workers {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(n), uint64(worker)))
				for range wave / workers {
					askOneOf(t, g, r)
				}
			})
		}
		wg.Wait()
		eventually(t, "the log holds the wave", func() bool { return logged(g.out.String()) >= (n+1)*(wave/workers)*workers })
	}
	metrics := g.ruleFigures()
	if n := metrics["gateway_log_dropped_total"]; n != 0 {
		t.Fatalf("%v lines of the log were dropped", n)
	}
	path := filepath.Join(t.TempDir(), "access.log")
	write(t, path, g.out.String())
	rep := replayed(t, path, "-c", g.path)
	if rep.LinesUnread != 0 || rep.Late != 0 {
		t.Errorf("%d lines unread, %d late: %+v", rep.LinesUnread, rep.Late, rep.Unread)
	}
	if rep.AsLogged == nil || rep.AsLogged.Different != 0 {
		t.Fatalf("decided otherwise: %+v", rep.AsLogged)
	}
	if rep.Requests != waves*(wave/workers)*workers || rep.AsLogged.Same+rep.Before+rep.Malformed < rep.Requests {
		t.Errorf("%d requests, %d as they were, %d before rules", rep.Requests, rep.AsLogged.Same, rep.Before)
	}
	refusing := 0
	for _, r := range rep.Rules {
		live := metrics[fmt.Sprintf(`rejected %s`, r.Name)]
		if r.DryRun {
			live = metrics[fmt.Sprintf(`dry_run_rejected %s`, r.Name)]
		}
		live += metrics["blocked "+r.Name]
		if float64(r.Refused) != live || float64(r.Units) != metrics["units "+r.Name] {
			t.Errorf("%s: %d refused, %d units; the metrics say %v and %v", r.Name, r.Refused, r.Units, live, metrics["units "+r.Name])
		}
		if r.Refused > 0 {
			refusing++
		}
		t.Logf("%s: %d of %d refused", r.Name, r.Refused, r.Requests)
	}
	if refusing < 6 {
		t.Errorf("only %d rules refused anything: that shows little", refusing)
	}
	t.Attr("replay", fmt.Sprintf("%d requests, %d refused, every decision as it was", rep.Requests, rep.Refused))
}

// A dry run and a candidate on the live gateway, and a replay of its log, say the
// same: so do rules that are enforced in the replay, when nothing else refuses.
func TestDryRunAndCandidateReportWhatAReplayDoes(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			w.WriteHeader(401)
		}
	}))
	defer up.Close()
	const file = `
trusted_proxies: [127.0.0.1/32]
upstream: UPSTREAM
rules:
  - name: per-ip
    limit: 20/h
    candidate: { limit: 5/h }
    dry_run: true
  - name: per-key
    key: header.X-API-Key
    missing: skip
    limit: 8/h
    dry_run: true
  - name: login
    match: POST /login
    limit: 3/h
    count: { status: 401 }
    dry_run: true
`
	g := serve(t, ports+strings.ReplaceAll(file, "UPSTREAM", up.URL))
	r := rand.New(rand.NewPCG(3, 4))
	const requests = 400
	for range requests {
		method, path := "GET", "/"
		if r.IntN(4) == 0 {
			method, path = "POST", "/login"
		}
		req, _ := http.NewRequest(method, "http://"+g.addr+path, nil)
		req.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", min(r.IntN(40), r.IntN(40))))
		if r.IntN(3) == 0 {
			req.Header.Set("X-API-Key", strconv.Itoa(r.IntN(5)))
		}
		res, err := g.client.Do(req)
		do(t, err)
		res.Body.Close()
		if res.StatusCode == 429 {
			t.Fatal("a dry run refuses")
		}
	}
	eventually(t, "the log is written", func() bool { return logged(g.out.String()) >= requests })
	live := g.ruleFigures()
	dir := t.TempDir()
	path, enforced := filepath.Join(dir, "access.log"), filepath.Join(dir, "enforced.yaml")
	write(t, path, g.out.String())

	rep := replayed(t, path, "-c", g.path)
	if rep.AsLogged == nil || rep.AsLogged.Different != 0 || rep.AsLogged.Same != requests {
		t.Errorf("as logged: %+v", rep.AsLogged)
	}
	for _, r := range rep.Rules {
		if r.Refused == 0 || float64(r.Refused) != live["dry_run_rejected "+r.Name] {
			t.Errorf("%s: %d would be refused, the live gateway says %v", r.Name, r.Refused, live["dry_run_rejected "+r.Name])
		}
		if c := r.Candidate; c != nil && (c.Refused == 0 || float64(c.Refused) != live["candidate_rejected "+r.Name]) {
			t.Errorf("%s: its candidate would refuse %d, the live gateway says %v", r.Name, c.Refused, live["candidate_rejected "+r.Name])
		}
	}
	if rep.Rules[0].Candidate == nil {
		t.Error("no candidate")
	}
	// Each rule alone, enforced.
	for i, name := range []string{"per-ip", "per-key", "login"} {
		text := strings.ReplaceAll(strings.ReplaceAll(file, "UPSTREAM", up.URL), "    dry_run: true\n", "")
		var rules []string
		for _, one := range strings.Split(text, "  - name: ")[1:] {
			if strings.HasPrefix(one, name+"\n") {
				rules = append(rules, "  - name: "+one)
			}
		}
		write(t, enforced, strings.Split(text, "  - name: ")[0]+strings.Join(rules, ""))
		alone := replayed(t, path, "-c", enforced)
		if r := alone.Rules[0]; r.Refused != rep.Rules[i].Refused || r.Requests != rep.Rules[i].Requests || alone.Refused != r.Refused {
			t.Errorf("%s enforced: %d of %d refused, in a dry run %d of %d", name, r.Refused, r.Requests, rep.Rules[i].Refused, rep.Rules[i].Requests)
		}
	}
}

// askOneOf sends one of many kinds of requests.
func askOneOf(t *testing.T, g *instance, r *rand.Rand) {
	method, path, body := "GET", "/", ""
	switch r.IntN(7) {
	case 0:
		path = "/slow/" + strconv.Itoa(r.IntN(3))
	case 1:
		method, path, body = "POST", "/login", "username=u"+strconv.Itoa(r.IntN(20))
		if r.IntN(8) == 0 {
			body = "name=x" // without the key: 400
		}
	case 2:
		path = "/search/" + string(rune('a'+r.IntN(4))) + "?q=1"
	case 3:
		path = "/u/" + strconv.Itoa(r.IntN(8)) + []string{"", "/big", "/small"}[r.IntN(3)] // which the log blanks
	case 4:
		path = "/q"
	case 5:
		path = "/a/%41/../../c" + strconv.Itoa(r.IntN(50))
	}
	req, _ := http.NewRequest(method, "http://"+g.addr+path, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", r.IntN(6)))
	if r.IntN(2) == 0 {
		req.Header.Set("X-API-Key", []string{"p-1", "p-2", "k-1", "k-2", "k-3"}[r.IntN(5)])
	}
	if r.IntN(30) == 0 {
		req.Header.Set("X-Exempt", "1")
	}
	res, err := g.client.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

var countField = regexp.MustCompile(`,"count":(\d+)`)

// logged counts the requests that a log tells of.
func logged(text string) (n int) {
	for line := range strings.Lines(text) {
		if m := countField.FindStringSubmatch(line); m != nil {
			more, _ := strconv.Atoi(m[1])
			n += more - 1
		}
		if strings.HasSuffix(line, "}\n") {
			n++
		}
	}
	return n
}

// ruleFigures adds to the metrics those of each rule, all tiers together, by what
// they count and the name of the rule.
func (g *instance) ruleFigures() map[string]float64 {
	all := g.metrics()
	decision := regexp.MustCompile(`^gateway_rule_decisions_total\{result="(\w+)",rule="([^"]+)",tier="[^"]*"\}$`)
	units := regexp.MustCompile(`^gateway_rule_units_total\{rule="([^"]+)"\}$`)
	for name, n := range maps.Clone(all) {
		if m := decision.FindStringSubmatch(name); m != nil {
			all[m[1]+" "+m[2]] += n
		} else if m := units.FindStringSubmatch(name); m != nil {
			all["units "+m[1]] += n
		}
	}
	return all
}

// replayed runs `gateway replay --json`, which must succeed.
func replayed(t *testing.T, args ...string) *replay.Report {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"replay", "--json"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	var rep replay.Report
	do(t, json.Unmarshal(out, &rep))
	return &rep
}
