package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger counts how often each request id was seen.
type ledger struct {
	mu   sync.Mutex
	seen map[string]int
}

func (l *ledger) record(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]int{}
	}
	l.seen[id]++
}

// check says which ids were seen more than once, and how many there are.
func (l *ledger) check(t *testing.T) int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.seen {
		if n > 1 {
			t.Errorf("id %s was sent %d times", id, n)
		}
	}
	return len(l.seen)
}

func do(t *testing.T, c *http.Client, method, url, id, body string) int {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Id", id)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	read(t, res)
	return res.StatusCode
}

// TestIdleConnectionsClosedByTheUpstreamHurtNoGET goes through the moments
// around the end of the upstream's patience: requests as far apart as that.
func TestIdleConnectionsClosedByTheUpstreamHurtNoGET(t *testing.T) {
	const patience = 5 * time.Millisecond
	var posts ledger
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			posts.record(r.Header.Get("X-Id"))
		}
		io.Copy(io.Discard, r.Body)
	}), func(s *http.Server) { s.IdleTimeout = patience })
	gw, d, _ := front(t, up.URL)
	c := client(t)
	tick := time.NewTicker(patience)
	defer tick.Stop()
	refused := 0
	for i := range 300 {
		<-tick.C
		if code := do(t, c, "GET", gw.URL, "", ""); code != 200 {
			t.Fatalf("GET %d: got %d; failed with %v", i, code, d.failures())
		}
		<-tick.C
		if code := do(t, c, "POST", gw.URL, string(rune('a'+i%26))+strings.Repeat("x", i/26), "body"); code == 502 {
			refused++
		} else if code != 200 {
			t.Fatalf("POST %d: got %d", i, code)
		}
	}
	if n := posts.check(t); n < 300-refused {
		t.Errorf("got %d ids of %d POSTs answered 200", n, 300-refused)
	}
	t.Logf("%d of 300 POSTs met a closed connection", refused)
}

func TestPOSTThatMeetsItsDeathIsSentOnce(t *testing.T) {
	var got ledger
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for n := 0; ; n++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			if req.Method == "POST" || req.Method == "PUT" {
				got.record(req.Header.Get("X-Id"))
				return // dies without an answer
			}
			io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	gw, _, _ := front(t, "http://"+addr)
	c := client(t)
	n := 0
	for _, method := range []string{"POST", "PUT"} {
		for _, body := range []string{"", "body"} {
			for range 5 {
				do(t, c, "GET", gw.URL, "", "") // leaves a connection to reuse
				n++
				if code := do(t, c, method, gw.URL, string(rune('a'+n)), body); code != http.StatusBadGateway {
					t.Errorf("%s: got %d, want 502", method, code)
				}
			}
		}
	}
	if seen := got.check(t); seen != n {
		t.Errorf("got %d ids, want %d", seen, n)
	}
}

func TestIdempotencyKeyMakesNoRetry(t *testing.T) {
	var got ledger
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.Method == "POST" {
				got.record(req.Header.Get("Idempotency-Key") + req.Header.Get("X-Idempotency-Key"))
				return
			}
			io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	gw, _, _ := front(t, "http://"+addr)
	c := client(t)
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		get(t, c, gw.URL)
		req, _ := http.NewRequest("POST", gw.URL, nil)
		req.Header.Set(name, name)
		res, err := c.Do(req)
		if err != nil || res.StatusCode != http.StatusBadGateway {
			t.Fatalf("got %v, %v, want 502", res, err)
		}
		read(t, res)
	}
	if n := got.check(t); n != 2 {
		t.Errorf("got %d keys at the upstream, want 2", n)
	}
}

func TestRequestsOfABrokenPoolAreTriedOnTwoServersOnly(t *testing.T) {
	p := newPool(t, spec(t, "http://"+refused(t), "http://"+refused(t), "http://"+refused(t)))
	d := &door{}
	gw := gateway(t, p, d)
	for range 20 {
		if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusBadGateway {
			t.Fatalf("got %d, want 502", res.StatusCode)
		}
	}
	var tries uint64
	in := 0
	for _, s := range p.Stats() {
		tries += s.Failures
		if s.Up {
			in++
		}
		if s.InFlight != 0 {
			t.Errorf("%s: %d in flight", s.URL, s.InFlight)
		}
	}
	if tries != 40 || in != 1 {
		t.Errorf("got %d tries for 20 requests and %d servers in, want 40 and 1", tries, in)
	}
}
