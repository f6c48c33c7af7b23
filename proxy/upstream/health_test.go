package upstream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gateway/rules"
)

// checked is an upstream whose servers are checked each 5 s.
func checked(t testing.TB, servers ...string) *rules.Upstream {
	s := spec(t, servers...)
	s.Health = rules.Health{Path: "/healthz", Interval: 5 * time.Second, Timeout: 2 * time.Second}
	for code := range 100 {
		s.Health.Status[(code+100)/64] |= 1 << ((code + 100) % 64)
	}
	return s
}

// answers plays a server's answers to checks, without a network.
type answers struct {
	status atomic.Int32 // 0: no connection; 1: silence; 2: none of ours to ask with
	asked  atomic.Int32
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked.Add(1)
	switch code := int(a.status.Load()); code {
	case 0:
		return nil, errors.New("refused")
	case 2: // no descriptor for a connection
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	case 1:
		<-r.Context().Done()
		return nil, r.Context().Err()
	default:
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("x"))}, nil
	}
}

// played is a pool that is started in a bubble, with what its servers say.
func played(t *testing.T, s *rules.Upstream) (*Pool, []*answers) {
	p := newPool(t, s)
	all := make([]*answers, len(p.servers))
	for i := range all {
		all[i] = &answers{}
		all[i].status.Store(200)
		p.servers[i].checks = all[i]
	}
	return p, all
}

// rounds lets so many intervals pass, and what a check may take.
func rounds(n int) {
	time.Sleep(time.Duration(n)*5*time.Second + 3*time.Second)
	synctest.Wait()
}

func TestTheFirstCheckDecidesAndThenTwoInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a := played(t, checked(t, "http://a", "http://b", "http://c"))
		a[0].status.Store(503)
		p.Start()
		defer p.Close()
		up := func(i int) bool { return p.Stats()[i].Up }
		time.Sleep(time.Second) // a tenth of the interval at most
		synctest.Wait()
		if up(0) || !up(1) {
			t.Fatal("the first check did not decide")
		}
		a[0].status.Store(200)
		a[1].status.Store(0)
		for i := 0; a[1].asked.Load() < 2 || a[0].asked.Load() < 2; i++ {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if a[0].asked.Load() == 2 && up(0) || a[1].asked.Load() == 2 && !up(1) {
			t.Error("one check changed a server")
		}
		rounds(2)
		if !up(0) || up(1) || p.Stats()[1].CheckFailures < 2 {
			t.Errorf("two checks in a row did not: %+v", p.Stats())
		}
		a[1].status.Store(1)
		rounds(2)
		if up(1) {
			t.Error("a silent server is up")
		}
	})
}

func TestACheckThatCouldNotBeMadeSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a := played(t, checked(t, "http://a", "http://b"))
		a[1].status.Store(0)
		p.Start()
		defer p.Close()
		rounds(1)
		for _, check := range a {
			check.status.Store(2)
		}
		failed := p.Stats()[1].CheckFailures
		rounds(5)
		if s := p.Stats(); !s[0].Up || s[1].Up || s[0].CheckFailures != 0 || s[1].CheckFailures != failed {
			t.Errorf("%+v, want what the last checks said that were made", s)
		}
	})
}

func TestAFlappingServerStaysAsItIs(t *testing.T) {
	p, _ := played(t, checked(t, "http://a", "http://b"))
	bad := errors.New("bad")
	s := p.servers[0]
	p.judge(s, nil)
	for range 20 {
		p.judge(s, bad)
		p.judge(s, nil)
		if s.down.Load() {
			t.Fatal("down after one bad check")
		}
	}
	p.judge(s, bad)
	p.judge(s, bad)
	for range 20 {
		if !s.down.Load() {
			t.Fatal("up after one good check")
		}
		p.judge(s, nil)
		p.judge(s, bad)
	}
	if got := p.Stats()[0].CheckFailures; got != 42 {
		t.Errorf("%d failed checks counted, want 42", got)
	}
}

func TestChecksComeEachIntervalButNotAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a := played(t, checked(t, "http://a", "http://b"))
		p.Start()
		p.Start() // once is enough
		time.Sleep(1000 * time.Second)
		p.Close()
		for i := range a {
			// Each gap is 4.5 s to 5.5 s.
			if n := a[i].asked.Load(); n < 1000*10/55 || n > 1000*10/45+1 {
				t.Errorf("server %d was asked %d times in 1000 s", i, n)
			}
		}
		asked := a[0].asked.Load()
		p.Start() // a closed pool stays closed
		time.Sleep(time.Minute)
		if a[0].asked.Load() != asked {
			t.Error("a closed pool asks on")
		}
	})
}

func TestPanicBeginsBelowHalfAndEnds(t *testing.T) {
	p, _ := played(t, checked(t, "http://a", "http://b", "http://c", "http://d"))
	bad := errors.New("bad")
	for i := range 3 {
		p.judge(p.servers[i], bad)
		if got := picks(p, 400); p.Panic() != (i == 2) || i < 2 && got[0] != 0 || i == 2 && got[0] != 100 {
			t.Errorf("%d of 4 down: panic %v, picks %v", i+1, p.Panic(), got)
		}
	}
	p.judge(p.servers[0], nil)
	p.judge(p.servers[0], nil)
	if got := picks(p, 400); p.Panic() || got[0] != 200 || got[3] != 200 {
		t.Errorf("half are up: panic %v, picks %v", p.Panic(), got)
	}
}

func TestAServerThatChecksSayIsDownIsNotTheOtherThatIsIn(t *testing.T) {
	p, _ := played(t, checked(t, "http://a", "http://b"))
	p.judge(p.servers[1], errors.New("bad"))
	for range 2 * rowOut {
		p.failed(p.servers[0])
	}
	if !p.Stats()[0].Up {
		t.Error("the last server that was up was taken out")
	}
}

func TestNothingRunsForAPoolBeforeStartAndAfterClose(t *testing.T) {
	up := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i := range 200 {
		s := checked(t, up.URL, "http://"+refused(t))
		s.Health.Interval = 20 * time.Millisecond
		p, err := New(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if i%4 != 0 {
			p.Start()
		}
		if i%4 == 2 {
			eventually(t, "a check", func() bool { return p.Stats()[1].CheckFailures > 0 })
		}
		if i%4 != 0 {
			p.Close()
		}
	}
	up.Close()
	goleak.VerifyNone(t)
}

func TestWhatACheckAsksFor(t *testing.T) {
	got := make(chan *http.Request, 10)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Clone(t.Context())
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	for _, scheme := range []string{"http", "h2c"} {
		server := strings.Replace(up.URL, "http", scheme, 1)
		s := checked(t, server+"/base")
		s.Health.Path = "/healthz?full=1"
		p := newPool(t, s)
		if err := p.check(t.Context(), p.servers[0]); err == nil || err.Error() != "status 302" {
			t.Errorf("%s: got %v, want the redirect's status", scheme, err)
		}
		r := receive(t, "the check", got)
		if r.Method != "GET" || r.RequestURI != "/base/healthz?full=1" || r.Host != up.Listener.Addr().String() ||
			r.UserAgent() != checkAgent || (r.ProtoMajor == 2) != (scheme == "h2c") {
			t.Errorf("%s: got %s %s of %s by %q over %s", scheme, r.Method, r.RequestURI, r.Host, r.UserAgent(), r.Proto)
		}
		if len(got) > 0 {
			t.Errorf("%s: the redirect was followed", scheme)
		}
	}
}

func TestOneServerDownByItsCheckGetsNothing(t *testing.T) {
	var ill atomic.Bool
	var served [2]atomic.Int32
	var urls []string
	for i := range served {
		up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				served[i].Add(1)
			} else if i == 0 && ill.Load() {
				w.WriteHeader(500)
			}
		}))
		urls = append(urls, up.URL)
	}
	s := checked(t, urls...)
	s.Health.Interval = 20 * time.Millisecond
	p := newPool(t, s)
	ill.Store(true)
	p.Start()
	gw, c := gateway(t, p, &door{}), client(t)
	eventually(t, "down", func() bool { return !p.Stats()[0].Up })
	for range 20 {
		get(t, c, gw.URL)
	}
	if served[0].Load() != 0 || served[1].Load() != 20 {
		t.Errorf("got %d and %d requests", served[0].Load(), served[1].Load())
	}
	ill.Store(false)
	eventually(t, "up again", func() bool { return p.Stats()[0].Up })
	for range 20 {
		get(t, c, gw.URL)
	}
	if served[0].Load() != 10 {
		t.Errorf("got %d requests of 20 once it is up", served[0].Load())
	}
}

func TestInAPanicOneServerThatIsUpSavesEveryRequest(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for _, balance := range []string{"least_conn", "round_robin", "random", "hash"} {
		s := checked(t, up.URL, "http://"+refused(t), "http://"+refused(t), "http://"+refused(t))
		s.Balance = balance
		p := newPool(t, s)
		for i := range 3 {
			p.judge(p.servers[1+i], errors.New("bad"))
		}
		gw, c := gateway(t, p, &door{}), client(t)
		for range 30 {
			if res, _ := get(t, c, gw.URL); res.StatusCode != 200 {
				t.Errorf("%s: got %d", balance, res.StatusCode)
			}
		}
	}
}

func TestAllDownAnswersAllTheSameAndRefusingIs503(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for server, want := range map[string]int{up.URL: 200, "http://" + refused(t): 503} {
		p := newPool(t, checked(t, server))
		p.judge(p.servers[0], errors.New("bad"))
		d := &door{}
		gw := gateway(t, p, d)
		if res, _ := get(t, client(t), gw.URL); res.StatusCode != want {
			t.Errorf("got %d, want %d; failed with %v", res.StatusCode, want, d.failures())
		}
		if !p.Panic() {
			t.Error("no panic with every server down")
		}
	}
}
