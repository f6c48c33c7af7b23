package limit

import (
	"sync"
	"time"
)

// refusals remembers the keys that a Store has refused until they can pass again, or
// for a few seconds, so that a client that hammers does not load the store. What it forgets for want
// of room is asked for again. The zero refusals remembers nobody.
type refusals struct {
	mu   sync.RWMutex
	keys map[Digest]refusal
}

// refusal says that no take of so many units passes before until. It is what the
// store said, and when that was. A larger take would have to wait longer, so that is
// for the store to say.
type refusal struct {
	until   Instant
	units   int64
	said    Result
	at      Instant
	blocked bool // for what the key did before
}

// mostRefusals bounds what a plan remembers: about 8 MB.
const mostRefusals = 64 << 10

// find returns what is remembered of a take of n units at now.
func (r *refusals) find(d Digest, now Instant, n int64) (_ Result, blocked, ok bool) {
	r.mu.RLock()
	was, ok := r.keys[d]
	r.mu.RUnlock()
	if !ok || now >= was.until || n != was.units {
		return Result{}, false, false
	}
	res := was.said
	passed := now.Sub(was.at)
	if res.Wait != Never {
		res.Wait = max(1, res.Wait-passed)
		res.Reset = max(1, res.Reset-passed)
	}
	return res, was.blocked, true
}

// add remembers for so long what a store said of c, which it has refused: at is when
// it was asked, so that nobody is held back for longer than the store would.
func (r *refusals) add(c *Claim, at Instant, lasts time.Duration) {
	if lasts <= shortRefusal {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[Digest]refusal{}
	}
	for k, was := range r.keys { // a few of any: whoever has passed, or must give way
		if was.until <= at || len(r.keys) >= mostRefusals {
			delete(r.keys, k)
		} else {
			break
		}
	}
	r.keys[c.Key] = refusal{until: at.Add(lasts), units: c.N, said: c.Result, at: at, blocked: c.Blocked}
}

// remember remembers that the store has refused c, which was asked for at the instant
// at: if it would do so again whoever else comes, and would not count that. alone says
// that the request waits for nothing else: if it does, whoever waits for less may
// pass, and that is not remembered. Neither is for long what may be over when somebody
// goes away.
func (s *Shared) remember(c *Claim, at Instant, alone bool) {
	switch {
	case c.Blocked:
		s.refused.add(c, at, min(c.Receipt.Block, longestRefusal))
	case s.Returns || s.Punishes() || s.Terms.Algorithm == Concurrency:
	case !s.Terms.waits():
		s.refused.add(c, at, min(c.Result.Wait, longestRefusal))
	case alone:
		s.refused.add(c, at, min(c.Result.Wait, longestWithTurns))
	}
}

const (
	// shortRefusal is not worth remembering: the next try would come later anyway.
	shortRefusal = time.Millisecond
	// longestRefusal is after how long the store is asked again all the same: that is
	// no load, and a key that was made to forget at another gateway passes here too.
	longestRefusal = 5 * time.Second
	// longestWithTurns is the same where others may give their turns back.
	longestWithTurns = time.Second
)

func (r *refusals) forget(d Digest) {
	r.mu.Lock()
	delete(r.keys, d)
	r.mu.Unlock()
}
