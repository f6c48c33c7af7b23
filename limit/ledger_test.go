package limit

import (
	"flag"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The ledger is law 8 for one thread, over whole Tables: random histories of
// take, give back, charge, Renew, partial sweeps and evictions, by old and new
// rule lists. It follows for each client the units it KEPT (what was given back
// later was never taken), in exact rationals: an ideal bucket of the numbers
// in force at each take must have had room for them. This is the invariant
// Φ = level + Σ max(0, nᵢ − rΔᵢ) ≤ B said the other way round, and it does not
// know how the Table gets there.
type ledger struct {
	r      *rapid.T
	table  *Table
	nums   []rate // by generation, from 1 on
	now    Instant
	takes  map[int][]*entry // of each client's present life, in order
	grants []*entry
	lost   *big.Rat // units in use of evicted clients
}

// rate is one generation's numbers.
type rate struct {
	permits, burst int64
	per            time.Duration
	at             Instant
}

type entry struct {
	client  int
	at      Instant
	gen     uint32
	kept    int64
	n       int64
	charged bool
	grant   Grant
}

func (l *ledger) numbers(x rate) Numbers { return tokenNumbers(l.r, x.permits, x.per, x.burst) }

// inUse replays what the client kept and returns what an ideal bucket has in
// use at the instant now. With check it fails when a take found no room.
func (l *ledger) inUse(client int, now Instant, check bool) *big.Rat {
	used, at, g := rat(0), start, uint32(0)
	advance := func(to Instant, togen uint32) {
		if g == 0 {
			g = togen
		}
		decay := func(to Instant) {
			if to > at {
				m := tokenModel{permits: l.nums[g].permits, per: l.nums[g].per}
				used = most(rat(0), new(big.Rat).Sub(used, m.refill(at, to)))
				at = to
			}
		}
		for ; g < togen; g++ {
			decay(l.nums[g+1].at)
			used = least(used, rat(l.nums[g+1].burst))
		}
		decay(to)
	}
	for _, e := range l.takes[client] {
		advance(e.at, e.gen)
		used = new(big.Rat).Add(used, rat(e.kept))
		if check && !e.charged && e.kept > 0 && used.Cmp(rat(l.nums[g].burst)) > 0 {
			l.r.Fatalf("client %d kept %d at %d under generation %d, and then %v of %d are in use", client, e.kept, e.at, e.gen, used, l.nums[g].burst)
		}
	}
	advance(now, uint32(len(l.nums)-1))
	return used
}

const (
	ledgerClients = 4
	spilledClient = 100 // stands for those that share the first counter, and so on
)

// settleAbsence notes who is no longer remembered: after a sweep they must be
// idle; after a take one may have been evicted.
func (l *ledger) settleAbsence(evicting bool) {
	for c := range ledgerClients {
		if len(l.takes[c]) == 0 || holds(l.table, key(c)) {
			continue
		}
		used := l.inUse(c, l.now, false)
		if used.Sign() > 0 && !evicting {
			l.r.Fatalf("client %d was forgotten at %d with %v in use", c, l.now, used)
		}
		l.lost.Add(l.lost, used)
		delete(l.takes, c)
	}
	if given := l.table.Stats().EvictedUnits; l.lost.Cmp(rat(given)) > 0 {
		l.r.Fatalf("evictions gave away %v units, %d were counted", l.lost, given)
	}
}

func (l *ledger) take() {
	r, newest := l.r, uint32(len(l.nums)-1)
	c := rapid.IntRange(0, ledgerClients-1).Draw(r, "client")
	gen := newest
	if rapid.IntRange(0, 3).Draw(r, "old list") == 0 {
		gen = rapid.Uint32Range(max(1, newest-min(newest, 2)), newest).Draw(r, "gen")
	}
	most := l.nums[newest].burst
	n := rapid.OneOf(rapid.SampledFrom([]int64{1, 1, most, most / 2}), rapid.Int64Range(0, most+1)).Draw(r, "n")
	cl := claim(l.table, key(c), n)
	cl.Gen = gen
	before := stored(l.table, key(c))
	g, v, claims := acquire(l.now, cl)
	decided := claims[0].gen.num
	if decided != newest {
		r.Fatalf("a claim of list %d on a State of generation %d was decided by %d, want the newest, %d", gen, before.Gen, decided, newest)
	}
	l.settleAbsence(true)
	if !v.OK {
		if after := stored(l.table, key(c)); after != before {
			r.Fatalf("a refusal changed %+v to %+v", before, after)
		}
		return
	}
	if n == 0 && !holds(l.table, key(c)) && claims[0].over == nil {
		return
	}
	if claims[0].over != nil { // no place: counted together with others
		c = spilledClient + int(key(c).Lo%overflows)
	}
	e := &entry{client: c, at: claims[0].at, gen: decided, n: n, kept: n, grant: g}
	l.takes[c] = append(l.takes[c], e)
	if n > 0 {
		l.grants = append(l.grants, e)
	}
	for client := range l.takes {
		l.inUse(client, l.now, true)
	}
}

// settle ends a request. Only what verifiably came back in time may be passed
// on to others; the check is that taking it as never taken holds for ever.
func (l *ledger) settle() {
	if len(l.grants) == 0 {
		return
	}
	i := rapid.IntRange(0, len(l.grants)-1).Draw(l.r, "grant")
	e := l.grants[i]
	l.grants = append(l.grants[:i], l.grants[i+1:]...)
	n := rapid.Int64Range(0, e.n).Draw(l.r, "back")
	if rapid.IntRange(0, 5).Draw(l.r, "charge") == 0 {
		n = -n
	}
	if e.client >= spilledClient {
		n = max(n, 0)
		e.grant.Done(l.now, giveBack(n))
		e.kept -= n
		return
	}
	acquire(l.now, claim(l.table, key(e.client), 0)) // brings the State up to now
	before := stored(l.table, key(e.client)).Used
	e.grant.Done(l.now, giveBack(n))
	e.grant.Done(l.now, giveBack(e.n))
	if n >= 0 {
		e.kept -= n
		return
	}
	l.settleAbsence(true)
	if holds(l.table, key(e.client)) { // a debt has a floor: less may have been charged
		st := stored(l.table, key(e.client))
		l.takes[e.client] = append(l.takes[e.client], &entry{client: e.client, at: l.now, gen: st.Gen, kept: st.Used - before, charged: true})
	}
}

func (l *ledger) renew() {
	if len(l.nums) > 6 {
		return
	}
	last := l.nums[len(l.nums)-1]
	x := rate{permits: rapid.Int64Range(1, 20).Draw(l.r, "permits"), burst: rapid.Int64Range(1, 20).Draw(l.r, "burst"), per: last.per, at: l.now}
	x.per = rapid.SampledFrom([]time.Duration{7, 1000, time.Second}).Draw(l.r, "per")
	l.nums = append(l.nums, x)
	l.table.Renew(uint32(len(l.nums)-1), l.now, l.numbers(x), rapid.Int64Range(1, ledgerClients+1).Draw(l.r, "max keys"))
}

// S26: a hundred histories, or with GATEWAY_LONG a million events.
func TestNoHistoryLetsMoreThroughThanTheLimit(t *testing.T) {
	const each = 17 // events of a history, on average
	if os.Getenv("GATEWAY_LONG") != "" {
		checks := flag.Lookup("rapid.checks").Value
		before := checks.String()
		defer checks.Set(before)
		checks.Set(strconv.Itoa(1_000_000 / each * 11 / 10))
	}
	histories, events := 0, 0
	rapid.Check(t, func(r *rapid.T) { histories, events = histories+1, events+ledgerHistory(r) })
	t.Attr("S26", fmt.Sprintf("%d histories of %d takes, refunds, sweeps, edits within the limit", histories, events))
}

func FuzzNoHistoryLetsMoreThroughThanTheLimit(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(r *rapid.T) { ledgerHistory(r) }))
}

func ledgerHistory(r *rapid.T) (events int) {
	l := &ledger{r: r, now: start, takes: map[int][]*entry{}, lost: rat(0)}
	first := rate{
		permits: rapid.Int64Range(1, 20).Draw(r, "permits"), burst: rapid.Int64Range(1, 20).Draw(r, "burst"),
		per: rapid.SampledFrom([]time.Duration{7, 1000, time.Second}).Draw(r, "per"), at: start,
	}
	l.nums = []rate{{}, first}
	l.table = NewTable(l.numbers(first), rapid.Int64Range(2, ledgerClients+1).Draw(r, "max keys"), NewBudget(1<<20))
	events = rapid.IntRange(1, 50).Draw(r, "events")
	for range events {
		last := l.nums[len(l.nums)-1]
		unit := int64(last.per) / last.permits
		l.now += Instant(rapid.OneOf(rapid.SampledFrom([]int64{0, 0, 1, unit}), rapid.Int64Range(0, 2*unit), rapid.Int64Range(0, 30*unit)).Draw(r, "pass"))
		switch op := rapid.SampledFrom([]string{"take", "take", "take", "take", "settle", "settle", "renew", "sweep", "step", "split"}).Draw(r, "op"); op {
		case "take":
			l.take()
		case "settle":
			l.settle()
		case "renew":
			l.renew()
		case "sweep":
			l.table.Sweep(l.now)
			l.settleAbsence(false)
		case "step":
			if l.table.shards() > 0 {
				l.table.sweepNext(l.now)
				l.settleAbsence(false)
			}
		case "split":
			if depth(l.table, key(0)) < 3 {
				split(r, l.table, key(0))
			}
		}
	}
	for client := range l.takes {
		l.inUse(client, l.now, true)
	}
	audit(r, l.table)
	return events
}
