package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// upstream is an API that counts what reaches it, by path.
type upstream struct {
	*httptest.Server
	mu    sync.Mutex
	paths map[string]int
}

// newUpstream answers with handler, or with "ok".
func newUpstream(t testing.TB, handler http.HandlerFunc) *upstream {
	u := &upstream{paths: map[string]int{}}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.paths[r.URL.Path]++
		u.mu.Unlock()
		if handler != nil {
			handler(w, r)
			return
		}
		io.WriteString(w, "ok")
	}))
	t.Cleanup(u.Close)
	return u
}

// total returns how many requests have come.
func (u *upstream) total() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, c := range u.paths {
		n += c
	}
	return n
}

func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 200},
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// request sends a request with header lines like "X-Key: a".
func request(c *http.Client, method, url string, header ...string) (answer, error) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return answer{}, err
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Add(name, value)
		}
	}
	res, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body)}, err
}

// try sends a request through the gateway.
func (g *instance) try(method, path string, header ...string) (answer, error) {
	return request(g.client, method, "http://"+g.addr+path, header...)
}

// get asks for path through the gateway, and must get an answer.
func (g *instance) get(path string, header ...string) answer {
	g.t.Helper()
	a, err := g.try("GET", path, header...)
	do(g.t, err)
	return a
}

// control asks the admin listener.
func (g *instance) control(method, path string, header ...string) answer {
	g.t.Helper()
	a, err := request(g.client, method, "http://"+g.admin+path, header...)
	do(g.t, err)
	return a
}

// statuses sends n requests, `at once` from so many goroutines as given, and
// counts the answers. header may be nil; it gets the number of the request.
func (g *instance) statuses(n, goroutines int, path string, header func(i int) []string) map[int]int {
	g.t.Helper()
	var mu sync.Mutex
	counts := map[int]int{}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				var lines []string
				if header != nil {
					lines = header(int(i))
				}
				a, err := g.try("GET", path, lines...)
				if err != nil {
					g.t.Error(err)
				}
				mu.Lock()
				counts[a.status]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return counts
}

// policy is one item of RateLimit-Policy and RateLimit.
type policy struct {
	name      string
	q, w      int64
	remaining int64 // -1: none
	reset     int64
}

var policyItem = regexp.MustCompile(`"([^"]+)";q=(\d+);w=(\d+)`)
var rateItem = regexp.MustCompile(`"([^"]+)";r=(\d+);t=(\d+)`)

// policies reads the limit headers of an answer, in their order.
func (a answer) policies() []policy {
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	var list []policy
	for _, m := range policyItem.FindAllStringSubmatch(strings.Join(a.header.Values("Ratelimit-Policy"), ", "), -1) {
		list = append(list, policy{name: m[1], q: number(m[2]), w: number(m[3]), remaining: -1})
	}
	for _, m := range rateItem.FindAllStringSubmatch(strings.Join(a.header.Values("Ratelimit"), ", "), -1) {
		for i := range list {
			if list[i].name == m[1] {
				list[i].remaining, list[i].reset = number(m[2]), number(m[3])
			}
		}
	}
	return list
}

// of returns the item of a rule.
func (a answer) of(rule string) policy {
	for _, p := range a.policies() {
		if p.name == rule {
			return p
		}
	}
	return policy{remaining: -1}
}

// retryAfter returns Retry-After, which must be a whole number from 1.
func (a answer) retryAfter(t testing.TB) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || n < 1 {
		t.Fatalf("Retry-After %q of %d, want a whole number from 1", a.header.Get("Retry-After"), a.status)
	}
	return time.Duration(n) * time.Second
}

// metrics reads /metrics: series as written there -> value.
func (g *instance) metrics() map[string]float64 {
	g.t.Helper()
	m := map[string]float64{}
	for line := range strings.SplitSeq(g.control("GET", "/metrics").body, "\n") {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			v, err := strconv.ParseFloat(line[i+1:], 64)
			do(g.t, err)
			m[line[:i]] = v
		}
	}
	return m
}

// want returns an error unless a has the status.
func (a answer) want(status int) error {
	if a.status != status {
		return fmt.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	return nil
}
