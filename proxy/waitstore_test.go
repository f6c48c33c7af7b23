package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gateway/limit"
)

// sharing is a limit.Store of one rule, and of slots, in memory, for gateways in one
// bubble: the store itself is tested in limit/redis. It decides at once, in the order in
// which it is asked, and its answer takes delay.
type sharing struct {
	delay time.Duration

	mu     sync.Mutex
	budget *limit.Budget
	tables map[string]*limit.Table
	grants map[uint64]*limit.Grant
	calls  int
}

func newSharing(t *testing.T, v *virtual) *sharing {
	s := &sharing{budget: limit.NewBudget(1 << 20), tables: map[string]*limit.Table{}, grants: map[uint64]*limit.Grant{}}
	for r := range v.gateway.Current().rules.Rules {
		rule := v.gateway.Current().rules.Rules[r]
		if rule.Base.Shared == nil {
			t.Fatalf("%s is counted in memory", rule.Name)
		}
		s.tables[rule.Base.Shared.ID] = limit.NewTable(rule.Base.Numbers, 1000, s.budget)
	}
	return s
}

func (s *sharing) Up(*limit.Claim) bool { return true }

func (s *sharing) Acquire(claims []limit.Claim, a limit.Ask) (time.Duration, error) {
	if a.Turn != 0 || a.MustWait {
		panic("a turn elsewhere, where there is none")
	}
	s.ask(claims, a)
	time.Sleep(s.delay)
	return s.delay, nil
}

func (s *sharing) ask(claims []limit.Claim, a limit.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	mine := make([]limit.Claim, len(claims))
	for i, c := range claims {
		table := s.tables[c.Shared.ID]
		mine[i] = limit.Claim{Table: table, Gen: table.Generation(), Key: c.Key, N: c.N, Mode: c.Mode, Tag: int32(i)}
	}
	var g limit.Grant
	now, l := limit.InstantOf(time.Now()), limit.Limiter{}
	if a.Intent != limit.ToTake {
		l.Peek(now, mine)
	} else {
		g, _ = l.Acquire(context.Background(), now, mine)
	}
	each := g.Split()
	for i, m := range mine {
		c := &claims[m.Tag]
		c.Result, c.Receipt.Lease = m.Result, uint64(s.calls)<<8|uint64(m.Tag)
		if len(each) > 0 {
			s.grants[c.Receipt.Lease] = &each[i]
		}
	}
}

func (s *sharing) Settle(c *limit.Claim, n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	g, now := s.grants[c.Receipt.Lease], limit.InstantOf(time.Now())
	delete(s.grants, c.Receipt.Lease)
	if c.Receipt.Unused {
		g.Cancel(now)
	} else {
		g.Done(now, func(*limit.Claim) int64 { return n })
	}
	return n
}

func (s *sharing) Forget(*limit.Shared, limit.Digest) bool { return false }

const shared = "store: { redis: { url: \"redis://127.0.0.1:1\", replicas: 1 } }\n"

// inSharedBubble runs n gateways over one store.
func inSharedBubble(t *testing.T, n int, delay time.Duration, rules string, do func(t *testing.T, s *sharing, all []*virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var s *sharing
		var all []*virtual
		for range n {
			v := &virtual{t: t, access: &lines{}, start: time.Now()}
			v.gateway = New(Config{Clock: NewClock()}, build(t, answering+shared+rules, nil))
			if s == nil {
				s = newSharing(t, v)
			}
			v.gateway.limiter.Store = s
			all = append(all, v)
		}
		s.delay = delay
		do(t, s, all)
		for _, v := range all {
			v.gateway.Close()
		}
	})
}

// A thousand requests of one client at two gateways, one each 10 ms for both together.
// Half of those that wait hang up at some time: those that stay leave at their turns,
// never closer than 10 ms, and nothing is left of anybody.
func TestOfAThousandWaitersAtTwoGatewaysHalfHangUp(t *testing.T) {
	const rules = "rules: [{ name: even, limit: 100/s, algorithm: leaky_bucket, max_wait: 10s }]\n"
	const delay = 2 * time.Millisecond
	inSharedBubble(t, 2, delay, rules, func(t *testing.T, s *sharing, both []*virtual) {
		var mu sync.Mutex
		var left []time.Duration
		var all sync.WaitGroup
		for i := range 1001 {
			ctx, hangUp := context.WithCancel(context.Background())
			all.Go(func() {
				res, at := both[i%2].ask(ctx, 1, "/")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case i%2 == 1 && i%4 == 1 || i%4 == 2:
				case res.StatusCode != 200:
					t.Errorf("request %d: %d", i, res.StatusCode)
				default:
					left = append(left, at)
				}
			})
			synctest.Wait()
			if i == 0 {
				time.Sleep(delay) // the others come 2 ms later, all at once
			} else if i%4 == 1 || i%4 == 2 {
				time.AfterFunc(delay+time.Duration(i)*5*time.Millisecond, hangUp)
				continue
			}
			defer hangUp()
		}
		time.Sleep(delay)
		synctest.Wait()
		if n := both[0].gateway.Waiting() + both[1].gateway.Waiting(); n != 1000 {
			t.Errorf("%d wait, want 1000", n)
		}
		if res, _ := both[1].ask(t.Context(), 1, "/"); res.StatusCode != 429 {
			t.Errorf("with 1000 places taken: %d", res.StatusCode)
		}
		all.Wait()
		if len(left) != 501 {
			t.Errorf("%d left, want 501", len(left))
		}
		for i := 1; i < len(left); i++ {
			if apart := left[i] - left[i-1]; apart < 10*time.Millisecond {
				t.Fatalf("departures %d and %d are %v apart, at least 10ms", i-1, i, apart)
			}
		}
		if last, want := left[len(left)-1], delay+10*time.Second; last != want {
			t.Errorf("the last leaves at %v, want %v", last, want)
		}
		for _, v := range both {
			if v.gateway.Waiting() != 0 || v.gateway.InFlight() != 0 {
				t.Errorf("%d wait, %d are in flight", v.gateway.Waiting(), v.gateway.InFlight())
			}
		}
		// One call for each that came, and one for each that hung up; none when it leaves.
		if want := 1002 + 500; s.calls != want {
			t.Errorf("the store was asked %d times, want %d", s.calls, want)
		}
		time.Sleep(11 * time.Second) // on the clock of the bubble
		for _, table := range s.tables {
			if table.Sweep(limit.InstantOf(time.Now())); table.Stats().Keys != 0 {
				t.Errorf("%+v is left", table.Stats())
			}
		}
	})
}

// A request that waits holds no slot of the store; when its turn comes there must be
// one, or it is refused and has cost nothing.
func TestSlotsOfAStoreAreTakenWhenTheTurnComes(t *testing.T) {
	const file = `
rules:
  - { name: even, limit: 1/s, algorithm: leaky_bucket, max_wait: 5s }
  - { name: few, key: global, concurrency: 1 }
  - { name: quota, limit: 10/h }
`
	inSharedBubble(t, 1, 0, file, func(t *testing.T, s *sharing, all []*virtual) {
		v := all[0]
		few, quota := v.gateway.Current().rules.Rule("few"), v.gateway.Current().rules.Rule("quota")
		slot := []limit.Claim{{Table: s.tables[few.Base.Shared.ID], Gen: 1, Key: v.keyOf("few"), N: 1}}
		left := func(rule string, values ...string) int64 {
			r := v.gateway.Current().rules.Rule(rule)
			return v.gateway.Usage(r, v.keyOf(rule, values...))[0].Left
		}
		v.ask(t.Context(), 1, "/")
		var wait sync.WaitGroup
		wait.Go(func() {
			res, at := v.ask(t.Context(), 1, "/")
			if at != time.Second || res.StatusCode != 429 || !strings.Contains(fmt.Sprint(sent(res, "RateLimit")), `"few";r=0`) {
				t.Errorf("without a slot: %d at %v, %v", res.StatusCode, at, sent(res, "RateLimit"))
			}
		})
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		g, verdict := new(limit.Limiter).Acquire(t.Context(), limit.InstantOf(time.Now()), slot) // by somebody else
		if wait.Wait(); !verdict.OK {
			t.Error("the slot is held by who waits")
		}
		g.Done(limit.InstantOf(time.Now()), nil)
		if n := left("quota", "192.0.2.1"); n != 9 || few.Base.Live.Rejected.Load() != 1 || quota.Base.Live.Waited.Load() != 0 {
			t.Errorf("%d of the quota are left, want 9: the first alone has taken of it", n)
		}
		if res, at := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 || at != time.Second { // the turn of who was refused
			t.Errorf("the next: %d at %v", res.StatusCode, at)
		}
		res, at := v.ask(t.Context(), 1, "/")
		if res.StatusCode != 200 || at != 2*time.Second {
			t.Errorf("one that waits: %d at %v", res.StatusCode, at)
		}
		if text := fmt.Sprint(sent(res, "RateLimit")); !strings.Contains(text, `"quota";r=7`) || !strings.Contains(text, `"even";r=5;t=1`) {
			t.Errorf("it is told %s", text)
		}
		calls := s.calls
		if n := left("few"); n != 1 {
			t.Errorf("slots left: %d", n)
		}
		// The one that waits asks, and asks for a slot, and gives that back.
		if res, at := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 || at != 3*time.Second || s.calls != calls+2+3 {
			t.Errorf("%d at %v, after %d calls", res.StatusCode, at, s.calls-calls-2)
		}
	})
}

// What a client is told of a queue in a store once its turn has come is as of when it
// was given that, less the time that went by.
func TestWhatAWaiterOfAStoreIsTold(t *testing.T) {
	inSharedBubble(t, 1, 0, "rules: [{ name: even, limit: 1/s, algorithm: leaky_bucket, max_wait: 5s }]\n", func(t *testing.T, s *sharing, all []*virtual) {
		v := all[0]
		v.ask(t.Context(), 1, "/")
		var wait sync.WaitGroup
		for i, want := range []string{`"even";r=4;t=1`, `"even";r=3;t=1`, `"even";r=2;t=1`} {
			wait.Go(func() {
				res, at := v.ask(t.Context(), 1, "/")
				if got := sent(res, "RateLimit")[0]; got != want || at != time.Duration(i+1)*time.Second {
					t.Errorf("at %v: %s, want %s", at, got, want)
				}
			})
			synctest.Wait()
		}
		if wait.Wait(); s.calls != 4 {
			t.Errorf("the store was asked %d times, want 4", s.calls)
		}
	})
}
