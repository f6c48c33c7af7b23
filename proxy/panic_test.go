package proxy

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
)

// breaking serves the gateway of s with a fault in one place for requests below
// /boom: "dial" panics in the transport on the way to the upstream, "write" in
// the ResponseWriter, in the middle of an answer.
func (s *site) breaking(t *testing.T) string {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/boom/dial":
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GetConn: func(string) { panic("injected") }}))
		case "/boom/write":
			w = &fragile{ResponseWriter: w}
		}
		s.gateway.ServeHTTP(w, r)
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Config.ErrorLog = discard()
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// fragile is a ResponseWriter that panics at its second write.
type fragile struct {
	http.ResponseWriter
	writes atomic.Int64
}

func (f *fragile) Write(p []byte) (int, error) {
	if f.writes.Add(1) == 2 {
		panic("injected")
	}
	return f.ResponseWriter.Write(p)
}

func (f *fragile) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func TestAPanicEndsItsRequestAndNothingElse(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", func(w http.ResponseWriter, _ *http.Request) {
		for range 10 {
			io.WriteString(w, strings.Repeat("x", 20<<10))
			http.NewResponseController(w).Flush()
		}
	})
	heard := &lines{}
	s.gateway.log = slog.New(slog.NewJSONHandler(heard, nil))
	url := s.breaking(t)
	n := 0
	both(t, func(t *testing.T, c *http.Client) {
		for range 5 {
			for _, path := range []string{"/boom/dial", "/boom/write"} {
				n++
				res, err := c.Post(url+path, "text/plain", strings.NewReader("hello"))
				if err != nil {
					if path != "/boom/write" {
						t.Error(err)
					}
					continue
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if path == "/boom/write" {
					if err == nil {
						t.Errorf("%d and %d bytes with a clean end", res.StatusCode, len(body))
					}
				} else if p := problemOf(t, reply{res, string(body)}); res.StatusCode != 500 || p["status"] != 500.0 || strings.Contains(string(body), "injected") {
					t.Errorf("before anything went out: %d %s", res.StatusCode, body)
				}
			}
			n++
			res, err := c.Get(url + "/fine")
			if err != nil {
				t.Fatal(err)
			}
			if size, err := io.Copy(io.Discard, res.Body); size != 200<<10 || err != nil || res.StatusCode != 200 {
				t.Errorf("the next request: %d, %d bytes, %v", res.StatusCode, size, err)
			}
			res.Body.Close()
		}
	})
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	for _, r := range s.gateway.Routes() {
		if r.InFlight != 0 {
			t.Errorf("route %s has %d in flight", r.Route, r.InFlight)
		}
	}
	eventually(t, "the server has nothing in flight", func() bool { return s.gateway.Current().pools["default"].Stats()[0].InFlight == 0 })
	all := heard.all()
	if len(all) != 20 {
		t.Errorf("%d lines in the log for 20 panics", len(all))
	}
	for _, line := range all {
		if !strings.Contains(line, `"level":"ERROR"`) || !strings.Contains(line, `"panic":"injected"`) || !strings.Contains(line, "panic_test.go") {
			t.Errorf("a panic is logged as %.300s", line)
		}
	}
	if got := len(s.entries(n)); got != n {
		t.Errorf("%d access lines for %d requests", got, n)
	}
	if got := s.gateway.Current().rules.Rules[0].Live.Units.Load(); got != int64(n) {
		t.Errorf("%d units for %d requests", got, n)
	}
}

func TestAnAnswerThatBreaksOffIsNoCrash(t *testing.T) {
	up := listen4(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := readHead(in); err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		}
	})
	s := newSite(t, "upstream: http://"+up+"\nrules: []\n", nil)
	for i := range 20 {
		w := s.dial()
		w.send(get + "\r\n")
		if res, err := http.ReadResponse(w.in, nil); err == nil {
			if _, err := io.ReadAll(res.Body); err == nil {
				t.Error("a clean end")
			}
		}
		if e := s.entries(i + 1)[i]; e["status"] != 200.0 || e["bytes"] != 4.0 {
			t.Errorf("access line %v, want 200 with the 4 bytes that came", e)
		}
	}
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
}
