package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// crowdedSite holds each request to /hold until release is called.
func crowdedSite(t *testing.T, head string) (s *site, release func()) {
	hold := make(chan struct{})
	var once sync.Once
	s = newSite(t, head+crowdedRoutes, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			echo(w, r)
		case strings.HasPrefix(r.URL.Path, "/hold"):
			http.NewResponseController(w).Flush()
			<-hold
		}
	})
	release = func() { once.Do(func() { close(hold) }) }
	t.Cleanup(release)
	return s, release
}

const crowdedRoutes = `
upstreams: { api: UPSTREAM }
routes:
  - { match: [/hold/sheddable, /sheddable], upstream: api, priority: sheddable }
  - { match: [/hold/critical, /critical], upstream: api, priority: critical }
  - upstream: api
exempt: { path: /hold/exempt }
rules: [{ name: all, key: global, limit: 1000/h }]
`

// hold begins n requests that stay in progress, and returns how many did.
func (s *site) hold(path string, n int) (in int) {
	s.t.Helper()
	for range n {
		w := s.dial()
		w.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(w.in, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if res.StatusCode == 200 {
			in++
		}
	}
	return in
}

func TestTrafficThatMattersLessIsShedFirst(t *testing.T) {
	s, release := crowdedSite(t, "overload: { max_in_flight: 10, reserve: 20% }")
	for _, step := range []struct {
		path string
		n    int
	}{{"/hold/sheddable", 6}, {"/hold/normal", 2}, {"/hold/sheddable", 0}, {"/hold/critical", 2}, {"/hold/normal", 0}, {"/hold/critical", 0}} {
		if got := s.hold(step.path, step.n+2); got != step.n {
			t.Errorf("%s: %d entered, want %d", step.path, got, step.n)
		}
	}
	if u := s.taken(); u != 0 {
		t.Errorf("%d units settled already", u)
	}
	r := s.get("/critical")
	p := problemOf(t, r)
	if r.StatusCode != 503 || p["type"] != reducedCapacity || r.Header.Get("Retry-After") != "1" || p["retry_after"] != 1.0 ||
		p["violated-policies"] != nil || !strings.Contains(r.Header.Get("RateLimit"), `"all";r=990;`) {
		t.Errorf("%d, %v, %v", r.StatusCode, p, r.Header)
	}
	shed := &s.gateway.Current().rules.Overload.Live.Shed
	if n, sh, c := shed[0].Load(), shed[1].Load(), shed[2].Load(); n != 4 || sh != 4 || c != 5 {
		t.Errorf("%d normal, %d sheddable and %d critical requests were shed, want 4, 4 and 5", n, sh, c)
	}
	release()
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	if u := s.taken(); u != 10 {
		t.Errorf("%d units for the ten requests that were let in", u)
	}
	if r := s.get("/sheddable"); r.StatusCode != 200 {
		t.Errorf("%d once all have ended", r.StatusCode)
	}
	found := false
	for _, line := range s.access.all() {
		found = found || strings.Contains(line, `"result":"shed"`) && strings.Contains(line, `"status":503`)
	}
	if !found {
		t.Error("no line of the access log says shed")
	}
}

func TestExemptRequestsTakePlacesAndTunnelsLeaveThem(t *testing.T) {
	s, _ := crowdedSite(t, "overload: { max_in_flight: 2, reserve: 0% }")
	var open []*wire
	for range 5 { // each leaves its place as it opens
		w := s.dial()
		if got := w.handshake("/ws", "hi").StatusCode; got != 101 {
			t.Fatalf("%d with %d tunnels open", got, len(open))
		}
		w.expect("hi")
		open = append(open, w)
	}
	if got := s.hold("/hold/exempt", 4); got != 2 {
		t.Errorf("%d exempt requests entered beside five tunnels, want 2", got)
	}
	if r := s.get("/"); r.StatusCode != 503 {
		t.Errorf("%d, want 503", r.StatusCode)
	}
	for _, w := range open { // and takes none with it when it closes
		w.Close()
	}
	eventually(t, "the tunnels have ended", func() bool { return s.gateway.InFlight() == 2 })
	if r := s.get("/"); r.StatusCode != 503 {
		t.Errorf("%d after tunnels closed, want 503", r.StatusCode)
	}
}

func TestARuleAndOverloadRefuseTogether(t *testing.T) {
	s, _ := crowdedSite(t, "overload: { max_in_flight: 1, reserve: 0% }")
	s.reload(strings.ReplaceAll("overload: { max_in_flight: 1, reserve: 0% }"+crowdedRoutes, "1000/h", "1/h"))
	if got := s.hold("/hold/normal", 1); got != 1 {
		t.Fatal("not even one entered")
	}
	if r := s.get("/"); r.StatusCode != 429 { // both lack room: the rule's answer says more
		t.Errorf("%d, want 429", r.StatusCode)
	}
	if r := s.get("/none/such"); r.StatusCode != 429 {
		t.Errorf("%d, want 429", r.StatusCode)
	}
	if n := s.gateway.Current().rules.Overload.Live.Shed[0].Load(); n != 0 {
		t.Errorf("%d counted as shed", n)
	}
}

func TestRequestsInProgressStayCountedOverReloads(t *testing.T) {
	s, release := crowdedSite(t, "overload: { max_in_flight: 4, reserve: 0% }")
	s.hold("/hold/normal", 3)
	for _, step := range []struct {
		head string
		want int
	}{
		{"overload: { max_in_flight: 3, reserve: 0% }", 503}, {"overload: { max_in_flight: 1 }", 503},
		{"overload: { max_in_flight: 4, reserve: 0% }", 200}, {"overload: { max_in_flight: 4, reserve: 25% }", 503},
		{"", 200}, {"overload: { max_in_flight: 1, reserve: 0% }", 200}, // taken out and put in: from here on
	} {
		s.reload(step.head + crowdedRoutes)
		if r := s.get("/"); r.StatusCode != step.want {
			t.Errorf("with %q: %d, want %d", step.head, r.StatusCode, step.want)
		}
	}
	release()
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	if got := s.hold("/hold/x", 1); got != 1 {
		t.Error("a place was lost")
	}
}

func TestNeverMoreThanMaxInFlightAreAtTheUpstream(t *testing.T) {
	var mu sync.Mutex
	in, most := 0, 0
	s := newSite(t, "overload: { max_in_flight: 8, reserve: 25% }\nupstream: UPSTREAM\nrules: []\n", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		in++
		most = max(most, in)
		mu.Unlock()
		io.Copy(io.Discard, r.Body)
		mu.Lock()
		in--
		mu.Unlock()
	})
	var answers tally
	var wg sync.WaitGroup
	c := h1(t)
	for range 30 {
		wg.Go(func() {
			for range 20 {
				res, err := c.Post("http://"+s.addr, "", strings.NewReader("body"))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				answers.n[res.StatusCode].Add(1)
			}
		})
	}
	wg.Wait()
	if most > 6 || answers.n[200].Load()+answers.n[503].Load() != 600 || answers.n[200].Load() == 0 {
		t.Errorf("%d at once at the upstream, want at most 6; %s", most, &answers)
	}
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	if r := s.get("/"); r.StatusCode != 200 {
		t.Errorf("%d at rest", r.StatusCode)
	}
}
