package redis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// now is the time by which the server counts too, about.
func now() limit.Instant { return limit.InstantOf(time.Now()) }

// served returns a place in a store that counts by the server's clock.
func served(s *Store) *place {
	return &place{limiter: limit.Limiter{Store: s}, budget: limit.NewBudget(1 << 30), clock: func(limit.Instant) {}}
}

// S36: each key has a time to live, that of its use and a second at most; then
// nothing is left.
func TestEveryKeyHasATimeToLive(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	sets := []set{
		bucket(3, time.Second, 3), gcra(2, time.Second, 4), fixed(3, time.Second), sliding(3, time.Second), logged(3, time.Second), slotsOf(3),
		leaky(3, time.Second, time.Second), patient(2, time.Second, 3, 500*ms),
	}
	sets[2].refunds = func() (limit.Bucket, error) { return limit.NewFixedWindow(3, time.Second) }
	for i := range 1000 {
		s := sets[i%len(sets)]
		r := p.ruleNamed(t, "rule"+strconv.Itoa(i%len(sets)), s)
		c := r.claim(key(i), int64(1+i%3))
		c.Pending = s.refunds != nil
		g, v, _ := p.ask(now(), c)
		if !v.OK {
			t.Fatalf("key %d: %+v", i, v)
		}
		p.settle(&g, now(), int64(i%2))
	}
	without := 0
	names := server.Keys()
	for _, name := range names {
		if len(name) >= 128 {
			t.Errorf("%q has %d bytes", name, len(name))
		}
		ttl, err := strconv.Atoi(server.Do("PTTL", name))
		if err != nil || ttl == -1 {
			without++
		}
		if most := 2000 + 1000 + 1000; ttl > most { // sliding: two periods
			t.Errorf("%s lives for %d ms, want at most %d", name, ttl, most)
		}
	}
	if len(names) < 100 || without > 0 {
		t.Errorf("%d of %d keys without a time to live", without, len(names))
	}
	redistest.Eventually(t, "nothing is left", func() bool { return len(server.Keys()) == 0 })
	t.Attr("S36", fmt.Sprintf("%d of %d keys without TTL", without, len(names)))
}

// S03: a key without a time to live, or one that holds something else, gets one on
// the next call, also if that is refused.
func TestAKeyWithoutATimeToLiveGetsOne(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	for _, s := range every {
		r := p.rule(t, s)
		r.shared.Returns = true
		name := string(appendKey(nil, "gw", r.shared, key(1)))
		for range 3 {
			r.take(now(), key(1), 1)
		}
		server.Do("PERSIST", name)
		if ttl := server.Do("PTTL", name); ttl != "-1" && ttl != "-2" {
			t.Fatalf("%s: PTTL %s of a key that was made to last", s.name, ttl)
		}
		r.take(now(), key(1), 2)
		if ttl := server.Do("PTTL", name); ttl == "-1" {
			t.Errorf("%s: still no time to live", s.name)
		}
		for _, plant := range [][]string{{"SET", name, "99"}, {"SET", name, strings.Repeat("x", 65)}, {"HSET", name, "h", "x"}, {"RPUSH", name, "x"}, {"ZADD", name, "1", "x"}} {
			server.Do("DEL", name)
			server.Do(plant...)
			if _, res := r.take(now(), key(1), 1); !res.OK && plant[2] == "99" {
				t.Errorf("%s: with %v under its name: %+v", s.name, plant, res)
			}
			if ttl := server.Do("PTTL", name); ttl == "-1" {
				t.Errorf("%s: %v still has no time to live", s.name, plant)
			}
		}
	}
}

// A log that is told seldom how long to live is told in time: at the latest when half
// of the slack, which is an hour here, is used up.
func TestALogIsKeptForAsLongAsItIsUsed(t *testing.T) {
	server := redistest.Start(t)
	p := storePlace(t, server)
	r := p.rule(t, logged(1000, day))
	name := string(appendKey(nil, "gw", r.shared, key(1)))
	for at := time.Duration(0); at < 10*time.Hour; at += 5 * time.Minute {
		if at%(35*time.Minute) == 0 {
			server.Do("PEXPIRE", name, "600000")
		}
		r.take(start.Add(at), key(1), 1)
		ttl, err := strconv.Atoi(server.Do("PTTL", name))
		if told := time.Duration(ttl)*ms > day; err != nil || at%(35*time.Minute) == 30*time.Minute && !told {
			t.Fatalf("at %v the key lives for %d ms, want more than a day", at, ttl)
		}
	}
}

// K07: whatever the key of a client is, its name in the store is short and printable.
func TestNamesOfKeysAreShortAndPrintable(t *testing.T) {
	long := strings.Repeat("x", 76)
	for i := range 1000 {
		name := string(appendKey(nil, strings.Repeat("p", 24), &limit.Shared{ID: long}, key(i)))
		if len(name) > 127 || strings.Count(name, "{") != 1 || strings.Count(name, "}") != 1 {
			t.Fatalf("%q", name)
		}
	}
}

// Forgetting lets a key begin anew, unless something of it is in progress.
func TestForget(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	for _, s := range every {
		r := p.rule(t, s)
		g, _ := r.take(now(), key(1), 3)
		r.take(now(), key(1), 1) // refused, and remembered
		gone := p.limiter.Forget(r.table, r.shared, key(1))
		if gone == s.slots {
			t.Errorf("%s: forgotten %v", s.name, gone)
		}
		if _, res := r.take(now(), key(1), 3); res.OK == s.slots {
			t.Errorf("%s: afterwards %+v", s.name, res)
		}
		g.Done(now(), nil)
	}
}

// A refusal is remembered until it ends: the store is not asked again.
func TestRefusalsAreRemembered(t *testing.T) {
	server := redistest.Start(t)
	p := served(open(t, options(server.Addr)))
	for _, s := range []set{bucket(3, time.Hour, 3), fixed(3, day), logged(3, time.Hour), slotsOf(3)} {
		r := p.rule(t, s)
		r.take(now(), key(1), 3)
		first := now()
		_, said := r.take(first, key(1), 1)
		before := server.Figure("commandstats", "cmdstat_evalsha:calls")
		for i := range 100 {
			at := first.Add(time.Duration(i) * 40 * ms)
			_, v, claims := p.ask(at, r.claim(key(1), 1))
			if v.OK || claims[0].Result.OK {
				t.Fatalf("%s: passes", s.name)
			}
			if want := said.Wait - at.Sub(first); !s.slots && (v.Wait > want || v.Wait < want-10*time.Second) {
				t.Errorf("%s: a wait of %v after %d tries, want about %v", s.name, v.Wait, i, want)
			}
		}
		asked := server.Figure("commandstats", "cmdstat_evalsha:calls") - before
		if want := 0.0; s.slots && asked != 100 || !s.slots && asked != want {
			t.Errorf("%s: the store was asked %v times of 100", s.name, asked)
		}
		r.take(first.Add(5*time.Second), key(1), 1)
		if now := server.Figure("commandstats", "cmdstat_evalsha:calls") - before; now != asked+1 {
			t.Errorf("%s: the store is not asked again after 5 s", s.name)
		}
		if _, res := r.take(first, key(2), 1); !res.OK {
			t.Errorf("%s: another key: %+v", s.name, res)
		}
	}
}
