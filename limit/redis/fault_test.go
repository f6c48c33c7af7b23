package redis

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// outage is a way in which a store goes away and comes back.
type outage struct {
	name       string
	begin, end func(s *redistest.Server, f *redistest.Faulty)
	reasons    string // of which calls fail for one
}

var outages = []outage{
	{"killed", func(s *redistest.Server, _ *redistest.Faulty) { s.Kill() }, func(s *redistest.Server, _ *redistest.Faulty) { s.Restart() }, "connection"},
	{"hanging", func(s *redistest.Server, _ *redistest.Faulty) { s.Hang() }, func(s *redistest.Server, _ *redistest.Faulty) { s.Resume() }, "timeout"},
	{"slow", func(_ *redistest.Server, f *redistest.Faulty) { f.Delay(3 * time.Second) }, func(_ *redistest.Server, f *redistest.Faulty) { f.Delay(0) }, "timeout"},
	{"refusing connections", func(_ *redistest.Server, f *redistest.Faulty) { f.Refuse(true) }, func(_ *redistest.Server, f *redistest.Faulty) { f.Refuse(false) }, "connection"},
	{"silent", func(_ *redistest.Server, f *redistest.Faulty) { f.Swallow(true) }, func(_ *redistest.Server, f *redistest.Faulty) {
		f.Swallow(false)
		f.Cut() // a connection that has lost a part is none
	}, "timeout"},
	{"a replica", func(s *redistest.Server, _ *redistest.Faulty) { s.Do("REPLICAOF", "127.0.0.1", "1") }, func(s *redistest.Server, _ *redistest.Faulty) { s.Do("REPLICAOF", "NO", "ONE") }, "readonly"},
	{"full", func(s *redistest.Server, _ *redistest.Faulty) { s.Do("CONFIG", "SET", "maxmemory", "1") }, func(s *redistest.Server, _ *redistest.Faulty) { s.Do("CONFIG", "SET", "maxmemory", "0") }, "full"},
	{"another password", func(s *redistest.Server, _ *redistest.Faulty) {
		s.Do("CONFIG", "SET", "requirepass", "other")
		s.Password = "other"
		s.Try("CLIENT", "KILL", "TYPE", "normal")
	}, func(s *redistest.Server, _ *redistest.Faulty) {
		s.Do("CONFIG", "SET", "requirepass", "")
		s.Password = ""
	}, "auth connection"},
	{"forbidding scripts", func(s *redistest.Server, _ *redistest.Faulty) {
		s.Do("ACL", "SETUSER", "default", "-evalsha", "-eval")
	}, func(s *redistest.Server, _ *redistest.Faulty) { s.Do("ACL", "SETUSER", "default", "+@all") }, "auth"},
}

// S34: whatever happens to the store, no request fails for it: a few wait for the
// timeout, then none is asked until the store is back, and no call is made twice.
func TestFaultsOfTheStore(t *testing.T) {
	var mu sync.Mutex
	good := 0
	t.Run("each", func(t *testing.T) {
		for _, o := range outages {
			t.Run(o.name, func(t *testing.T) {
				server := redistest.Start(t)
				f := redistest.StartFaulty(t, server)
				opts := options(f.Addr)
				if o.name == "killed" { // also without anything in between
					opts = options(server.Addr)
				}
				opts.Timeout = 500 * time.Millisecond
				s := open(t, opts)
				p := served(s)
				big := bucket(1_000_000, time.Hour, 1_000_000)
				local, open, closed := p.rule(t, big), p.rule(t, big), p.rule(t, big)
				ask := func(r *rule) limit.Fate {
					c := r.claim(key(1), 1)
					c.Open, c.Closed = r == open, r == closed
					_, v, claims := p.ask(now(), c)
					if v.OK != (claims[0].Fate != limit.Lost) || v.Lost == v.OK {
						t.Errorf("verdict %+v of a claim that was decided by %d", v, claims[0].Fate)
					}
					return claims[0].Fate
				}
				for _, r := range []*rule{local, open, closed} {
					if fate := ask(r); fate != limit.There {
						t.Fatalf("decided by %d before anything has happened", fate)
					}
				}
				executed := server.Figure("commandstats", "cmdstat_evalsha:calls") // of the three
				before := s.stats.total()
				o.begin(server, f)
				for range 300 {
					for r, want := range map[*rule]limit.Fate{local: limit.Here, open: limit.LetPass, closed: limit.Lost} {
						if fate := ask(r); fate != want {
							t.Fatalf("decided by %d, want %d", fate, want)
						}
					}
				}
				waited := s.stats.total() - before
				if waited > tolerance {
					t.Errorf("%d of 900 requests waited for a store that is away, want at most %d", waited, tolerance)
				}
				failed := uint64(0)
				for reason := range strings.FieldsSeq(o.reasons) {
					failed += s.Stats().Errors[reason]
				}
				if s.Stats().Up || failed == 0 {
					t.Errorf("it is up, or nothing failed for %s: %v", o.reasons, s.Stats().Errors)
				}
				o.end(server, f)
				begun := time.Now()
				redistest.Eventually(t, "the store is asked again", func() bool { return ask(local) == limit.There })
				back := time.Since(begun)
				t.Logf("%s: %d waited, back after %v", o.name, waited, back.Round(time.Millisecond))
				if o.name != "killed" { // which has forgotten what it executed
					made := float64(s.stats.total() - before)
					if n := server.Figure("commandstats", "cmdstat_evalsha:calls") - executed; n > made+20 { // and probes
						t.Errorf("%v calls were executed of %v that were made", n, made)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if !t.Failed() {
					good++
				}
			})
		}
	})
	t.Attr("S34", fmt.Sprintf("%d of %d outages", good, len(outages)))
}

// total returns how many calls were made.
func (s *stats) total() (n uint64) {
	for i := range s.counts {
		n += s.counts[i].Load()
	}
	return n
}

// A store that is not there at the start is found when it comes.
func TestAStoreThatComesLater(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	s := New(options(server.Addr), slog.New(slog.DiscardHandler))
	attend(t, s)
	p := served(s)
	r := p.rule(t, bucket(10, time.Hour, 10))
	if _, _, claims := p.ask(now(), r.claim(key(1), 1)); claims[0].Fate != limit.Here {
		t.Errorf("decided by %d without a store", claims[0].Fate)
	}
	server.Restart()
	redistest.Eventually(t, "the store is asked", func() bool {
		_, _, claims := p.ask(now(), r.claim(key(2), 0))
		return claims[0].Fate == limit.There
	})
	if _, res := r.take(now(), key(1), 10); !res.OK {
		t.Errorf("what was counted here is counted there too: %+v", res)
	}
}

// A lost reply counts once: the call is not repeated.
func TestALostReplyCountsOnce(t *testing.T) {
	server := redistest.Start(t)
	f := redistest.StartFaulty(t, server)
	opts := options(f.Addr)
	opts.Timeout = 300 * time.Millisecond
	s := open(t, opts)
	p := served(s)
	for _, set := range []set{bucket(100, time.Hour, 100), fixed(100, 366*day), logged(100, time.Hour), slotsOf(100), calendar(100, limit.Month, midday)} {
		r := p.rule(t, set)
		r.take(now(), key(1), 1)
		f.Swallow(true)
		g, v, claims := p.ask(now(), r.claim(key(1), 1))
		if !v.OK || claims[0].Fate != limit.Here {
			t.Errorf("%s: %+v, decided by %d", set.name, v, claims[0].Fate)
		}
		f.Swallow(false)
		f.Cut()
		want := int64(98)
		redistest.Eventually(t, set.name+": the store is asked again, and the call has counted once", func() bool {
			_, v, claims := p.ask(now(), r.claim(key(1), 0))
			if set.slots && claims[0].Fate == limit.There && claims[0].Result.Remaining == 99 {
				want = 99 // the slot that nobody knew of was given back
			}
			return v.OK && claims[0].Fate == limit.There && claims[0].Result.Remaining == want
		})
		g.Done(now(), nil)
	}
}

// A slot that a lost reply leaves behind is given back once the store answers.
func TestSlotsThatNobodyKnowsOfAreGivenBack(t *testing.T) {
	server := redistest.Start(t)
	opts := options(server.Addr)
	opts.Timeout = 300 * time.Millisecond
	s := open(t, opts)
	p := served(s)
	r := p.rule(t, slotsOf(5))
	server.Hang()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			g, _ := r.take(now(), key(1), 1)
			g.Done(now(), nil)
		})
	}
	wg.Wait()
	server.Resume()
	redistest.Eventually(t, "all five are free", func() bool {
		_, v, claims := p.ask(now(), r.claim(key(1), 0))
		return v.OK && claims[0].Fate == limit.There && claims[0].Result.Remaining == 5
	})
}

// S06: scripts that the server forgets are sent again, at no request's cost.
func TestForgottenScriptsAreSentAgain(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	r := p.rule(t, fixed(200, 366*day))
	passed := 0
	for i := range 300 {
		if i%7 == 0 {
			server.Do("SCRIPT", "FLUSH")
		}
		c := r.claim(key(1), 1)
		c.Closed = true
		_, v, _ := p.ask(now(), c)
		if v.Lost {
			t.Fatalf("request %d: the store was away", i)
		}
		if v.OK {
			passed++
		}
	}
	if passed != 200 {
		t.Errorf("%d of 300 passed, want 200", passed)
	}
}

// No answer is read as another's, however late it comes.
func TestNoAnswerIsReadAsAnothers(t *testing.T) {
	server := redistest.Start(t)
	f := redistest.StartFaulty(t, server)
	opts := options(f.Addr)
	opts.Timeout = 20 * time.Millisecond
	s := open(t, opts)
	p := served(s)
	var rules []*rule
	for i := range 100 {
		rules = append(rules, p.rule(t, bucket(1000+int64(i), time.Hour, 1000+int64(i))))
	}
	done := make(chan struct{})
	var chaos sync.WaitGroup
	chaos.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				f.Delay(time.Duration(rand.IntN(40)) * ms)
				if rand.IntN(40) == 0 {
					f.Cut()
				}
			}
		}
	})
	var wg sync.WaitGroup
	var there, wrong atomic.Int64
	for w := range 20 {
		wg.Go(func() {
			for n := range 500 {
				i := (w*31 + n) % 100
				c := rules[i].claim(key(i), 0)
				c.Open = true
				_, _, claims := p.ask(now(), c)
				if claims[0].Fate != limit.There {
					continue
				}
				there.Add(1)
				if claims[0].Result.Remaining != 1000+int64(i) {
					wrong.Add(1)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	chaos.Wait()
	if wrong.Load() > 0 {
		t.Errorf("%d of %d answers were another's", wrong.Load(), there.Load())
	}
	t.Logf("%d of 10000 were answered", there.Load())
}

// S35: gateways whose clocks differ agree, since time is the server's.
func TestGatewaysWithSkewedClocksAdmitTheLimit(t *testing.T) {
	server := redistest.Start(t)
	for _, set := range []set{bucket(4000, 366*day, 4000), fixed(4000, 366*day), logged(4000, day), calendar(4000, limit.Month, midday)} {
		var passed atomic.Int64
		var wg sync.WaitGroup
		id := fmt.Sprintf("skewed%d", rules.Add(1))
		for i := range 2 {
			p := served(open(t, options(server.Addr)))
			r := p.ruleNamed(t, id, set)
			skew := time.Duration(i) * 10 * time.Second
			for range 4 {
				wg.Go(func() {
					for range 1250 {
						if _, res := r.take(now().Add(skew), key(1), 1); res.OK {
							passed.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		if n := passed.Load(); n != 4000 {
			t.Errorf("%s: %d of 10000 requests of two gateways passed, want 4000", set.name, n)
		}
		if set.name == "token_bucket" {
			t.Attr("S35", fmt.Sprintf("%d of 10000 admitted with clocks 10 s apart, the limit is 4000", passed.Load()))
		}
	}
}

// A replica that Sentinel makes the master takes over.
func TestFailoverBySentinel(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	opts := options(sentinel.Addr)
	opts.Master, opts.Timeout = sentinel.Name, 500*ms
	s := open(t, opts)
	p := served(s)
	r := p.rule(t, fixed(1000, 366*day))
	ask := func() limit.Fate {
		_, v, claims := p.ask(now(), r.claim(key(1), 1))
		if !v.OK {
			t.Errorf("refused: %+v", v)
		}
		return claims[0].Fate
	}
	if fate := ask(); fate != limit.There {
		t.Fatalf("decided by %d", fate)
	}
	first := sentinel.Master()
	first.Kill()
	redistest.Eventually(t, "the replica is the master", func() bool { return sentinel.Master() != first })
	redistest.Eventually(t, "it is asked", func() bool { return ask() == limit.There })
}

// The log says that the store was lost and that it is back, and no password.
func TestTheLogSaysItTwiceAndNoPassword(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hunter2-secret")
	server.Password = "hunter2-secret"
	var b lockedBuilder
	opts := options(server.Addr)
	opts.Password, opts.Timeout = server.Password, 500*ms
	s := New(opts, slog.New(slog.NewTextHandler(&b, nil)))
	attend(t, s)
	p := served(s)
	r := p.rule(t, bucket(10, time.Hour, 10))
	server.Do("CONFIG", "SET", "requirepass", "other")
	server.Password = "other"
	server.Try("CLIENT", "KILL", "TYPE", "normal")
	for range 100 {
		r.take(now(), key(1), 0)
	}
	server.Do("CONFIG", "SET", "requirepass", "hunter2-secret")
	redistest.Eventually(t, "the store is back", func() bool { return s.Stats().Up })
	text := b.String()
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "the store is lost") || !strings.Contains(text, "the store is back") {
		t.Errorf("the log says:\n%s", text)
	}
	if strings.Contains(text, "hunter2") || strings.Contains(text, "other") {
		t.Errorf("a password is in the log:\n%s", text)
	}
	err := Check(context.Background(), Options{Addrs: opts.Addrs, Password: "hunter3-secret", Timeout: time.Second, Prefix: "gw"})
	if err == nil || strings.Contains(err.Error(), "hunter") {
		t.Errorf("with a wrong password: %v", err)
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all that was written.
func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
