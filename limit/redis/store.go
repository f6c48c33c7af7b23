package redis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"gateway/limit"
)

// Store is a limit.Store in Redis or Valkey. It does nothing by itself until Start
// and Run, and is away until then. It is safe for concurrent use.
type Store struct {
	options Options
	log     *slog.Logger
	scripts scripts
	process uint64 // which tells our leases from those of others

	conn     atomic.Pointer[connection]
	breakers []breaker
	tags     []string
	inFlight atomic.Int64
	leaving  chan struct{}
	lost     atomic.Int64 // when the store was lost, in Unix nanoseconds; 0 while it is there
	said     atomic.Int64 // when that was last logged
	hushed   atomic.Bool  // it was not logged, having been so a moment ago

	leases leases
	stats  stats
	clock  clock

	deadlines deadlines
}

// connection is a client, and whether it speaks to a cluster.
type connection struct {
	rueidis.Client
	cluster bool
}

// New returns a Store; what an operator should know of it goes to log.
func New(o Options, log *slog.Logger) *Store {
	var b [8]byte
	rand.Read(b[:])
	s := &Store{
		options: o, log: log, scripts: newScripts(serverTime, slack), process: binary.BigEndian.Uint64(b[:]),
		breakers: make([]breaker, slots/slotsEach), tags: probeTags(), leaving: make(chan struct{}, mostLeaving),
	}
	s.clock.here = func() limit.Instant { return limit.InstantOf(time.Now()) }
	s.lost.Store(time.Now().UnixNano())
	return s
}

// Options returns what it was made with.
func (s *Store) Options() Options { return s.options }

var (
	errAway = errors.New("the store is away")
	errBusy = errors.New("too much is in flight already")
)

// breaker returns the breaker of a key in c.
func (s *Store) breaker(c *connection, d limit.Digest) *breaker {
	if !c.cluster {
		return &s.breakers[0]
	}
	return &s.breakers[slot(d)/slotsEach]
}

// slot returns the slot of all counters of a key.
func slot(d limit.Digest) uint16 {
	var tag [22]byte
	return slotOf(appendTag(tag[:0], d))
}

// Up implements limit.Store.
func (s *Store) Up(c *limit.Claim) bool {
	conn := s.conn.Load()
	return conn != nil && !s.breaker(conn, c.Key).down.Load()
}

// Acquire implements limit.Store.
func (s *Store) Acquire(claims []limit.Claim, a limit.Ask) (time.Duration, error) {
	conn := s.conn.Load()
	if conn == nil {
		return 0, errAway
	}
	begun := time.Now()
	var err error
	if len(claims) == 1 || !conn.cluster {
		_, err = s.take(conn, claims, a)
	} else {
		err = s.takeApart(conn, claims, a)
	}
	return time.Since(begun), err
}

// take asks about claims of one slot, again if the clock there is not where it was.
func (s *Store) take(conn *connection, claims []limit.Claim, a limit.Ask) (passes bool, err error) {
	begun := time.Now()
	passes, err = s.askFor(conn, claims, a, s.deadlines.in(s.options.Timeout, begun))
	for range corrections {
		if err == nil || !s.clock.corrects(err) {
			break
		}
		passes, err = s.askFor(conn, claims, a, newDeadline(s.options.Timeout-time.Since(begun)))
	}
	return passes, err
}

// usually is how many claims a request has at most, nearly always.
const usually = 4

func (s *Store) askFor(conn *connection, claims []limit.Claim, a limit.Ask, ends *deadline) (passes bool, err error) {
	// All is written behind each other, and cut from one string.
	var fixed [4*usually + 2]string
	var cuts [4 * usually]int
	keys, args, cut, buf := fixed[:0:2*usually], fixed[2*usually:2*usually], cuts[:0], make([]byte, 0, 512)
	for i := range claims {
		c := &claims[i]
		if c.Shared.Terms.Algorithm == limit.Concurrency {
			c.Receipt.Lease = s.leases.next()
		}
		from := len(buf)
		buf = appendKey(buf, s.options.Prefix, c.Shared, c.Key)
		key := len(buf)
		if c.Shared.Punishes() {
			buf = append(buf, recordSuffix...)
		}
		record := len(buf)
		buf = appendAsk(buf, c, s.process, &s.clock)
		cut = append(cut, from, key, record, len(buf))
	}
	text := string(buf)
	for i := range claims {
		at := cut[4*i:]
		keys, args = append(keys, text[at[0]:at[1]]), append(args, text[at[2]:at[3]])
	}
	for i := range claims {
		if at := cut[4*i:]; at[1] < at[2] {
			keys = append(keys, text[at[0]:at[2]])
		}
	}
	args = appendWay(args, a)
	answer, err := s.call(conn, s.breaker(conn, claims[0].Key), s.scripts.forTake(claims, a), keys, args, ends)
	if err == nil {
		var text string
		if text, err = answer.ToString(); err == nil {
			passes, err = readAnswer(text, claims)
		}
	}
	if a.Intent != limit.ToTake {
		return passes, err
	}
	waits := err == nil && passes && max(a.Turn, limit.Turn(claims)) > 0
	for i := range claims {
		c := &claims[i]
		switch {
		case c.Shared.Terms.Algorithm != limit.Concurrency || c.N == 0 || waits:
		case err != nil:
			s.leases.doubt(keys[i], c.Receipt.Lease, c.N)
		case passes && c.Result.OK:
			s.leases.add(keys[i], c.Receipt.Lease, c.N)
		}
	}
	return passes, err
}

// Settle implements limit.Store.
func (s *Store) Settle(c *limit.Claim, n int64) int64 {
	key := string(appendKey(nil, s.options.Prefix, c.Shared, c.Key))
	slots := c.Shared.Terms.Algorithm == limit.Concurrency
	if slots {
		s.leases.remove(c.Receipt.Lease)
	}
	conn := s.conn.Load()
	if conn == nil {
		return 0
	}
	if c.Receipt.Unused { // clients can hang up by the thousand, and nobody waits for what that gives back
		s.leaving <- struct{}{}
		defer func() { <-s.leaving }()
	}
	b := s.breaker(conn, c.Key)
	if slots {
		return s.release(conn, b, key, c)
	}
	if b.down.Load() {
		return 0
	}
	for range 1 + corrections {
		arg := string(appendSettlement(nil, c, n, &s.clock))
		answer, err := s.call(conn, b, s.scripts.each[c.Shared.Terms.Algorithm].settle, []string{key}, []string{arg}, s.soon())
		if err != nil {
			return 0
		}
		if wrong, err := answer.AsIntSlice(); err == nil && len(wrong) == 1 {
			s.clock.correct(wrongTime(wrong[0]))
			continue
		}
		back, _ := answer.AsInt64()
		return back
	}
	return 0
}

// release gives back the slots of a claim, now or once the store is there.
func (s *Store) release(conn *connection, b *breaker, key string, c *limit.Claim) int64 {
	err := errAway
	if !b.down.Load() {
		var answer rueidis.RedisResult
		answer, err = s.do(b, func() rueidis.RedisResult {
			return conn.Do(s.soon(), conn.B().Zrem().Key(key).Member(s.members(c.Receipt.Lease, c.N)...).Build())
		})
		if err == nil {
			back, _ := answer.AsInt64()
			return back
		}
	}
	s.leases.doubt(key, c.Receipt.Lease, c.N)
	return 0
}

// Forget implements limit.Store.
func (s *Store) Forget(sh *limit.Shared, key limit.Digest) bool {
	conn := s.conn.Load()
	if conn == nil {
		return false
	}
	name, kind := string(appendKey(nil, s.options.Prefix, sh, key)), sh.Terms.Algorithm
	if waits(kind) {
		kind = limit.TokenBucket // whose state theirs is
	}
	keys, arg := []string{name, name + recordSuffix}, string(rune(kind))
	answer, err := s.call(conn, s.breaker(conn, key), s.scripts.forget, keys, []string{arg}, s.soon())
	if err != nil {
		return false
	}
	gone, err := answer.AsInt64()
	return err == nil && gone == 1
}

// soon is when what begins now has to be done.
func (s *Store) soon() *deadline { return s.deadlines.in(s.options.Timeout, time.Now()) }

// call runs a script once, until ends at most, and tells the breaker.
func (s *Store) call(conn *connection, b *breaker, script *script, keys, args []string, ends *deadline) (rueidis.RedisResult, error) {
	return s.do(b, func() rueidis.RedisResult { return script.run(ends, conn, keys, args) })
}

// do asks the store something, and tells the breaker.
func (s *Store) do(b *breaker, ask func() rueidis.RedisResult) (rueidis.RedisResult, error) {
	if s.inFlight.Add(1) > mostInFlight {
		s.inFlight.Add(-1)
		s.failed(b, errBusy)
		return rueidis.RedisResult{}, errBusy
	}
	begun := time.Now()
	answer := ask()
	s.inFlight.Add(-1)
	err := answer.Error()
	s.stats.called(time.Since(begun))
	if err != nil {
		s.failed(b, err)
		return answer, err
	}
	b.succeeded()
	return answer, nil
}

// failed notes that the store did not do what it was asked.
func (s *Store) failed(b *breaker, err error) {
	s.stats.failed(err)
	if b.failed() {
		s.away(err)
	}
}

// quiet is how long a loss of the store is not logged again.
const quiet = time.Minute

// away notes that the store is away.
func (s *Store) away(err error) {
	now := time.Now().UnixNano()
	if !s.lost.CompareAndSwap(0, now) {
		return
	}
	if now-s.said.Load() < int64(quiet) {
		s.hushed.Store(true)
		return
	}
	s.said.Store(now)
	s.hushed.Store(false)
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "the store is lost: rules do what their fail says",
		slog.Any("store", s.options.Addrs), slog.String("error", err.Error()))
}

// back notes that nothing of the store is away any more.
func (s *Store) back() {
	since := s.lost.Swap(0)
	if since == 0 || s.hushed.Load() || s.said.Load() == 0 {
		return
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "the store is back",
		slog.Any("store", s.options.Addrs), slog.Duration("after", time.Duration(time.Now().UnixNano()-since).Round(time.Millisecond)))
}
