package limit

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// office is a few Tables of any algorithms and, for each of their clients, the
// slow obvious model: whole requests are decided by both.
type office struct {
	r      *rapid.T
	desks  []*desk
	now    Instant
	grants []*paper
}

// desk is one Table and its models.
type desk struct {
	algorithm
	full    int64
	permits int64
	per     time.Duration
	table   *Table
	clients map[int]model
	latest  Instant // no take counts as earlier
}

// paper is a Grant and what the models remember of it.
type paper struct {
	grant Grant
	took  []*slip
}

type slip struct {
	d      *desk
	client int
	at     Instant
	n      int64
}

const officeClients = 3

func newOffice(r *rapid.T) *office {
	o := &office{r: r, now: start}
	budget := NewBudget(1 << 24)
	for range rapid.IntRange(2, 3).Draw(r, "tables") {
		d := &desk{
			algorithm: algorithms[rapid.IntRange(0, len(algorithms)-1).Draw(r, "algorithm")],
			permits:   rapid.Int64Range(1, 12).Draw(r, "permits"),
			per:       rapid.SampledFrom([]time.Duration{10, 1000, time.Second}).Draw(r, "per"),
			clients:   map[int]model{},
			latest:    -1 << 62,
		}
		d.full = d.permits
		if d.bursts {
			d.full = rapid.Int64Range(1, 12).Draw(r, "burst")
		}
		b, err := d.make(d.permits, d.per, d.full)
		if err != nil {
			r.Fatalf("%v", err)
		}
		d.table = NewTable(Numbers{Bucket: inTable(b), Slots: d.slots}, 1000, budget)
		o.desks = append(o.desks, d)
	}
	return o
}

func (d *desk) model(client int) model {
	if d.clients[client] == nil {
		d.clients[client] = d.algorithm.model(d.permits, d.per, d.full)
	}
	return d.clients[client]
}

// room is what client has at the instant at.
func (d *desk) room(client int, at Instant) *big.Rat { return d.model(client).left(max(at, d.latest)) }

// request asks for a random request and compares all that is said of it.
func (o *office) request() {
	r := o.r
	now := o.now - Instant(rapid.SampledFrom([]int64{0, 0, 0, 1, 1500}).Draw(r, "late"))
	order := rapid.Permutation([]int{0, 1, 2}[:len(o.desks)]).Draw(r, "order")[:rapid.IntRange(1, len(o.desks)).Draw(r, "claims")]
	var claims []Claim
	who := map[*Table]*slip{}
	ok := true
	at := now // a request is decided at one instant: the latest that any of its desks has seen
	for _, i := range order {
		at = max(at, o.desks[i].latest)
	}
	for _, i := range order {
		d := o.desks[i]
		d.latest = at
		s := &slip{d: d, client: rapid.IntRange(0, officeClients-1).Draw(r, "client"), at: d.latest}
		some := floorOf(d.room(s.client, now))
		s.n = max(0, rapid.OneOf(rapid.SampledFrom([]int64{1, 1, 0, some, some + 1, d.full + 1}), rapid.Int64Range(0, d.full)).Draw(r, "n"))
		who[d.table] = s
		c := claim(d.table, key(s.client), s.n)
		if rapid.IntRange(0, 9).Draw(r, "dry") == 0 {
			c.Mode = DryRun
		}
		ok = ok && (c.Mode == DryRun || s.n == 0 || s.n <= some)
		claims = append(claims, c)
	}
	grant, v, claims := acquire(now, claims...)
	if v.At != at {
		r.Fatalf("decided at %d, want %d", v.At, at)
	}
	if v.OK != ok || v.Full {
		r.Fatalf("verdict %+v of %d claims at %d, want %v", v, len(claims), now, ok)
	}
	p := &paper{grant: grant}
	strictest := time.Duration(0)
	for i := range claims {
		c := &claims[i]
		s := who[c.Table]
		there := floorOf(s.d.room(s.client, now))
		has := s.n == 0 || s.n <= there
		if c.Result.OK != has {
			r.Fatalf("%s: room %v for %d units with %d there", s.d.name, c.Result.OK, s.n, there)
		}
		if has && ok {
			there -= s.n
		}
		if want := max(0, there); c.Result.Remaining != want {
			r.Fatalf("%s: take %d at %d: %d left, want %d", s.d.name, s.n, now, c.Result.Remaining, want)
		}
		if !has {
			o.checkWait(s, now, c.Result)
			if c.Mode == Enforce {
				strictest = longer(strictest, c.Result.Wait)
			}
		} else if c.Result.Wait != 0 {
			r.Fatalf("%s: wait %v with room", s.d.name, c.Result.Wait)
		}
	}
	if v.Wait != strictest {
		r.Fatalf("verdict %+v, the longest wait is %v", v, strictest)
	}
	if !ok {
		return
	}
	for i := range claims {
		if s := who[claims[i].Table]; claims[i].Result.OK {
			s.d.model(s.client).add(event{at: s.at, units: s.n})
			p.took = append(p.took, s)
		}
	}
	o.grants = append(o.grants, p)
}

func (o *office) checkWait(s *slip, now Instant, got Result) {
	switch {
	case s.n > s.d.full:
		if got.Wait != Never {
			o.r.Fatalf("%s: %d units of %d: wait %v", s.d.name, s.n, s.d.full, got.Wait)
		}
	case s.d.slots:
		if got.Wait != time.Second {
			o.r.Fatalf("slots: wait %v", got.Wait)
		}
	case got.Wait <= 0 || s.d.room(s.client, now.Add(got.Wait)).Cmp(rat(s.n)) < 0:
		o.r.Fatalf("%s: %d units at %d: a wait of %v is too short", s.d.name, s.n, now, got.Wait)
	case s.d.room(s.client, now.Add(got.Wait-1)).Cmp(rat(s.n)) >= 0:
		o.r.Fatalf("%s: %d units at %d: a wait of %v is too long", s.d.name, s.n, now, got.Wait)
	}
}

// settle ends a request: all, some or nothing comes back, or more is charged.
func (o *office) settle() {
	if len(o.grants) == 0 {
		return
	}
	i := rapid.IntRange(0, len(o.grants)-1).Draw(o.r, "grant")
	p := o.grants[i]
	o.grants = slices.Delete(o.grants, i, i+1)
	back := map[*Table]int64{}
	for _, s := range p.took {
		n := rapid.Int64Range(-5, s.n).Draw(o.r, "back")
		back[s.d.table] = n
		at := max(o.now, s.d.latest)
		switch {
		case s.d.slots:
			n = s.n
			fallthrough
		case n > 0:
			s.d.model(s.client).add(event{at: at, back: n, taken: s.at})
		case n < 0:
			s.d.model(s.client).add(event{at: at, units: -n, charged: true})
		}
		if n != 0 {
			s.d.latest = at
		}
	}
	for range 2 { // the second time is nothing
		p.grant.Done(o.now, func(c *Claim) int64 { return back[c.Table] })
	}
}

// Section 3 and law 7: with two or three rules of any algorithms every decision
// on a whole request, every figure and every wait is that of the models, and what
// is refused by one rule is charged to none.
func TestRequestsAreDecidedLikeTheModels(t *testing.T) { rapid.Check(t, officeHistory) }

func officeHistory(r *rapid.T) {
	o := newOffice(r)
	for range rapid.IntRange(1, 40).Draw(r, "events") {
		per := int64(o.desks[rapid.IntRange(0, len(o.desks)-1).Draw(r, "clock")].per)
		o.now += Instant(rapid.OneOf(rapid.SampledFrom([]int64{0, 0, 0, 1, per / 7, per}), rapid.Int64Range(0, per)).Draw(r, "pass"))
		switch rapid.SampledFrom([]string{"request", "request", "request", "settle", "sweep"}).Draw(r, "op") {
		case "request":
			o.request()
		case "settle":
			o.settle()
		case "sweep":
			for _, d := range o.desks {
				if d.table.shards() > 0 {
					d.table.Sweep(o.now)
					d.latest = max(d.latest, o.now)
				}
			}
		}
	}
	for _, d := range o.desks {
		audit(r, d.table)
	}
}
