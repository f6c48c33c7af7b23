package redis

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// cluster returns a cluster, a Store in it, and three keys that live on a node each.
func cluster(t *testing.T) (nodes []*redistest.Server, s *Store, keys [3]limit.Digest) {
	nodes = redistest.StartCluster(t)
	opts := options(nodes[0].Addr, nodes[1].Addr, nodes[2].Addr)
	opts.Timeout = time.Second
	s = open(t, opts)
	if !s.conn.Load().cluster {
		t.Fatal("it is not taken for a cluster")
	}
	for n, i := 0, 0; n < 3; i++ {
		if node := int(slot(key(i))) * 3 / slots; node == n {
			keys[n] = key(i)
			n++
		}
	}
	return nodes, s, keys
}

// In a cluster rules of one key are decided together, and those of several keys each
// in its slot: what was taken goes back when one refuses.
func TestACluster(t *testing.T) {
	nodes, s, keys := cluster(t)
	p := served(s)
	for _, set := range every {
		many, one := p.rule(t, set), p.rule(t, fixed(1, 366*day))
		one.shared.Returns, many.shared.Returns = true, true
		one.take(now(), keys[1], 1)
		for range 4 {
			_, v, claims := p.ask(now(), many.claim(keys[0], 1), one.claim(keys[1], 1))
			if v.OK {
				t.Fatalf("%s: passes without room in one of two slots", set.name)
			}
			for _, c := range claims {
				if c.Table == many.table && c.Result.Remaining < 2 {
					t.Errorf("%s: %+v, want what was there", set.name, c.Result)
				}
			}
		}
		if _, res := many.take(now(), keys[0], 3); !res.OK {
			t.Errorf("%s: not all came back: %+v", set.name, res)
		}
	}
	// All in one slot: exactly, whoever asks.
	a, b := p.rule(t, fixed(100, 366*day)), p.rule(t, bucket(150, 366*day, 150))
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 50 {
				if _, v, _ := p.ask(now(), a.claim(keys[2], 1), b.claim(keys[2], 1)); v.OK {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if _, res := b.take(now(), keys[2], 0); passed.Load() != 100 || res.Remaining != 50 {
		t.Errorf("%d passed, want 100; the other rule has %d left, want 50", passed.Load(), res.Remaining)
	}
	held := 0
	for _, n := range nodes {
		held += len(n.Keys())
	}
	if held == 0 || len(nodes[0].Keys()) == held {
		t.Errorf("keys are on one node of three")
	}
}

// In a cluster, too, a request leaves all its leaky buckets at the last of its turns, and
// takes no slots before: each slot is asked until they agree.
func TestTurnsInACluster(t *testing.T) {
	_, s, keys := cluster(t)
	p := served(s)
	const second, minute = time.Second, time.Minute
	slow, quick := p.rule(t, leaky(1, minute, minute)), p.rule(t, leaky(1, second, minute))
	inside, beside := p.rule(t, slotsOf(1)), p.rule(t, bucket(5, 366*day, 5))
	for _, r := range []*rule{slow, quick, inside, beside} {
		r.shared.Returns = true
	}
	all := func() []limit.Claim {
		return []limit.Claim{quick.claim(keys[0], 1), slow.claim(keys[1], 1), inside.claim(keys[2], 1), beside.claim(keys[0], 1)}
	}
	about := func(got, want time.Duration) bool { return got > want-20*second && got <= want+second }
	left := func(r *rule, k int) int64 {
		_, res := r.take(now(), keys[k], 0)
		return res.Remaining
	}
	first, v, _ := p.ask(now(), all()...)
	if !v.OK || v.Wait != 0 || left(inside, 2) != 0 {
		t.Fatalf("the first: %+v", v)
	}
	second1, v, claims := p.ask(now(), all()...)
	if !v.OK || !about(v.Wait, minute) || left(beside, 0) != 3 || s.Stats().Leases != 1 {
		t.Fatalf("the second: %+v %+v, %d left, %d leases", v, claims, left(beside, 0), s.Stats().Leases)
	}
	if _, res := quick.take(now(), keys[0], 1); res.OK { // not before a second after that one, which is over what it lets wait
		t.Errorf("behind it in the quick one: %+v, want a refusal", res)
	}
	if _, v, _ := p.ask(now(), all()...); v.OK || left(beside, 0) != 3 { // a third would wait for two minutes
		t.Errorf("the third: %+v, %d left", v, left(beside, 0))
	}
	second1.Cancel(now())
	if left(beside, 0) != 4 || s.Stats().Leases != 1 {
		t.Errorf("after the second has gone %d are left, and %d leases held", left(beside, 0), s.Stats().Leases)
	}
	if _, res := quick.take(now(), keys[0], 1); !res.OK || !about(res.Wait, minute) { // what it would have waited for stays empty, as in memory
		t.Errorf("after it has gone away the next in the quick one: %+v", res)
	}
	first.Done(now(), nil)
	if left(inside, 2) != 1 {
		t.Error("a slot is held by nobody")
	}
	// With a slot, which is anybody's until the request leaves.
	fast := p.rule(t, leaky(1, minute, minute))
	fast.take(now(), keys[0], 1)
	last, v, _ := p.ask(now(), fast.claim(keys[0], 1), inside.claim(keys[2], 1))
	if !v.OK || !about(v.Wait, minute) || left(inside, 2) != 1 || s.Stats().Leases != 0 {
		t.Errorf("with a slot and a wait: %+v, %d left, %d leases", v, left(inside, 2), s.Stats().Leases)
	}
	last.Done(now(), nil)
	// It must have to wait where memory has no slot; here it need not.
	free := p.rule(t, leaky(1, minute, minute))
	none := p.rule(t, slotsOf(1))
	none.shared = nil
	none.take(now(), keys[0], 1)
	if _, v, _ := p.ask(now(), free.claim(keys[1], 1), beside.claim(keys[0], 1), none.claim(keys[0], 1)); v.OK || left(free, 1) != 2 || left(beside, 0) != 4 {
		t.Errorf("without a slot and without a wait: %+v, %d and %d left", v, left(free, 1), left(beside, 0))
	}
	free.take(now(), keys[1], 1)
	if _, v, _ := p.ask(now(), free.claim(keys[1], 1), beside.claim(keys[0], 1), none.claim(keys[0], 1)); !v.OK || !about(v.Wait, minute) || left(beside, 0) != 3 {
		t.Errorf("without a slot, with a wait: %+v, %d left", v, left(beside, 0))
	}
}

// When a node of a cluster is gone its keys alone are counted here.
func TestANodeOfAClusterIsLost(t *testing.T) {
	nodes, s, keys := cluster(t)
	p := served(s)
	r := p.rule(t, bucket(1_000_000, 366*day, 1_000_000))
	fate := func(k limit.Digest) limit.Fate {
		_, v, claims := p.ask(now(), r.claim(k, 1))
		if !v.OK {
			t.Errorf("refused: %+v", v)
		}
		return claims[0].Fate
	}
	nodes[1].Hang()
	redistest.Eventually(t, "what the lost node holds is counted here", func() bool { return fate(keys[1]) == limit.Here })
	for range 100 {
		for _, k := range []int{0, 2} {
			if f := fate(keys[k]); f != limit.There {
				t.Fatalf("a key of node %d is decided by %d", k, f)
			}
		}
	}
	nodes[1].Resume()
	redistest.Eventually(t, "it is asked again", func() bool { return fate(keys[1]) == limit.There })
}

func TestTLSAndPassword(t *testing.T) {
	server, cert, _ := redistest.StartTLS(t, "--requirepass", "hunter2")
	server.Password = "hunter2"
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	opts := options(server.Addr)
	opts.TLS, opts.Roots, opts.Password, opts.DB = true, roots, "hunter2", 3
	p := served(open(t, opts))
	r := p.rule(t, fixed(3, 366*day))
	passed := 0
	for range 5 {
		if _, res := r.take(now(), key(1), 1); res.OK {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d of 5 passed, want 3", passed)
	}
	for what, change := range map[string]func(*Options){
		"an authority that is not believed": func(o *Options) { o.Roots = nil },
		"no TLS":                            func(o *Options) { o.TLS = false },
		"another password":                  func(o *Options) { o.Password = "hunter3" },
	} {
		o := opts
		change(&o)
		if err := Check(t.Context(), o); err == nil {
			t.Errorf("%s: connects", what)
		}
		s := New(o, slog.New(slog.DiscardHandler))
		s.Start(t.Context())
		if s.Stats().Up {
			t.Errorf("%s: is up", what)
		}
	}
}

// A lease is held for as long as its gateway renews it, and no longer: 45 s.
func TestLeases(t *testing.T) {
	server := redistest.Start(t)
	alive, other := storePlace(t, server), storePlace(t, server)
	s := alive.limiter.Store.(timed).Store
	id := fmt.Sprintf("lease%d", rules.Add(1))
	mine, theirs := alive.ruleNamed(t, id, slotsOf(2)), other.ruleNamed(t, id, slotsOf(2))
	at := func(d time.Duration) limit.Instant {
		alive.clock(start.Add(d))
		return start.Add(d)
	}
	held, res := mine.take(at(0), key(1), 1)
	if !res.OK {
		t.Fatalf("%+v", res)
	}
	if _, res = theirs.take(at(0), key(1), 1); !res.OK { // and its gateway is killed
		t.Fatalf("%+v", res)
	}
	full := func(d time.Duration, want bool) {
		t.Helper()
		_, res := theirs.take(at(d), key(1), 2)
		if res.OK || (res.Remaining == 0) != want {
			t.Errorf("at %v: %+v, want it full: %v", d, res, want)
		}
	}
	full(30*time.Second, true)
	s.renew()
	full(44*time.Second, true)
	full(46*time.Second, false) // one has ended
	s.renew()
	at(80 * time.Second)
	server.Do("DEL", string(appendKey(nil, "gw", mine.shared, key(1)))) // the store forgets
	s.renew()                                                           // and is told
	full(90*time.Second, false)
	held.Done(at(90*time.Second), nil)
	s.renew()
	if _, res := theirs.take(at(91*time.Second), key(1), 2); !res.OK {
		t.Errorf("with nothing in progress: %+v", res)
	}
}

func TestSlotsOfTags(t *testing.T) {
	// As CLUSTER KEYSLOT says.
	for tag, want := range map[string]uint16{"123456789": 12739, "foo": 12182, "": 0} {
		if got := slotOf([]byte(tag)); got != want {
			t.Errorf("slot of %q: %d, want %d", tag, got, want)
		}
	}
	for i, tag := range probeTags() {
		if int(slotOf([]byte(tag)))/slotsEach != i {
			t.Errorf("tag %q is not of breaker %d", tag, i)
		}
	}
}
