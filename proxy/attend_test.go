package proxy

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

// kept is a connection on which a request has been answered, so that all that comes
// is served as on any connection that is used again.
func (s *site) kept() *wire {
	s.t.Helper()
	w := s.dial()
	w.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := w.mustAnswer("GET"); got.StatusCode != 200 {
		s.t.Fatalf("got %d", got.StatusCode)
	}
	return w
}

// ends checks that the gateway closes the connection, and has nothing more to say.
func (w *wire) ends() {
	w.t.Helper()
	if n, err := io.Copy(io.Discard, w.in); n > 0 || err != nil && !isReset(err) {
		w.t.Errorf("%d bytes and %v, want the end of the connection", n, err)
	}
}

// held is an upstream whose answers to /slow wait, for the end of their request or
// until they are let go.
func held(t testing.TB) (handler http.HandlerFunc, came, left chan string, letGo func()) {
	came, left = make(chan string, 10), make(chan string, 10)
	hold := make(chan bool)
	var once sync.Once
	letGo = func() { once.Do(func() { close(hold) }) }
	t.Cleanup(letGo)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			came <- r.URL.Path
			select {
			case <-hold:
			case <-r.Context().Done():
				left <- r.URL.Path
			}
		}
		io.WriteString(w, "ok")
	}, came, left, letGo
}

func TestAClientThatLeavesAKeptConnection(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*wire){
		"closes":      func(w *wire) { w.Close() },
		"resets":      func(w *wire) { w.SetLinger(0); w.Close() },
		"half-closes": func(w *wire) { w.CloseWrite() },
	} {
		handler, came, left, _ := held(t)
		s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", handler)
		w := s.kept()
		w.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
		<-came
		leave(w)
		select {
		case <-left:
		case <-time.After(patience):
			t.Fatalf("%s: the upstream hears nothing of it", name)
		}
		eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
		eventually(t, name+": it is logged as 499", func() bool { return strings.Contains(strings.Join(s.access.all(), ""), `"status":499`) })
		w.ends()
	}
}

func TestAClientThatLeavesWhileItWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, match: /waits, key: global, limit: 1/m, algorithm: leaky_bucket, max_wait: 1m }]\n", nil)
	w := s.kept()
	for range 2 { // the second one has to wait for a minute
		w.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	w.mustAnswer("GET")
	eventually(t, "it waits", func() bool { return s.gateway.Waiting() == 1 })
	w.Close()
	eventually(t, "nobody waits", func() bool { return s.gateway.Waiting() == 0 && s.gateway.InFlight() == 0 })
}

func TestRequestsThatComeEarlyOnAKeptConnection(t *testing.T) {
	t.Parallel()
	handler, came, _, letGo := held(t)
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", handler)
	w := s.kept()
	w.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n")
	<-came // the rest comes while this one is served
	w.send("GET /two HTTP/1.1\r\nHost: a\r\n\r\nGET /three HTTP/1.1\r\nHost: a\r\n\r\nGET /fo")
	letGo()
	for range 3 {
		if got := w.mustAnswer("GET"); got.body != "ok" {
			t.Errorf("got %d %q", got.StatusCode, got.body)
		}
	}
	w.send("ur HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := w.mustAnswer("GET"); got.body != "ok" {
		t.Errorf("got %d %q", got.StatusCode, got.body)
	}
	var paths []string
	for _, r := range s.requests() {
		paths = append(paths, r.URL.Path)
	}
	if got, want := strings.Join(paths, " "), "/first /one /two /three /four"; got != want {
		t.Errorf("the upstream got %s, want %s", got, want)
	}
}

func TestAnEndRightBehindARequestEndsTheConnection(t *testing.T) {
	t.Parallel()
	// The timeout for idle connections is much longer than the test waits.
	s := newSite(t, "timeouts: { idle: 10m }\nupstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", nil)
	for range 5 {
		w := s.kept()
		w.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		w.CloseWrite()
		if got, ok := w.answer("GET"); ok && got.body != "ok" {
			t.Errorf("got %d %q", got.StatusCode, got.body)
		}
		w.ends()
	}
}

func TestTimeoutsOfKeptConnections(t *testing.T) {
	t.Parallel()
	s := newSite(t, "timeouts: { idle: 3s, read_header: 2s }\nupstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", nil)
	for _, sent := range []string{"", "GET / HTTP/1.1\r\n"} {
		w := s.kept()
		begin := time.Now()
		for range 3 {
			begin = time.Now()
			w.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			w.mustAnswer("GET")
		}
		w.send(sent)
		w.ends()
		if took := time.Since(begin); sent == "" && took < 3*time.Second {
			t.Errorf("an idle connection was closed after %v, want 3s", took)
		}
	}
}

func TestAWebSocketOnAKeptConnection(t *testing.T) {
	t.Parallel()
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		for {
			head, err := readHead(in)
			if err != nil {
				return
			}
			if !strings.Contains(head, "Upgrade: websocket") {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			}
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			io.Copy(c, in)
			return
		}
	})
	s := newSite(t, "upstream: http://"+up+"\nrules: [{ name: all, limit: 1000/h }]\n", nil)
	w := s.kept()
	w.send("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly ")
	if res, err := http.ReadResponse(w.in, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("got %v, %v", res, err)
	}
	for i := range 50 {
		w.send("x")
		if i == 20 {
			time.Sleep(60 * time.Millisecond) // longer than anybody waits to look
		}
	}
	w.CloseWrite()
	if got, err := io.ReadAll(w.in); err != nil || string(got) != "early "+strings.Repeat("x", 50) {
		t.Errorf("got %q, %v", got, err)
	}
}
