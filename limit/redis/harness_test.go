package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

const (
	us  = time.Microsecond
	ms  = time.Millisecond
	day = 24 * time.Hour
)

// start is an instant on the edge of every window used in tests: 2025-01-01,
// midnight UTC.
const start = limit.Instant(1_735_689_600_000_000_000)

var secret = limit.Secret{1, 2, 3}

func key(i int) limit.Digest {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i))
	return secret.Digest(b[:])
}

// failer is what helpers need of a testing.TB, which a rapid.T has too.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func options(addrs ...string) Options {
	return Options{Addrs: addrs, Timeout: 30 * time.Second, Prefix: "gw"}
}

// open returns a Store that is connected and looked after until the test ends.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s := New(o, slog.New(slog.DiscardHandler))
	attend(t, s)
	redistest.Eventually(t, fmt.Sprintf("the store at %v is up", o.Addrs), func() bool { return s.Stats().Up })
	return s
}

// attend starts s and runs it until the test ends.
func attend(t testing.TB, s *Store) {
	t.Helper()
	s.Start(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

// set is one algorithm with numbers.
type set struct {
	name    string
	make    func() (limit.Bucket, error)
	carry   int64
	slots   bool
	refunds func() (limit.Bucket, error)
	penalty func() (limit.Penalty, error)
}

func bucket(permits int64, per time.Duration, burst int64) set {
	return set{"token_bucket", func() (limit.Bucket, error) { return limit.NewTokenBucket(permits, per, burst) }, burst, false, nil, nil}
}

func gcra(permits int64, per time.Duration, burst int64) set {
	return set{"gcra", func() (limit.Bucket, error) { return limit.NewGCRA(permits, per, burst) }, burst, false, nil, nil}
}

func leaky(permits int64, per, maxWait time.Duration) set {
	return set{"leaky_bucket", func() (limit.Bucket, error) { return limit.NewLeakyBucket(permits, per, maxWait) }, 1 + limit.Places(permits, per, maxWait), false, nil, nil}
}

func patient(permits int64, per time.Duration, burst int64, maxWait time.Duration) set {
	return set{"token_bucket with max_wait", func() (limit.Bucket, error) { return limit.NewPatientBucket(permits, per, burst, maxWait) },
		burst + limit.Places(permits, per, maxWait), false, nil, nil}
}

func fixed(permits int64, per time.Duration) set {
	return set{"fixed_window", func() (limit.Bucket, error) { return limit.NewFixedWindow(permits, per) }, 0, false, nil, nil}
}

func sliding(permits int64, per time.Duration) set {
	return set{"sliding_window", func() (limit.Bucket, error) { return limit.NewSlidingWindow(permits, per) }, 0, false, nil, nil}
}

func logged(permits int64, per time.Duration) set {
	return set{"sliding_window_log", func() (limit.Bucket, error) { return limit.NewSlidingLog(permits, per) }, 0, false, nil, nil}
}

func slotsOf(n int64) set {
	return set{"concurrency", func() (limit.Bucket, error) { return limit.NewConcurrency(n) }, 0, true, nil, nil}
}

func calendar(permits int64, span limit.Span, z *limit.Zone) set {
	return set{"calendar", func() (limit.Bucket, error) { return limit.NewCalendarWindow(permits, span, z) }, 0, false, nil, nil}
}

// punished is s with a penalty.
func (s set) punished(refusals int64, per, block, max time.Duration) set {
	s.name += " with a penalty"
	s.penalty = func() (limit.Penalty, error) { return limit.NewPenalty(refusals, per, block, max) }
	return s
}

// zone returns a zone of the time zone database.
func zone(t failer, name string) *limit.Zone {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return limit.NewZone(loc)
}

// midday is a zone in which it is about noon now; no day ends soon after start
// either.
var midday = limit.NewZone(time.FixedZone("", int((time.Duration(12-time.Now().UTC().Hour()) * time.Hour).Seconds())))

func (s set) numbers(t failer) limit.Numbers {
	t.Helper()
	b, err := s.make()
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	n := limit.Numbers{Bucket: b, Carry: s.carry, Slots: s.slots}
	if s.refunds != nil {
		if n.Refunds, err = s.refunds(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	if s.penalty != nil {
		if n.Penalty, err = s.penalty(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	return n
}

// place is where claims are decided: in memory, or in a store whose clock is the
// caller's.
type place struct {
	limiter limit.Limiter
	budget  *limit.Budget
	clock   func(limit.Instant) // sets the store's; nil in memory

	now  atomic.Int64  // what the store's was set to
	skew time.Duration // how far the gateway's clock is ahead of it
}

func memoryPlace() *place { return &place{budget: limit.NewBudget(1 << 40)} }

// timed is a Store whose answers take no time.
type timed struct{ *Store }

// Acquire implements limit.Store.
func (s timed) Acquire(claims []limit.Claim, a limit.Ask) (time.Duration, error) {
	_, err := s.Store.Acquire(claims, a)
	return 0, err
}

// storePlace returns a place in the store at server whose clock is set by hand. It
// must be the only one there. Keys outlive their use by an hour of real time.
func storePlace(t testing.TB, server *redistest.Server) *place {
	s := open(t, options(server.Addr))
	s.scripts = newScripts("local now = tonumber(redis.call('GET', 'clock'))\n", testSlack)
	conn := s.conn.Load()
	p := &place{limiter: limit.Limiter{Store: timed{s}}, budget: limit.NewBudget(1 << 40)}
	p.clock = func(now limit.Instant) {
		at := strconv.FormatInt(int64(now)/1000, 10)
		if err := conn.Do(context.Background(), conn.B().Set().Key("clock").Value(at).Build()).Error(); err != nil {
			t.Errorf("setting the clock: %v", err)
		}
		p.now.Store(int64(now))
	}
	s.clock.here = func() limit.Instant { return limit.Instant(p.now.Load()).Add(p.skew) }
	return p
}

const testSlack = time.Hour

// rule is what one rule counts in a place.
type rule struct {
	at     *place
	table  *limit.Table
	shared *limit.Shared
}

var rules atomic.Int64

// rule makes the counters of a new rule.
func (p *place) rule(t failer, s set) *rule {
	t.Helper()
	return p.ruleNamed(t, fmt.Sprintf("r%d", rules.Add(1)), s)
}

func (p *place) ruleNamed(t failer, name string, s set) *rule {
	t.Helper()
	n := s.numbers(t)
	r := &rule{at: p, table: limit.NewTable(n, 1<<40, p.budget)}
	if p.clock != nil {
		var err error
		if r.shared, err = limit.NewShared(name, n); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	return r
}

// renew gives the rule other numbers.
func (r *rule) renew(t failer, now limit.Instant, s set) {
	t.Helper()
	n := s.numbers(t)
	r.table.Renew(r.table.Generation()+1, now, n, 1<<40)
	if r.shared != nil {
		var err error
		if r.shared, err = limit.NewShared(r.shared.ID, n); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

func (r *rule) claim(k limit.Digest, n int64) limit.Claim {
	return limit.Claim{Table: r.table, Gen: r.table.Generation(), Key: k, N: n, Shared: r.shared}
}

// ask asks for claims at now.
func (p *place) ask(now limit.Instant, claims ...limit.Claim) (limit.Grant, limit.Verdict, []limit.Claim) {
	if p.clock != nil {
		p.clock(now)
	}
	g, v := p.limiter.Acquire(context.Background(), now, claims)
	return g, v, claims
}

// settle settles a grant at now.
func (p *place) settle(g *limit.Grant, now limit.Instant, n int64) {
	if p.clock != nil {
		p.clock(now)
	}
	g.Done(now, func(*limit.Claim) int64 { return n })
}

// cancel gives back what a request holds that never left.
func (p *place) cancel(g *limit.Grant, now limit.Instant) {
	if p.clock != nil {
		p.clock(now)
	}
	g.Cancel(now)
}

// take asks a rule for n units.
func (r *rule) take(now limit.Instant, k limit.Digest, n int64) (limit.Grant, limit.Result) {
	g, _, c := r.at.ask(now, r.claim(k, n))
	return g, c[0].Result
}

// places runs a test in memory and in a store.
func places(t *testing.T, test func(t *testing.T, p *place)) {
	t.Run("memory", func(t *testing.T) { test(t, memoryPlace()) })
	t.Run("store", func(t *testing.T) { test(t, storePlace(t, redistest.Start(t))) })
}

// inMicros rounds the times of a result up, as a store tells them.
func inMicros(r limit.Result) limit.Result {
	up := func(d time.Duration) time.Duration {
		if d <= 0 {
			return d
		}
		return (d + us - 1) / us * us
	}
	r.Wait, r.Reset = up(r.Wait), up(r.Reset)
	return r
}
