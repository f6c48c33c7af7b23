package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// smuggled is what an attacker hides behind a request, to be read as the next
// one by an upstream that took the first for a tunnel.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: api.example.com\r\n\r\n"

// tunnelSite has one unit for the requests of a test, and an upstream that would
// show each request it reads.
func tunnelSite(t *testing.T) (*site, *recorder) {
	up := record(t)
	return newSite(t, "upstream: "+up.url+"\nrules: [{ name: all, key: global, limit: 1/h }]\n", nil), up
}

// unmetered returns how many requests the upstream saw beyond those that were
// paid for, and fails if there are any, or more than most.
func (s *site) unmetered(t *testing.T, up *recorder, most int) int {
	t.Helper()
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	got, paid := up.targets(), int(s.gateway.Current().rules.Rules[0].Base.Live.Allowed.Load())
	if len(got) > min(most, paid) {
		t.Errorf("the upstream saw %q, of which %d were paid for, and at most %d should be there", got, paid, most)
	}
	return max(0, len(got)-paid)
}

func TestConnectIsRefusedBeforeAnythingElse(t *testing.T) {
	tries, unpaid := 0, 0
	for _, row := range []struct {
		head   string
		behind bool // what stands behind it is another request
	}{
		// What is pipelined behind a refused CONNECT is a request like any other: it
		// takes the one unit there is.
		{"CONNECT a.example:22 HTTP/1.1\r\nHost: a.example:22\r\n\r\n" + smuggled, true},
		{"CONNECT a.example:22 HTTP/1.1\r\nHost: a.example:22\r\nContent-Length: " + fmt.Sprint(len(smuggled)) + "\r\n\r\n" + smuggled, false},
		{"CONNECT / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x", len(smuggled)) + "\r\n" + smuggled + "\r\n0\r\n\r\n", false},
		{"CONNECT a.example:22 HTTP/1.1\r\nHost: a.example:22\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", false},
	} {
		s, up := tunnelSite(t)
		head := row.head
		w := s.dial()
		w.send(head)
		r := w.mustAnswer("CONNECT-is-refused")
		if r.StatusCode != 405 {
			t.Errorf("%q: %d, want 405", head, r.StatusCode)
		}
		if !r.Close {
			w.send(after) // what is behind it has come as far as it will
		}
		for ok := true; ok; {
			_, ok = w.answer("GET")
		}
		w.Close()
		tries++
		unpaid += s.unmetered(t, up, 1)
		if !row.behind && slices.Contains(up.targets(), "/smuggled") {
			t.Errorf("%q: its body was taken for a request", head)
		}
	}
	t.Attr("S07", fmt.Sprintf("CONNECT: %d unmetered of %d tries", unpaid, tries))
}

func TestConnectOverHTTP2WithARequestInItsBodyIsRefused(t *testing.T) {
	s, up := tunnelSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "CONNECT", "http://"+s.addr, strings.NewReader(smuggled))
	req.Host = "a.example:22"
	res, err := h2c(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 405 {
		t.Errorf("%d, want 405", res.StatusCode)
	}
	t.Attr("S07", fmt.Sprintf("CONNECT over HTTP/2: %d unmetered", s.unmetered(t, up, 0)))
}

func TestNoUpgradeButAWebSocketReachesTheUpstream(t *testing.T) {
	const h = "Host: api.example.com\r\n"
	tries, unpaid := 0, 0
	for _, row := range []struct {
		name, text string
		want       int
	}{
		{"h2c nominated", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", 200},
		{"h2c bare settings", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", 200},
		{"h2c without settings", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200},
		{"settings alone", "GET / HTTP/1.1\r\n" + h + "HTTP2-Settings: AAMAAABk\r\n\r\n", 200},
		{"another protocol", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: foo\r\n\r\n", 200},
		{"TLS in the middle", "OPTIONS / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n", 200},
		{"a list", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", 200},
		{"two lines", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n", 200},
		{"not nominated", "GET / HTTP/1.1\r\n" + h + "Upgrade: websocket\r\n\r\n", 200},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 200},
		{"POST h2c with a body", "POST / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 49\r\n\r\n" + smuggled, 200},
		{"POST websocket with a body", "POST / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 49\r\n\r\n" + smuggled, 400},
		{"POST websocket", "POST / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400},
		{"GET websocket with a length", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 49\r\n\r\n" + smuggled, 400},
		{"GET websocket chunked", "GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: WebSocket\r\nTransfer-Encoding: chunked\r\n\r\n31\r\n" + smuggled + "\r\n0\r\n\r\n", 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, up := tunnelSite(t)
			w := s.dial()
			w.send(row.text)
			if got := w.mustAnswer(row.text[:3]).StatusCode; got != row.want {
				t.Errorf("%d, want %d", got, row.want)
			}
			tries++
			unpaid += s.unmetered(t, up, 1)
			for _, head := range up.all() {
				if low := strings.ToLower(head); strings.Contains(low, "upgrade") || strings.Contains(low, "http2-settings") {
					t.Errorf("the upstream was asked to switch:\n%s", head)
				}
			}
		})
	}
	t.Attr("S07", fmt.Sprintf("upgrades: %d unmetered of %d tries", unpaid, tries))
}

func TestATunnelNobodyAskedForIsNotMade(t *testing.T) {
	// The upstream answers 101 whatever it is asked, and would read what follows.
	s := newSite(t, openRules, func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
		time.AfterFunc(patience, func() { c.Close() })
		io.Copy(io.Discard, c)
		c.Close()
	})
	for _, header := range [][]string{
		nil, {"Upgrade: h2c"}, {"Connection: Upgrade", "Upgrade: foo"},
	} {
		if r := s.get("/", header...); r.StatusCode != 502 || r.Header.Get("Upgrade") != "" {
			t.Errorf("%q: %d, Upgrade %q, want 502", header, r.StatusCode, r.Header.Get("Upgrade"))
		}
	}
}

func TestMethodsThatAreNoneAreRefusedAndOddOnesAreMetered(t *testing.T) {
	tries, unpaid := 0, 0
	for _, row := range []struct {
		line string
		want int
	}{
		{"OPTIONS * HTTP/1.1", 400}, {"GET * HTTP/1.1", 400}, {"PRI * HTTP/2.0", 400}, {"PRI / HTTP/1.1", 400}, {"PRI * HTTP/1.1", 400},
		{"GE(T / HTTP/1.1", 400}, {" / HTTP/1.1", 400}, {"GET\t/ HTTP/1.1", 400}, {"G\xc3\x89T / HTTP/1.1", 400},
		{"GET / HTTP/3.0", 505}, {"GET / HTTP/0.9", 505}, {"GET / HTTP/1.2", 200}, {"GET /", 400}, {"GET / HTTP/1.1 x", 400}, {"GET  / HTTP/1.1", 400}, {"GET / FTP/1.1", 400},
		{"TRACE / HTTP/1.1", 200}, {"get / HTTP/1.1", 200}, {"M-SEARCH / HTTP/1.1", 200}, {strings.Repeat("X", 200) + " / HTTP/1.1", 200}, {"OPTIONS / HTTP/1.1", 200},
	} {
		t.Run(strings.ReplaceAll(row.line[:min(20, len(row.line))], "/", "_"), func(t *testing.T) {
			s, up := tunnelSite(t)
			for i := range 2 {
				want := row.want
				if i == 1 && want == 200 {
					want = 429
				}
				r := s.raw(row.line + "\nHost: api.example.com\nConnection: close\n\n")
				if r.StatusCode != want {
					t.Errorf("%q, time %d: %d, want %d", row.line, i+1, r.StatusCode, want)
				}
			}
			paid := 0
			if row.want == 200 {
				paid = 1
			}
			tries++
			unpaid += s.unmetered(t, up, paid)
			if row.want != 200 {
				if r := s.get("/"); r.StatusCode != 200 {
					t.Errorf("a refused request was charged: the next got %d", r.StatusCode)
				}
			}
		})
	}
	t.Attr("S07", fmt.Sprintf("methods, PRI and OPTIONS *: %d unmetered of %d tries", unpaid, tries))
}
