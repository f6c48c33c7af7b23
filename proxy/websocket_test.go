package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// echo is an upstream that takes a WebSocket handshake on /ws, refuses one on
// /no, and then returns each byte it gets.
func echo(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/no" {
		http.Error(w, "not you", http.StatusForbidden)
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		io.WriteString(w, "ok")
		return
	}
	c, brw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Theirs: 1\r\n\r\n")
	io.Copy(c, brw)
}

// handshake asks for a WebSocket; early is sent in the same packet.
func (w *wire) handshake(path, early string, header ...string) *http.Response {
	w.t.Helper()
	if len(header) == 0 {
		header = []string{"Connection: Upgrade", "Upgrade: websocket"}
	}
	w.send("GET " + path + " HTTP/1.1\r\nHost: api.example.com\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
		strings.Join(header, "\r\n") + "\r\n\r\n" + early)
	res, err := http.ReadResponse(w.in, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// expect reads exactly want.
func (w *wire) expect(want string) {
	w.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(w.in, got)
	if string(got[:n]) != want {
		w.t.Fatalf("got %d bytes %.100q (%v), want %d %.100q", n, got[:n], err, len(want), want)
	}
}

func TestAWebSocketIsATunnelWithOneUnitAndOneLine(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: per-ip, limit: 5/h }]\n", echo)
	for i, header := range [][]string{
		{"connection: keep-alive, upgrade", "UPGRADE: WebSocket"},
		{"Connection: Upgrade", "Upgrade: websocket"},
		{"CONNECTION: keep-alive", "Connection: UPGRADE", "upgrade: WEBSOCKET"},
	} {
		w := s.dial()
		res := w.handshake("/ws?token=canary", "frame-0;", header...)
		if res.StatusCode != 101 || res.Header.Get("X-Theirs") != "1" {
			t.Fatalf("%q: %d %v", header, res.StatusCode, res.Header)
		}
		// 5/h with one, two, three taken; one unit comes back each 720 s.
		want := []string{`"per-ip";r=4;t=720`, `"per-ip";r=3;t=1440`, `"per-ip";r=2;t=2160`}[i]
		if got := res.Header.Values("RateLimit"); len(got) != 1 || got[0] != want {
			t.Errorf("RateLimit %q on the 101, want %q", got, want)
		}
		if got := res.Header.Values("RateLimit-Policy"); len(got) != 1 || got[0] != `"per-ip";q=5;w=3600` {
			t.Errorf("RateLimit-Policy %q on the 101", got)
		}
		if res.Header.Get("X-Request-Id") == "" {
			t.Error("no X-Request-Id on the 101")
		}
		w.expect("frame-0;")
		w.send("frame-1;")
		w.expect("frame-1;")
		w.send("frame-2;")
		w.expect("frame-2;")
		if n := s.gateway.InFlight(); n != 1 {
			t.Errorf("%d in flight while one tunnel is open", n)
		}
		time.Sleep(30 * time.Millisecond) // makes the duration below one that can be told from 0
		w.CloseWrite()
		if rest, err := io.ReadAll(w.in); err != nil || len(rest) > 0 {
			t.Errorf("behind the frames came %q, %v", rest, err)
		}
		e := s.entries(i + 1)[i]
		if e["status"] != 101.0 || e["bytes"] != 24.0 || e["duration"].(float64) < 0.03 || e["path"] != "/ws?token=***" || e["result"] != "allowed" {
			t.Errorf("access line %v", e)
		}
	}
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	if got := len(s.entries(3)); got != 3 {
		t.Errorf("%d access lines for 3 tunnels", got)
	}
	if n := s.gateway.Current().pools["default"].Stats()[0].InFlight; n != 0 {
		t.Errorf("the server has %d in flight at the end", n)
	}
}

func TestARefusedUpgradeIsAnOrdinaryAnswer(t *testing.T) {
	s := newSite(t, fivePerHour, echo)
	for range 3 {
		w := s.dial()
		res := w.handshake("/no", "")
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != 403 || string(body) != "not you\n" || len(res.Header.Values("RateLimit")) != 1 {
			t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
		}
		// The connection is a plain one still.
		w.send("GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
		w.mustAnswer("GET")
		w.Close()
	}
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
}

func TestAWebSocketOverTheLimitIsRefusedLikeAnyRequest(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: one, limit: 1/h }]\n", echo)
	if got := s.dial().handshake("/ws", "x").StatusCode; got != 101 {
		t.Fatalf("%d", got)
	}
	w := s.dial()
	res := w.handshake("/ws", "")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" || res.Header.Get("Upgrade") != "" {
		t.Errorf("%d %v, want 429", res.StatusCode, res.Header)
	}
}

func TestAMegabyteInOnePacketWithTheHandshakeArrivesOnce(t *testing.T) {
	s := newSite(t, openRules, echo)
	early := strings.Repeat("0123456789abcdef", 1<<16)
	w := s.dial()
	go w.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + early)
	if res, err := http.ReadResponse(w.in, nil); err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	w.expect(early)
	w.CloseWrite()
	if rest, _ := io.ReadAll(w.in); len(rest) > 0 {
		t.Errorf("%d bytes more than were sent", len(rest))
	}
}

func TestATunnelEndsWhenItsServerGoes(t *testing.T) {
	gone := make(chan net.Conn, 1)
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := readHead(in); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbye")
		gone <- c
	})
	s := newSite(t, "upstream: http://"+up+"\nrules: []\n", nil)
	w := s.dial()
	w.handshake("/ws", "")
	w.expect("bye")
	(<-gone).Close()
	if _, err := w.in.ReadByte(); err == nil {
		t.Error("the tunnel went on without a server")
	}
	w.Close() // until then the client might have something to say
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
}

func TestAQuietTunnelIsClosedAndABusyOneLives(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { tunnel: 5s }\n"+openRules, echo)
	quiet, busy := s.dial(), s.dial()
	quiet.handshake("/ws", "")
	busy.handshake("/ws", "")
	closed := make(chan error, 1)
	go func() { _, err := quiet.in.ReadByte(); closed <- err }()
	for done := false; !done; {
		busy.send("x")
		busy.expect("x")
		select {
		case err := <-closed:
			if err == nil {
				t.Error("the quiet tunnel spoke")
			}
			done = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	busy.send("y")
	busy.expect("y")
}
