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
	// store, unless less is intended. It fills in Result, Blocked and Receipt, and
	// returns how long that took. Where the request has to wait (see Turn) it takes no
	// slots. The error says that the store did not decide, or not in time; it may have
	// taken the claims all the same, once.
	Acquire(claims []Claim, a Ask) (time.Duration, error)
	// Settle gives back n units of a claim that Acquire took, or charges -n more,
	// and returns how many came back. The slots of requests in progress are given
	// back whole.
	Settle(c *Claim, n int64) int64
	// Forget forgets what a key has used, if nothing of it is in progress.
	Forget(s *Shared, key Digest) bool
}

// Intent is what a Store is asked for.
type Intent uint8

const (
	// ToTake is to take all claims or none, as Limiter.Acquire does.
	ToTake Intent = iota
	// ToLook is to take nothing, as Limiter.Peek does.
	ToLook
	// ToTry is to take nothing, and to count a refusal, as Limiter.Try does.
	ToTry
)

// Ask says how a Store is asked.
type Ask struct {
	Intent Intent
	// Turn is how long the request has to wait anyway, for its turn elsewhere.
	Turn time.Duration
	// MustWait refuses it, though all claims have room, if it could leave at once.
	MustWait bool
}

// Receipt is what a Store needs to know of a take to settle it.
type Receipt struct {
	// At is the instant of the take by the store's clock, Born tells the life of the
	// key, Lease names the slot. Ahead is what was in use right after the take in a
	// bucket that lets requests wait, in parts of a unit.
	At, Born, Ahead int64
	Lease           uint64
	// Block is how long the block of a Blocked claim lasts.
	Block time.Duration
	// Unused says that the request never left: all of the take comes back that can.
	Unused bool
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
func (l *Limiter) ask(now Instant, claims []Claim, i Intent) (Grant, Verdict) {
	g, v := l.decide(now, claims, i)
	v.At = max(v.At, now)
	if v.Seq == 0 || g.n > 0 {
		v.Seq = numberApart(claims, v.Seq)
	}
	return g, v
}

// numberApart numbers a decision of which a Store had a part, so that no locks
// are held: by one more than any of them before has, and than seq.
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

func (l *Limiter) decide(now Instant, claims []Claim, i Intent) (Grant, Verdict) {
	here, there := l.divide(claims)
	if v, refused := remembered(there, now, here, i); refused {
		return Grant{}, v
	}
	if v := l.lost(claims); !v.OK {
		return Grant{}, v
	}
	return l.meet(now, claims, here, there, i)
}

// divide brings the claims that the store is to be asked about behind the others,
// and gives all others their Fate.
func (l *Limiter) divide(claims []Claim) (here, there []Claim) {
	for i := range claims {
		c := &claims[i]
		c.Blocked, c.taken.deferred, c.taken.released, c.taken.canceled = false, false, false, false
		c.Returned, c.SettledAt, c.SettledSeq = 0, 0, 0
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

// anyLost says that an enforced claim is Lost.
func anyLost(claims []Claim) bool {
	for i := range claims {
		if c := &claims[i]; c.Fate == Lost && c.Mode == Enforce {
			return true
		}
	}
	return false
}

// lost refuses a request of which an enforced claim is Lost.
func (l *Limiter) lost(claims []Claim) Verdict {
	if !anyLost(claims) {
		return Verdict{Ruling: Ruling{OK: true}}
	}
	for i := range claims {
		if c := &claims[i]; c.Fate != Lost {
			c.Fate, c.Result = Unasked, Result{OK: true}
		}
	}
	return Verdict{Ruling: Ruling{Lost: true}, Wait: time.Second}
}

// unask notes that claims were not asked for.
func unask(claims []Claim) {
	for i := range claims {
		claims[i].Fate, claims[i].Result = Unasked, Result{OK: true}
	}
}

// remembered refuses a request that the store has refused and would refuse again.
// Where the refusal may count for a penalty, who has that counts it; but none of a
// blocked key does.
func remembered(there []Claim, now Instant, here []Claim, intent Intent) (v Verdict, refused bool) {
	blocked, counted := false, false
	for i := range there {
		c := &there[i]
		c.Result = Result{}
		counted = counted || c.Mode == Enforce && c.Shared.Punishes()
		r, block, ok := c.Shared.refused.find(c.Key, now, c.N)
		if !ok || c.Mode != Enforce {
			continue
		}
		c.Result, c.Blocked = r, block
		blocked = blocked || block
		v.Wait, refused = longer(v.Wait, r.Wait), true
	}
	if !refused || counted && !blocked && intent != ToLook {
		return Verdict{}, false
	}
	for i := range there {
		if c := &there[i]; c.Result.Wait == 0 {
			c.Fate, c.Result = Unasked, Result{OK: true}
		}
	}
	if blocked || intent == ToLook || !anyPunishes(here) {
		unask(here)
	} else if mine := memory(now, here, ToTry, 0); !mine.OK {
		v.Wait = longer(v.Wait, mine.Wait)
	}
	return v, true
}

// anyPunishes says that the Table of some claim counts refusals.
func anyPunishes(claims []Claim) bool {
	for i := range claims {
		if claims[i].Table.Numbers().Penalty.After != nil {
			return true
		}
	}
	return false
}

// memory asks the Tables of claims. The request has to wait for turn anyway.
func memory(now Instant, claims []Claim, i Intent, turn time.Duration) Verdict {
	l := Limiter{turn: turn}
	switch i {
	case ToLook:
		return l.Peek(now, claims)
	case ToTry:
		return l.Try(now, claims)
	}
	_, v := l.Acquire(context.Background(), now, claims)
	return v
}

// without goes on when the store did not answer: by what each claim says of that.
// What memory took already has to wait for turn.
func (l *Limiter) without(now Instant, claims, here, there []Claim, i Intent, turn time.Duration) (Grant, Verdict) {
	local, anew := 0, anyWaits(there)
	for i := range there {
		c := &there[i]
		if c.away(); c.Fate == Here {
			there[i], there[local] = there[local], there[i]
			local++
		}
	}
	lost := anyLost(claims)
	if lost || anew {
		l.returnAll(here, now, i)
	}
	if lost {
		return Grant{}, l.lost(claims)
	}
	if anew { // all in memory, where they agree on when the request leaves
		return grantIf(l, claims, memory(now, claims[:len(here)+local], i, 0), i)
	}
	v := memory(now, there[:local], i, turn)
	if !v.OK {
		l.returnAll(here, now, i)
	}
	return grantIf(l, claims, v, i)
}

// returnAll gives back what was taken of claims for a request that is refused after
// all, or is to ask anew.
func (l *Limiter) returnAll(claims []Claim, now Instant, i Intent) {
	if i != ToTake {
		return
	}
	took := grantOf(claims)
	took.Cancel(now)
	for i := range claims {
		if c := &claims[i]; c.Result.OK {
			c.Result.Remaining += c.N
			c.Result.Wait = 0
		}
	}
}

// heard makes a verdict of what the store has said of claims, which were asked for
// at now, and remembers refusals. Since the store was asked some time has gone by,
// of which nobody knows how much came before it decided: a wait counts from the end
// of it, and what is remembered from the beginning.
func heard(claims []Claim, now Instant, took time.Duration, a Ask) Verdict {
	v := Verdict{Ruling: Ruling{OK: true}}
	turn, full := a.Turn, false
	remember := a.Intent == ToTake
	alone := a.Turn == 0 && waiting(claims) <= 1
	for i := range claims {
		c := &claims[i]
		slots, refused := c.Shared.Terms.Algorithm == Concurrency && !c.Blocked, !c.Result.OK && c.Mode == Enforce
		if refused && remember {
			c.Shared.remember(c, now, alone)
		}
		if !slots {
			c.Result.countFrom(now, now.Add(took))
		}
		switch {
		case refused:
			full = full || slots
			v.OK, v.Wait = v.OK && slots, longer(v.Wait, c.Result.Wait)
		case c.Result.OK && c.Mode == Enforce:
			turn = max(turn, c.Result.Wait)
		}
	}
	if v.OK = v.OK && (turn > 0 || !full); v.OK {
		v.Wait = turn
	}
	for i := range claims {
		if c := &claims[i]; v.OK && turn > 0 && c.Shared.Terms.Algorithm == Concurrency {
			c.taken.deferred = true
		}
	}
	return v
}

func grantIf(l *Limiter, claims []Claim, v Verdict, i Intent) (Grant, Verdict) {
	if !v.OK || i != ToTake {
		return Grant{}, v
	}
	return grantOf(claims), v
}

// settleThere settles what a claim has taken in the store.
func (c *Claim) settleThere(now Instant, o Outcome, canceled bool) {
	n := c.N
	switch c.Receipt.Unused = canceled; {
	case c.taken.deferred:
		return
	case c.Shared.Terms.Algorithm == Concurrency:
	case !canceled:
		n = 0
		if o != nil {
			n = min(o(c), c.N)
		}
		fallthrough
	default:
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
