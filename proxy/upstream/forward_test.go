package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gateway/rules"
)

func TestClientThatHangsUpIsFeltByTheUpstreamAtOnce(t *testing.T) {
	came, left := make(chan struct{}, 100), make(chan struct{}, 100)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		came <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}))
	for _, server := range []string{up.URL, strings.Replace(up.URL, "http:", "h2c:", 1)} {
		gw, d, p := front(t, server)
		for proto, c := range map[string]*http.Client{"HTTP/1.1": client(t), "HTTP/2": h2cClient(t)} {
			for _, body := range []string{"", "body"} {
				ctx, hangUp := withCancel(t)
				req, _ := http.NewRequestWithContext(ctx, "POST", gw.URL, strings.NewReader(body))
				done := make(chan error, 1)
				go func() {
					_, err := c.Do(req)
					done <- err
				}()
				receive(t, "the request", came)
				began := time.Now()
				hangUp()
				receive(t, "the upstream's cancel", left)
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("%s: the upstream felt it after %v", proto, took)
				}
				receive(t, "the client's error", done)
			}
		}
		eventually(t, "nothing in flight", func() bool { return p.Stats()[0].InFlight == 0 })
		eventually(t, "four failures told", func() bool { return len(d.failures()) == 4 })
		if got := p.Stats()[0]; got.Failures != 0 || !got.Up {
			t.Errorf("the server is blamed: %+v", got)
		}
	}
}

func TestClientThatHangsUpInAnAnswerIsFelt(t *testing.T) {
	left := make(chan struct{}, 1)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	}))
	gw, _, p := front(t, up.URL)
	for _, c := range []*http.Client{client(t), h2cClient(t)} {
		ctx, hangUp := withCancel(t)
		req, _ := http.NewRequestWithContext(ctx, "GET", gw.URL, nil)
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(res.Body, make([]byte, 9))
		hangUp()
		receive(t, "the upstream's cancel", left)
		res.Body.Close()
	}
	eventually(t, "nothing in flight", func() bool { return p.Stats()[0].InFlight == 0 })
}

func TestHeadersOfTheFrontDoorSurviveWhatTheClientNominates(t *testing.T) {
	heads := make(chan http.Header, 1)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { heads <- r.Header.Clone() }))
	gw, d, _ := front(t, up.URL)
	d.rewrite = func(out, in *http.Request) {
		out.Header.Set("X-Real-Ip", "192.0.2.1")
		out.Header.Set("X-Seen", in.Header.Get("X-Hop"))
	}
	req, _ := http.NewRequest("GET", gw.URL, nil)
	req.Header = http.Header{
		"Connection": {"X-Real-Ip, X-Hop"}, "X-Real-Ip": {"6.6.6.6"}, "X-Hop": {"1"},
		"X-Forwarded-For": {"6.6.6.6"}, "Te": {"trailers, deflate"}, "User-Agent": {""}, "Trailer": {"X-Api-Key"},
	}
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	read(t, res)
	want := http.Header{"X-Real-Ip": {"192.0.2.1"}, "X-Seen": {"1"}, "Te": {"trailers"}}
	if diff := cmp.Diff(want, receive(t, "the request", heads)); diff != "" {
		t.Errorf("headers at the upstream (-want +got):\n%s", diff)
	}
}

func TestRequestTrailersAreNeitherAnnouncedNorSent(t *testing.T) {
	requests := make(chan string, 1)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		head, _ := header(r)
		rest, _ := header(r) // chunks and trailers
		io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		requests <- head + rest
	})
	gw, _, _ := front(t, "http://"+addr)
	c, r := dial(t, gw)
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Api-Key\r\n\r\n"+
		"1\r\nx\r\n0\r\nX-Api-Key: stolen\r\n\r\n")
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 204 {
		t.Fatalf("got %v, %v", res, err)
	}
	got := receive(t, "the request", requests)
	if lower := strings.ToLower(got); strings.Contains(lower, "trailer") || strings.Contains(lower, "x-api-key") {
		t.Errorf("the upstream got %q", got)
	}
}

func TestAnswerTheFrontDoorRefusesIsNotPassedOn(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secret") }))
	gw, d, _ := front(t, up.URL)
	d.change = func(res *http.Response) error { return errors.New("not that") }
	if res, body := get(t, client(t), gw.URL); res.StatusCode != 502 || strings.Contains(body, "secret") {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
}

func TestPoolStaysForTheSameSpecOnly(t *testing.T) {
	p := newPool(t, spec(t, "http://a", "http://b"))
	if !p.Equal(spec(t, "http://a", "http://b")) {
		t.Error("the same spec read again is another")
	}
	other := spec(t, "http://a", "http://b")
	other.Timeout++
	for _, s := range []*rules.Upstream{spec(t, "http://a"), spec(t, "http://b", "http://a"), other} {
		if p.Equal(s) {
			t.Errorf("%+v is the same", s)
		}
	}
	for _, bad := range []string{"ftp://a", "unix:/a", "http:///x"} {
		if _, err := New(spec(t, bad), Options{}); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	if _, err := New(spec(t), Options{}); err == nil {
		t.Error("no servers: no error")
	}
}

func TestClosedPoolFinishesWhatIsInFlightAndKeepsNoConnection(t *testing.T) {
	hold := make(chan struct{})
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-hold
		}
		io.WriteString(w, "whole")
	}), func(s *http.Server) {
		s.ConnState = func(c net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			if state == http.StateNew {
				open[c] = true
			} else if state == http.StateClosed {
				delete(open, c)
			}
		}
	})
	s := spec(t, up.URL)
	s.IdleTimeout = time.Hour
	p := newPool(t, s)
	gw, c := gateway(t, p, &door{}), client(t)
	answer := make(chan string, 1)
	go func() {
		_, body := get(t, c, gw.URL+"/slow")
		answer <- body
	}()
	eventually(t, "one in flight", func() bool { return p.Stats()[0].InFlight == 1 })
	get(t, c, gw.URL)
	p.Close()
	close(hold)
	if got := receive(t, "the answer", answer); got != "whole" {
		t.Errorf("got %q", got)
	}
	eventually(t, "no connection", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 0
	})
}

func TestWaitForAnswersIsMeasured(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(30 * time.Millisecond) // the time is what is measured
	}))
	gw, d, p := front(t, up.URL)
	get(t, client(t), gw.URL)
	eventually(t, "the end", func() bool { _, ok := d.last(); return ok })
	q, _ := d.last()
	if q.Waited < 30*time.Millisecond || q.Waited > deadline {
		t.Errorf("got %v", q.Waited)
	}
	times := p.Durations()
	var n uint64
	for i, count := range times.Counts {
		n += count
		if count > 0 && i < len(DurationBounds) && q.Waited > DurationBounds[i] {
			t.Errorf("%v is counted below %v", q.Waited, DurationBounds[i])
		}
	}
	if n != 1 || times.Sum != q.Waited {
		t.Errorf("got %+v, want one of %v", times, q.Waited)
	}
}
