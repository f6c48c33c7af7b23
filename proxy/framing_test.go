package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// framing is a request that is framed in an odd way, as it goes on the wire.
type framing struct {
	name, text string
	want       []int // statuses of the first answer; 0 is none, and a closed connection
}

const (
	post = "POST /first HTTP/1.1\r\nHost: api.example.com\r\n"
	get  = "GET /first HTTP/1.1\r\nHost: api.example.com\r\n"
	// after is a request whose answer shows where the gateway thinks the one
	// before it has ended.
	after = "GET /after HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n"
)

// framed are the inputs of TestOddFramingIsTheClientsFault, by class.
var framed = slices.Concat(lengthCases, codingCases, chunkCases, expectCases, headerCases, bodyCases)

// oddSite is a gateway with a rule that would give units back for any failure of the
// upstream. Only who is to meet a deadline gets one that can be waited for: a machine
// that stands still for a moment would have others meet it, too.
func oddSite(t *testing.T, timeouts string) (*site, *recorder) {
	up := record(t)
	return newSite(t, "timeouts: { "+timeouts+" }\nupstream: "+up.url+
		"\nrules: [{ name: all, key: global, limit: 1000000/h, refund: { status: 5xx, upstream_error: true } }]\n", nil), up
}

// allPaid fails unless each request at the upstream was paid for, and nothing was
// given back. It returns how many there were.
func (s *site) allPaid(up *recorder) int {
	s.t.Helper()
	eventually(s.t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	r := s.gateway.Current().rules.Rules[0]
	got, paid := up.targets(), r.Base.Live.Allowed.Load()
	if int64(len(got)) > paid {
		s.t.Errorf("%d requests reached the upstream, %d were paid for", len(got), paid)
	}
	if kept := r.Live.Units.Load(); kept != paid {
		s.t.Errorf("%d units were taken and %d kept", paid, kept)
	}
	for _, target := range got {
		if target != "/first" && target != "/after" && target != "/second" {
			s.t.Errorf("the upstream was asked for %q", target)
		}
	}
	return len(got)
}

func TestOddFramingIsTheClientsFault(t *testing.T) {
	if len(framed) < 140 {
		t.Errorf("only %d inputs", len(framed))
	}
	n := 0
	for _, group := range []struct {
		name, timeouts string
		has            func(framing) bool
	}{
		{"inputs that are whole", "", func(c framing) bool { return !slices.Contains(c.want, 408) }},
		{"inputs without an end", "read: 400ms", func(c framing) bool { return slices.Contains(c.want, 408) && !slices.Contains(c.want, 0) }},
		{"heads without an end", "read_header: 400ms", func(c framing) bool { return slices.Contains(c.want, 0) }},
	} {
		s, up := oddSite(t, group.timeouts)
		t.Run(group.name, func(t *testing.T) {
			for _, c := range framed {
				if !group.has(c) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel() // they wait, for a deadline or for a connection to linger
					(&site{t: t, addr: s.addr}).frame(c)
				})
			}
		})
		n += s.allPaid(up)
	}
	t.Attr("S08", fmt.Sprintf("HTTP/1: %d inputs, 0 unmetered of %d requests at the upstream, 0 units given back", len(framed), n))
}

// frame sends a request that is framed in an odd way, and fails unless all that
// follows is one of the answers it may get.
func (s *site) frame(c framing) {
	t := s.t
	w := s.dial()
	w.SetDeadline(time.Now().Add(patience)) // "never a hang", on a busy machine
	w.send(c.text)
	first := 0
	r, ok := w.answer("POST")
	if ok {
		first = r.StatusCode
	}
	if !slices.Contains(c.want, first) {
		t.Errorf("%q: %d, want one of %d; body %.100q", c.text, first, c.want, r.body)
	}
	if first >= 500 && first != 501 && first != 505 {
		t.Errorf("%q: %d for a fault of the client", c.text, first)
	}
	if !ok || r.Close {
		if more, ok := w.answer("GET"); ok {
			t.Errorf("%q: an answer %d after the last one", c.text, more.StatusCode)
		}
		return
	}
	// It lives: then it must be exactly where the request ended.
	w.send(after)
	for {
		r, ok := w.answer("GET")
		if !ok {
			t.Errorf("%q: the connection lived and then ended without an answer to the next request", c.text)
			return
		}
		if r.Close {
			if r.StatusCode != 200 {
				t.Errorf("%q: the request behind it got %d", c.text, r.StatusCode)
			}
			return
		}
	}
}

func TestMalformedChunksAre400AndNotTheUpstreamsFault(t *testing.T) {
	up := record(t)
	s := newSite(t, "upstream: "+up.url+"\nrules: [{ name: all, limit: 100/h }]\n", nil)
	for i, body := range []string{"zz\r\n", "5\r\nhelloX\r\n", "-1\r\n", "0x5\r\nhello\r\n0\r\n\r\n"} {
		w := s.dial()
		w.send(post + "Transfer-Encoding: chunked\r\n\r\n" + body)
		r := w.mustAnswer("POST")
		if p := problemOf(t, r); r.StatusCode != 400 || p["detail"] == "" {
			t.Errorf("%q: %d %v, want 400 that says why", body, r.StatusCode, p)
		}
		e := s.entries(i + 1)[i]
		if e["status"] != 400.0 || e["settled"] != 1.0 {
			t.Errorf("%q: access line %v, want 400 and nothing given back", body, e)
		}
	}
	for _, st := range s.gateway.Current().pools["default"].Stats() {
		if st.Failures != 0 || !st.Up {
			t.Errorf("the server is blamed for it: %+v", st)
		}
	}
}

func TestAHundredPipelinedRequestsAreAHundred(t *testing.T) {
	s := newSite(t, fivePerHour, nil)
	w := s.dial()
	go w.send(strings.Repeat("GET /a HTTP/1.1\r\nHost: a\r\n\r\n", 99) + after)
	var got [600]int
	for range 100 {
		got[w.mustAnswer("GET").StatusCode]++
	}
	if got[200] != 5 || got[429] != 95 || len(s.requests()) != 5 {
		t.Errorf("%d×200, %d×429, %d at the upstream; want 5, 95, 5", got[200], got[429], len(s.requests()))
	}
}

func TestAHundredStreamsAreAHundred(t *testing.T) {
	s := newSite(t, fivePerHour, nil)
	c := h2c(t)
	codes := make(chan int, 100)
	for range 100 {
		go func() {
			res, err := c.Get("http://" + s.addr)
			if err != nil {
				codes <- 0
				return
			}
			res.Body.Close()
			codes <- res.StatusCode
		}()
	}
	got := map[int]int{}
	for range 100 {
		got[<-codes]++
	}
	if fmt.Sprint(got) != "map[200:5 429:95]" || len(s.requests()) != 5 {
		t.Errorf("%v, %d at the upstream", got, len(s.requests()))
	}
}
