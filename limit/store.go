package limit

import (
	"context"
	"slices"
	"time"
)

// Store counts where many gateways count together. It is for claims that are
// Shared. A Store is safe for concurrent use.
type Store interface {
	// Up reports whether the store can be asked about the key of c at all; it does
	// not wait.
	Up(c *Claim) bool
	// Acquire takes all claims or none, as Limiter.Acquire does, by the time of the
	// store. It fills in Result and Receipt, and returns how long that took. With
	// peek it takes nothing. The error says that the store did not decide, or not in
	// time; it may have taken the claims all the same, once.
	Acquire(claims []Claim, peek bool) (time.Duration, error)
	// Settle gives back n units of a claim that Acquire took, or charges -n more,
	// and returns how many came back. The slots of requests in progress are given
	// back whole.
	Settle(c *Claim, n int64) int64
	// Forget forgets what a key has used, if nothing of it is in progress.
	Forget(s *Shared, key Digest) bool
}

// Receipt is what a Store needs to know of a take to settle it.
type Receipt struct {
	// At is the instant of the take by the store's clock, Born tells the life of the
	// key, Lease names the slot.
	At, Born int64
	Lease    uint64
}

// Fate says who decided a claim.
type Fate uint8

const (
	// Here is the Table of the claim: it is not Shared, or the store could not be
	// asked.
	Here Fate = iota
	// There is the store.
	There
	// Unasked is nobody, since another claim had refused the request already.
	Unasked
	// LetPass is nobody: the store could not be asked, and the claim is Open. It
	// holds nothing.
	LetPass
	// Lost is nobody: the store could not be asked, and the claim is Closed. An
	// enforced one refuses the request.
	Lost
)

// isShared reports whether a claim is counted in a store.
func (c *Claim) isShared() bool { return c.Shared != nil }

// anyShared says that some claim is counted in a store.
func anyShared(claims []Claim) bool {
	for i := range claims {
		if claims[i].isShared() {
			return true
		}
	}
	return false
}

// ask is Acquire, or Peek, with claims that are Shared among the others. Those in
// memory are asked first, since a refusal there asks nobody else, and with them
// those that have to be counted here for want of the store; then the store. What
// memory took goes back when the store refuses.
func (l *Limiter) ask(now Instant, claims []Claim, peek bool) (Grant, Verdict) {
	g, v := l.decide(now, claims, peek)
	v.At = max(v.At, now)
	if v.Seq == 0 || g.n > 0 {
		v.Seq = numberApart(claims, v.Seq)
	}
	return g, v
}

// numberApart is number for claims of which a Store has decided some, so that no locks
// are held: the number is one more than that of any of them before, and than seq.
func numberApart(claims []Claim, seq uint64) uint64 {
	if len(claims) == 0 {
		return 0
	}
	seq = claims[0].Table.budget.number(seq)
	for i := range claims {
		if c := &claims[i]; c.Fate == Here {
			c.Table.raise(c.Key, seq)
		}
	}
	return seq
}

func (l *Limiter) decide(now Instant, claims []Claim, peek bool) (Grant, Verdict) {
	here, there := l.divide(claims)
	if v, refused := remembered(there, now, here); refused {
		return Grant{}, v
	}
	if v := l.lost(claims); !v.OK {
		return Grant{}, v
	}
	_, v := memory(now, here, peek)
	if !v.OK || len(there) == 0 {
		unask(there)
		return grantIf(l, claims, v, peek)
	}
	seen, turn := v.At, v.Wait
	took, err := l.Store.Acquire(there, peek)
	if err != nil {
		g, v := l.without(now, claims, here, there, peek)
		if v.OK {
			v.Wait = turn // only memory lets requests wait
		}
		return g, v
	}
	v = heard(there, now, took, !peek)
	if v.At = seen; v.OK {
		v.Wait = turn
	}
	if !v.OK && !peek {
		returnAll(here, now)
	}
	return grantIf(l, claims, v, peek)
}

// divide brings the claims that the store is to be asked about behind the others,
// and gives all others their Fate.
func (l *Limiter) divide(claims []Claim) (here, there []Claim) {
	for i := range claims {
		c := &claims[i]
		switch {
		case !c.isShared():
			c.Fate = Here
		case l.Store.Up(c):
			c.Fate, c.asked = There, l.Store
		default:
			c.away()
		}
	}
	slices.SortStableFunc(claims, func(a, b Claim) int { return a.Fate.group() - b.Fate.group() })
	n, m := 0, 0
	for n < len(claims) && claims[n].Fate == Here {
		n++
	}
	for m = n; m < len(claims) && claims[m].Fate == There; m++ {
	}
	return claims[:n:n], claims[n:m:m]
}

// group orders claims: those asked here, those asked there, those asked nowhere.
func (f Fate) group() int { return min(int(f), int(Unasked)) }

// away decides who decides a claim whose store cannot be asked.
func (c *Claim) away() {
	switch {
	case c.Closed:
		c.Fate, c.Result = Lost, Result{}
	case c.Open:
		c.Fate, c.Result = LetPass, Result{OK: true}
	default:
		c.Fate = Here
	}
}

// lost refuses a request of which an enforced claim is Lost.
func (l *Limiter) lost(claims []Claim) Verdict {
	v := Verdict{Ruling: Ruling{OK: true}}
	for i := range claims {
		if c := &claims[i]; c.Fate == Lost && c.Mode == Enforce {
			v = Verdict{Ruling: Ruling{Lost: true}, Wait: time.Second}
		}
	}
	if !v.OK {
		for i := range claims {
			if c := &claims[i]; c.Fate != Lost {
				c.Fate, c.Result = Unasked, Result{OK: true}
			}
		}
	}
	return v
}

// unask notes that claims were not asked for.
func unask(claims []Claim) {
	for i := range claims {
		claims[i].Fate, claims[i].Result = Unasked, Result{OK: true}
	}
}

// remembered refuses a request that the store has refused and would refuse again.
func remembered(there []Claim, now Instant, here []Claim) (v Verdict, refused bool) {
	for i := range there {
		c := &there[i]
		r, ok := c.Shared.refused.find(c.Key, now, c.N)
		if !ok || c.Mode != Enforce {
			continue
		}
		c.Result = r
		v.Wait, refused = longer(v.Wait, r.Wait), true
	}
	if !refused {
		return Verdict{}, false
	}
	for i := range there {
		if c := &there[i]; c.Mode != Enforce || c.Result.OK || c.Result.Wait == 0 {
			c.Fate, c.Result = Unasked, Result{OK: true}
		}
	}
	unask(here)
	return v, true
}

// memory asks the Tables of claims.
func memory(now Instant, claims []Claim, peek bool) (Grant, Verdict) {
	var l Limiter
	if peek {
		return Grant{}, l.Peek(now, claims)
	}
	return l.Acquire(context.Background(), now, claims)
}

// without goes on when the store did not answer: by what each claim says of that.
func (l *Limiter) without(now Instant, claims, here, there []Claim, peek bool) (Grant, Verdict) {
	local := 0
	for i := range there {
		c := &there[i]
		if c.away(); c.Fate == Here {
			there[i], there[local] = there[local], there[i]
			local++
		}
	}
	v := l.lost(claims)
	if v.OK {
		if _, v = memory(now, there[:local], peek); v.OK {
			return grantIf(l, claims, v, peek)
		}
	}
	if !peek {
		returnAll(here, now)
	}
	return Grant{}, v
}

// returnAll gives back what the Tables of claims took for a request that is
// refused after all.
func returnAll(claims []Claim, now Instant) {
	took := grantOf(claims)
	took.Cancel(now)
	for i := range claims {
		if c := &claims[i]; c.Result.OK {
			c.Result.Remaining += c.N
		}
	}
}

// heard makes a verdict of what the store has said of claims, which were asked for
// at now, and remembers refusals. Since the store was asked some time has gone by,
// of which nobody knows how much came before it decided: a wait counts from the end
// of it, and what is remembered from the beginning.
func heard(claims []Claim, now Instant, took time.Duration, remember bool) Verdict {
	v := Verdict{Ruling: Ruling{OK: true}}
	for i := range claims {
		c := &claims[i]
		refused := !c.Result.OK && c.Mode == Enforce
		if refused && remember && !c.Shared.Returns && c.Shared.Terms.Algorithm != Concurrency {
			c.Shared.refused.add(c.Key, now, c.N, c.Result)
		}
		if c.Shared.Terms.Algorithm != Concurrency {
			c.Result.countFrom(now, now.Add(took))
		}
		if refused {
			v.OK, v.Wait = false, longer(v.Wait, c.Result.Wait)
		}
	}
	return v
}

func grantIf(l *Limiter, claims []Claim, v Verdict, peek bool) (Grant, Verdict) {
	if !v.OK || peek {
		return Grant{}, v
	}
	return grantOf(claims), v
}

// settleThere settles what a claim has taken in the store.
func (c *Claim) settleThere(now Instant, o Outcome) {
	n := c.N
	if c.Shared.Terms.Algorithm != Concurrency {
		n = 0
		if o != nil {
			n = min(o(c), c.N)
		}
		if n == 0 && !c.Pending {
			return
		}
	}
	c.Shared.refused.forget(c.Key)
	c.SettledAt, c.SettledSeq = now, c.Table.budget.number(0)
	c.Returned = c.asked.Settle(c, n)
}

// Forget is Table.Forget for a key that a Store counts too. A nil Shared is none.
func (l *Limiter) Forget(t *Table, s *Shared, key Digest) bool {
	all := t.Forget(key)
	if s == nil || l.Store == nil {
		return all
	}
	s.refused.forget(key)
	return l.Store.Forget(s, key) && all
}
