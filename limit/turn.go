package limit

import "time"

// putOffSlots leaves slots out of the decision on a request that has to wait: it
// holds none before it leaves, and whether there are some then is asked then.
func putOffSlots(claims []Claim, turn time.Duration, v Verdict) Verdict {
	for i := range claims {
		if c := &claims[i]; c.Mode == Enforce && !c.Result.OK && (!c.gen.nums.Slots || c.Blocked) {
			return v // refused, whatever slots there are
		}
	}
	v.OK, v.Wait = true, turn
	for i := range claims {
		if c := &claims[i]; c.gen.nums.Slots {
			c.putOff()
		}
	}
	return v
}

func (c *Claim) putOff() {
	c.leavePlace()
	c.taken.deferred, c.taken.stored = true, false
}

// queueUp gives a request that has to wait its turn in every leaky bucket at once:
// at the last of its turns it leaves through all of them. It is refused by one in
// which nobody waits so long; counts says that such a refusal is to be counted.
func queueUp(claims []Claim, now Instant, v *Verdict) (counts bool) {
	turn := v.Wait
	for i := range claims {
		c := &claims[i]
		switch q := c.gen.queue; {
		case c.gen.nums.Slots && !c.taken.deferred:
			c.putOff()
		case q != nil && q.leaky && c.Mode == Enforce && c.N > 0 && c.Result.Wait < turn:
			if c.leaveAt(now, now.Add(turn)); !c.Result.OK {
				v.refuse(c.Result.Wait)
				counts = counts || c.gen.nums.Penalty.After != nil
			}
		}
	}
	for i := range claims {
		if c := &claims[i]; !v.OK {
			c.leavePlace()
		}
	}
	return counts
}

// leaveAt asks a leaky bucket again, for a turn that does not begin before turn.
func (c *Claim) leaveAt(now, turn Instant) {
	var st State
	g := c.gen
	if h := c.home(); h.st != nil {
		st, g = c.Table.convert(*h.st)
	}
	if g.queue == nil || !g.queue.leaky {
		return // an edit came in between: the newest numbers know no queue
	}
	c.gen = g
	c.next, c.Result = g.queue.after(st, c.at, turn, c.N)
	c.next.Gen = g.num
	c.Result.countFrom(now, c.at)
}

// giveTurnBack is giveBack where requests wait: h has been brought up to now. What
// is the last of a queue can be taken out of it; what has others behind it stays,
// since they have their turns already.
func (g *generation) giveTurnBack(h home, c *Claim, now Instant, n int64) int64 {
	q := g.queue
	switch last := c.gen == g && q.isLast(*h.st, c.next, now); {
	case q.leaky && !c.taken.canceled: // its turn is over
		return 0
	case last:
		g.adjust(h, h.st.At, n)
	case c.taken.canceled || h.st.Used > q.burst:
		return 0
	default:
		if worth, at := c.gen.worth(c.at, n, g.num); worth > 0 {
			g.adjust(h, at, worth)
		}
	}
	return n
}

// Cancel gives back all that the Grant holds, since its request never left: it
// went away while it waited, or had no slot when its turn came. A turn is given to
// another only if nobody has one behind it, else it stays empty. Once, as with
// Done; one of the two.
func (g *Grant) Cancel(now Instant) { g.end(now, nil, true) }
