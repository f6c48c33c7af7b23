package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const failedLogins = `
upstream: UPSTREAM
rules:
  - name: login
    match: POST /login
    limit: 5/h
    algorithm: sliding_window_log
    count: { status: 401 }
`

func login(s *site, password string) reply {
	return s.raw("POST /login HTTP/1.1\nHost: a\nConnection: close\nContent-Length: " + strconv.Itoa(len(password)) + "\n\n" + password)
}

// passwords answers 401 unless the body is "right".
func passwords(w http.ResponseWriter, r *http.Request) {
	if b, _ := io.ReadAll(r.Body); string(b) != "right" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func TestOnlyCountedAnswersUseUpTheLimit(t *testing.T) {
	s := newSite(t, failedLogins, passwords)
	for range 20 {
		if r := login(s, "right"); r.StatusCode != 200 {
			t.Fatalf("a good login: %d", r.StatusCode)
		}
		s.idle() // what is given back is given back when the exchange has ended
	}
	for i := range 5 {
		if r := login(s, "wrong"); r.StatusCode != 401 {
			t.Fatalf("bad login %d: %d, want 401", i, r.StatusCode)
		}
	}
	if r := login(s, "right"); r.StatusCode != 429 || r.Header.Get("Retry-After") != "3600" {
		t.Errorf("after five bad logins: %d, Retry-After %q, want 429 and 3600", r.StatusCode, r.Header.Get("Retry-After"))
	}
}

// 200 guesses at once: none of them may slip through between the check and the
// answer that counts. While they are in flight a refusal says to try in a second.
func TestParallelGuessesCannotPassTheLimit(t *testing.T) {
	release := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(5)
	s := newSite(t, failedLogins, func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		<-release
		passwords(w, r)
	})
	var wg sync.WaitGroup
	var got tally
	var once sync.Once
	for range 200 {
		wg.Go(func() {
			r := login(s, "wrong")
			got.n[r.StatusCode].Add(1)
			if after := r.Header.Get("Retry-After"); r.StatusCode == 429 && after != "1" {
				t.Errorf("Retry-After %s while units are reserved, want 1", after)
			}
			if got.n[429].Load() == 195 {
				arrived.Wait()
				once.Do(func() { close(release) })
			}
		})
	}
	wg.Wait()
	if got.n[401].Load() != 5 || got.n[429].Load() != 195 {
		t.Errorf("%v, want 5×401 195×429", &got)
	}
}

func TestAClientThatLeavesGetsNothingBack(t *testing.T) {
	s := newSite(t, failedLogins, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // until the client has left
	})
	for range 5 {
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+"/login", strings.NewReader("wrong"))
		before := len(s.requests())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
				res.Body.Close()
			}
		}()
		eventually(t, "the upstream has the request", func() bool { return len(s.requests()) > before })
		cancel()
		<-done
	}
	eventually(t, "all requests have ended", func() bool { return s.gateway.InFlight() == 0 })
	if r := login(s, "right"); r.StatusCode != 429 {
		t.Errorf("after five hang-ups: %d, want 429", r.StatusCode)
	}
	// A malformed body does not come for free either.
	s2 := newSite(t, failedLogins, passwords)
	for range 5 {
		if r := s2.raw("POST /login HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nzz\n"); r.StatusCode != 400 {
			t.Fatalf("bad chunk: %d, want 400", r.StatusCode)
		}
	}
	if r := login(s2, "right"); r.StatusCode != 429 {
		t.Errorf("after five malformed bodies: %d, want 429", r.StatusCode)
	}
}

func TestAnUpstreamThatFailsGivesBackWhatCountReserved(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	s := newSite(t, strings.ReplaceAll(failedLogins, "UPSTREAM", "http://"+dead), nil)
	for i := range 20 {
		if r := login(s, "wrong"); r.StatusCode != 502 {
			t.Fatalf("request %d: %d, want 502", i, r.StatusCode)
		}
	}
}

// 3/h, and at most 3 refunds an hour: of upstream failures the first three are
// free, the next three count, and then the limit is used up.
func TestRefundsAreBoundedByTheLimit(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - name: calls
    limit: 3/h
    algorithm: fixed_window
    refund: { status: 5xx, upstream_error: true }
`, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	var got []string
	for range 8 {
		got = append(got, strconv.Itoa(s.get("/").StatusCode))
	}
	if text, want := strings.Join(got, " "), "500 500 500 500 500 500 429 429"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// 100 units: a request reserves 1 and is charged what its answer says, at most 40.
func TestTheAnswerSaysWhatARequestCosts(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - name: units
    limit: 100/h
    algorithm: fixed_window
    cost: { header: X-Cost, reserve: 1, max: 40 }
`, func(w http.ResponseWriter, r *http.Request) {
		if cost := r.URL.Query().Get("cost"); cost != "" {
			w.Header().Set("X-Cost", cost)
		}
	})
	for _, tt := range []struct {
		query string
		left  string // after the reservation of this request: what the header shows
	}{
		{"?cost=10", "99"},  // 90 left when it is settled
		{"?cost=0", "89"},   // gives its one back: 90
		{"", "89"},          // keeps the reserve: 89
		{"?cost=-5", "88"},  // cannot be read: keeps the reserve: 88
		{"?cost=999", "87"}, // charged the most, 40: 48
		{"?cost=40", "47"},  // 8
		{"?cost=40", "7"},   // into debt: -32
	} {
		r := s.get("/" + tt.query)
		eventually(t, "settled", func() bool { return s.gateway.InFlight() == 0 })
		if want := `"units";r=` + tt.left + ";"; r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("RateLimit"), want) {
			t.Errorf("%q: %d, RateLimit %q, want 200 and %s…", tt.query, r.StatusCode, r.Header.Get("RateLimit"), want)
		}
	}
	if r := s.get("/"); r.StatusCode != 429 {
		t.Errorf("in debt: %d, want 429", r.StatusCode)
	}
}

func TestARuleThatAlwaysGivesBackIsWarnedOfOnce(t *testing.T) {
	var logged lines
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: odd, limit: 10000/s, count: { status: 418 } }]\n", nil)
	s.gateway.log = newTestLogger(&logged)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				if res, err := client.Get("http://" + s.addr + "/"); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "all requests have ended", func() bool { return s.gateway.InFlight() == 0 })
	if n := strings.Count(strings.Join(logged.all(), "\n"), "given back every unit"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}
