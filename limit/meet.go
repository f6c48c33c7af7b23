package limit

import "time"

// meetings bounds how often memory and a store are asked about one request until they
// agree on when it leaves: each time others must have come in between.
const meetings = 4

// meet asks for claims in memory, here, and then in the store, there. Where requests
// wait, both have to agree on when this one leaves: that is the last of its turns, and
// then it leaves every leaky bucket, wherever that is counted. One that waits takes
// no slots, wherever those are, and is not refused for want of them.
func (l *Limiter) meet(now Instant, claims, here, there []Claim, i Intent) (Grant, Verdict) {
	var turn time.Duration
	if anyWaits(there) && anySlots(here) && !memory(now, here, ToLook, 0).OK && noSlot(here) {
		turn = mustWait
	}
	v := memory(now, here, i, turn)
	if !v.OK || len(there) == 0 {
		unask(there)
		return grantIf(l, claims, v, i)
	}
	for range meetings {
		ask := Ask{Intent: i, Turn: v.Wait}
		if turn == mustWait && v.Wait == mustWait {
			ask.Turn, ask.MustWait = 0, true
		}
		took, err := l.Store.Acquire(there, ask)
		if err != nil {
			return l.without(now, claims, here, there, i, ask.Turn)
		}
		w := heard(there, now, took, ask)
		if !w.OK {
			l.returnAll(here, now, i)
			w.At = v.At
			return Grant{}, w
		}
		if ask.MustWait && w.Wait == 0 { // it need not wait, so it needs a slot
			l.returnAll(here, now, i)
			if turn, v = 0, memory(now, here, i, 0); !v.OK {
				return Grant{}, v
			}
			continue
		}
		if w.Wait > v.Wait && i == ToTake {
			if v = l.follow(now, here, w.Wait); !v.OK {
				l.returnAll(there, now, i)
				return Grant{}, v
			}
		}
		if i != ToTake || v.Wait <= w.Wait || !anyLeaves(there, v.Wait) {
			v.Wait = max(v.Wait, w.Wait)
			return grantIf(l, claims, v, i)
		}
		l.returnAll(there, now, i)
	}
	l.returnAll(here, now, i)
	for i := range here {
		if c := &here[i]; c.Mode == Enforce && c.gen.queue != nil {
			c.Result = Result{Wait: time.Second, Reset: time.Second}
		}
	}
	return Grant{}, Verdict{At: v.At, Wait: time.Second}
}

// mustWait is the turn of a request that has no slot here, so that it passes only if it
// has to wait in the store: as good as none, but no slots are taken.
const mustWait time.Duration = 1

// follow makes a request that has taken claims in memory leave at turn, for which it has
// to wait in the store.
func (l *Limiter) follow(now Instant, claims []Claim, turn time.Duration) Verdict {
	if anyLeaves(claims, turn) {
		l.returnAll(claims, now, ToTake)
		return memory(now, claims, ToTake, turn)
	}
	v := Verdict{Ruling: Ruling{OK: true}, Wait: turn, At: now}
	for i := range claims {
		c := &claims[i]
		if v.At = max(v.At, c.at); c.gen.nums.Slots && !c.taken.deferred {
			took := grantOf(claims[i : i+1])
			took.Cancel(now)
			c.taken.deferred, c.taken.stored = true, false
		}
	}
	return v
}

// anyLeaves says that a leaky bucket lets the request leave before turn, so that it
// would let the next follow too soon.
func anyLeaves(claims []Claim, turn time.Duration) bool {
	for i := range claims {
		c := &claims[i]
		leaky := c.Fate == Here && c.gen.queue != nil && c.gen.queue.leaky || c.Fate == There && c.Shared.Terms.Algorithm == LeakyBucket
		if leaky && c.Mode == Enforce && c.N > 0 && c.Result.OK && c.Result.Wait < turn {
			return true
		}
	}
	return false
}

// waiting returns in how many claims of a store the request may have to wait.
func waiting(claims []Claim) (n int) {
	for i := range claims {
		if c := &claims[i]; c.Shared.Terms.waits() && c.Mode == Enforce && c.N > 0 {
			n++
		}
	}
	return n
}

func anyWaits(claims []Claim) bool { return waiting(claims) > 0 }

// anySlots says that some claim is of requests in progress.
func anySlots(claims []Claim) bool {
	for i := range claims {
		if claims[i].Table.Numbers().Slots {
			return true
		}
	}
	return false
}

// noSlot says that a request was refused for want of slots alone.
func noSlot(claims []Claim) bool {
	for i := range claims {
		if c := &claims[i]; c.Mode == Enforce && !c.Result.OK && (!c.gen.nums.Slots || c.Blocked) {
			return false
		}
	}
	return true
}

// Turn returns how long a request has to wait that has all claims: the longest wait of
// those that are enforced and have room.
func Turn(claims []Claim) (turn time.Duration) {
	for i := range claims {
		if c := &claims[i]; c.Mode == Enforce && c.Result.OK {
			turn = max(turn, c.Result.Wait)
		}
	}
	return turn
}
