package proxy

import (
	"context"
	"net"
	"net/http"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// maxWaiting bounds the requests that wait for their turn in the whole process.
const maxWaiting = 10_000

// await holds a request that has everything but its turn, and slots, until the turn
// comes. It returns false when the request is answered already. Meanwhile it holds
// what it has been charged, its body if that was read for a key, and nothing else.
func (x *exchange) await(v limit.Verdict) bool {
	asked := x.at
	x.at, x.seq = v.At, v.Seq         // it is decided, but for slots
	x.hold.Done(x.g.clock.Now(), nil) // slots that were needed to read the body
	if x.g.waiting.Add(1) > maxWaiting {
		x.g.waiting.Add(-1)
		x.grant.Cancel(x.g.clock.Now())
		x.crowded()
		return false
	}
	stays := x.waitUntil(asked.Add(v.Wait))
	x.g.waiting.Add(-1)
	now := x.g.clock.Now()
	x.waited = now.Sub(asked)
	x.awaited += x.waited
	if !stays {
		x.grant.Cancel(now)
		for i := range x.claims {
			if c := &x.claims[i]; c.Result.Wait > 0 && c.Mode == limit.Enforce {
				x.hits[c.Tag].Plan.Live.Waited.Add(1)
			}
		}
		if err := x.leftError(); err != nil {
			x.Fail(nil, nil, err)
			return false
		}
		x.abandon(context.Canceled)
	}
	return x.depart(now)
}

// lookForClient is how often it is looked whether a client is there that cannot be
// heard to hang up.
const lookForClient = time.Second

// waitUntil waits for turn, and returns false when the client goes away before.
func (x *exchange) waitUntil(turn limit.Instant) bool {
	gone, unheard := x.Watch().Done(), x.unheard()
	var timer *time.Timer
	for {
		if unheard != nil && hungUp(unheard) {
			return false
		}
		left := turn.Sub(x.g.clock.Now())
		if left <= 0 {
			return !x.Left()
		}
		if unheard != nil {
			left = min(left, lookForClient)
		}
		if timer == nil {
			timer = time.NewTimer(left)
			defer timer.Stop()
		} else {
			timer.Reset(left)
		}
		select {
		case <-gone:
			return false
		case <-timer.C:
		}
	}
}

// unheard returns the connection of a client whose end net/http does not tell: over
// HTTP/1 it listens only behind the body, which has not been read. Otherwise it
// returns nil.
func (x *exchange) unheard() net.Conn {
	if x.r.ProtoMajor != 1 || x.r.Body == nil || x.r.Body == http.NoBody {
		return nil
	}
	if c, _ := x.r.Context().Value(connKey{}).(*conn); c != nil {
		return c.Conn
	}
	return nil
}

// depart takes the slots of a request whose turn has come, or refuses it. What its
// other rules tell its client is as of now; but a store is not asked for that alone,
// since requests leave as evenly as their turns come.
func (x *exchange) depart(now limit.Instant) bool {
	late := make([]limit.Claim, 0, len(x.claims))
	again := x.hasSlotThere()
	for i := range x.claims {
		from := &x.claims[i]
		if from.Fate == limit.There && !again {
			from.Result.Reset = max(1, from.Result.Reset-x.waited)
			continue
		}
		late = late[:len(late)+1]
		to := &late[len(late)-1]
		to.Table, to.Gen, to.Mode, to.Tag, to.Key, to.Most = from.Table, from.Gen, limit.DryRun, from.Tag, from.Key, from.Most
		if to.Shared, to.Open = from.Shared, from.Open; x.isSlot(from) {
			to.Mode, to.Closed, to.N, to.Spare = from.Mode, from.Closed, from.N, from.Spare
		}
	}
	var v limit.Verdict
	x.hold, v = x.g.limiter.Acquire(x.r.Context(), now, late)
	if x.granted = v.OK; !v.OK {
		x.grant.Cancel(now)
	}
	for i := range late {
		l := &late[i]
		for j := range x.claims {
			c := &x.claims[j]
			switch {
			case c.Tag != l.Tag:
			case x.isSlot(c):
				c.Result, c.Blocked = l.Result, l.Blocked
			default:
				c.Result.Remaining, c.Result.Reset = l.Result.Remaining, l.Result.Reset
			}
		}
	}
	x.asOf = now
	v.At, v.Seq = x.at, x.seq
	return x.decided(v)
}

// hasSlotThere reports whether slots are counted in a store.
func (x *exchange) hasSlotThere() bool {
	for i := range x.claims {
		if c := &x.claims[i]; c.Fate == limit.There && x.isSlot(c) {
			return true
		}
	}
	return false
}

// crowded answers a request that would have to wait where too many do.
func (x *exchange) crowded() {
	for i := range x.claims {
		if c := &x.claims[i]; c.Result.Wait > 0 && c.Mode == limit.Enforce {
			hit := &x.hits[c.Tag]
			hit.Plan.Live.FailedClosed.Add(1)
			x.ruleNames = join(x.ruleNames, hit.Rule.Name)
		}
	}
	x.fail(problem{
		status: http.StatusServiceUnavailable, kind: reducedCapacity, title: "Temporarily reduced capacity", wait: time.Second,
		detail: "Too many requests wait for their turn here; try again in 1 second.",
	})
	x.result = resultShed
}

// shownLeft is what a client is told that it has left: never more than there is of
// it altogether.
func shownLeft(p *rules.Plan, remaining int64) int64 {
	if p.Places > 0 {
		remaining = min(remaining, p.Size()) // one more may leave an idle queue at once
	}
	return max(0, remaining)
}
