package redis

import (
	"errors"
	"sync"
	"time"

	"gateway/limit"
)

// part is the claims of one slot of a cluster, which are asked for together.
type part struct {
	claims []limit.Claim
	passes bool
	turn   time.Duration // what they have to wait; only without it they hold slots
	again  bool          // they are to be asked for, anew
	err    error
}

// rounds bounds how often the parts of a request are asked until they agree on when it
// leaves: each time others must have come in between.
const rounds = 4

// takeApart asks about claims of several slots, of each at the same time, and gives
// back what was taken when one of them refuses or cannot be told. Those that have to
// leave later than they had to wait are asked again.
func (s *Store) takeApart(conn *connection, claims []limit.Claim, a limit.Ask) error {
	parts := bySlot(claims)
	if len(parts) == 1 {
		_, err := s.take(conn, claims, a)
		return err
	}
	must := a.MustWait
	a.MustWait = false
	for range rounds {
		err := s.takeEach(conn, parts, a)
		if a.Intent != limit.ToTake {
			return err
		}
		turn, passes, again := a.Turn, err == nil, false
		for i := range parts {
			turn = max(turn, parts[i].turn)
		}
		for i := range parts {
			p := &parts[i]
			p.again = passes && p.leavesAt(turn)
			passes, again = passes && (p.passes || p.again), again || p.again
		}
		switch {
		case !passes || !again && must && turn == 0:
			s.giveBack(parts, false)
			return err
		case !again:
			s.releaseSlots(parts, turn)
			return nil
		}
		s.giveBack(parts, true)
		a.Turn = turn
	}
	s.giveBack(parts, false)
	for i := range claims {
		if c := &claims[i]; c.Shared.Terms.Algorithm == limit.LeakyBucket && c.Mode == limit.Enforce {
			c.Result = limit.Result{Wait: time.Second, Reset: time.Second}
		}
	}
	return nil
}

// takeEach asks about the parts that are to be asked about.
func (s *Store) takeEach(conn *connection, parts []part, a limit.Ask) error {
	var wg sync.WaitGroup
	var errs []error
	for i := range parts {
		if p := &parts[i]; p.again {
			wg.Go(func() {
				p.turn = 0
				if p.passes, p.err = s.take(conn, p.claims, a); p.passes && p.err == nil {
					p.turn = max(a.Turn, limit.Turn(p.claims))
				}
			})
		}
	}
	wg.Wait()
	for i := range parts {
		if p := &parts[i]; p.err != nil {
			p.passes = false
			errs = append(errs, p.err)
		}
	}
	return errors.Join(errs...)
}

// leavesAt says that p is to be asked about again if its request leaves at turn: since
// a leaky bucket would let the next follow too soon, or since it needs no slots now.
func (p *part) leavesAt(turn time.Duration) bool {
	if turn <= p.turn {
		return false
	}
	leaky, full := false, false
	for i := range p.claims {
		c := &p.claims[i]
		if c.Mode != limit.Enforce {
			continue
		}
		switch slots := c.Shared.Terms.Algorithm == limit.Concurrency && !c.Blocked; {
		case !c.Result.OK && !slots:
			return false
		case !c.Result.OK:
			full = true
		case c.Shared.Terms.Algorithm == limit.LeakyBucket && c.N > 0:
			leaky = true
		}
	}
	return p.passes && leaky || full
}

// giveBack gives back what the parts have taken, or those alone that are to be asked
// about again.
func (s *Store) giveBack(parts []part, again bool) {
	var wg sync.WaitGroup
	for i := range parts {
		p := &parts[i]
		if !p.passes || again && !p.again {
			continue
		}
		p.passes = false
		claims, waits := p.claims, p.turn > 0
		wg.Go(func() {
			for j := range claims {
				c := &claims[j]
				if !c.Result.OK || c.N == 0 || waits && c.Shared.Terms.Algorithm == limit.Concurrency {
					continue
				}
				c.Receipt.Unused = true
				s.Settle(c, c.N)
				c.Result.Remaining += c.N
				c.Result.Wait = 0
			}
		})
	}
	wg.Wait()
}

// releaseSlots gives back the slots of a request that waits for turn, of parts that had
// not to wait.
func (s *Store) releaseSlots(parts []part, turn time.Duration) {
	for i := range parts {
		p := &parts[i]
		for j := range p.claims {
			if c := &p.claims[j]; turn > 0 && p.turn == 0 && c.Result.OK && c.Shared.Terms.Algorithm == limit.Concurrency {
				s.Settle(c, c.N)
			}
		}
	}
}

// bySlot brings claims of one slot together and returns them slot by slot.
func bySlot(claims []limit.Claim) []part {
	var parts []part
	for len(claims) > 0 {
		n, first := 1, slot(claims[0].Key)
		for i := 1; i < len(claims); i++ {
			if slot(claims[i].Key) == first {
				claims[n], claims[i] = claims[i], claims[n]
				n++
			}
		}
		parts = append(parts, part{claims: claims[:n:n], again: true})
		claims = claims[n:]
	}
	return parts
}
