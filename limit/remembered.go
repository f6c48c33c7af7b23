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
	until Instant
	units int64
	said  Result
	at    Instant
}

// mostRefusals bounds what a plan remembers: about 8 MB.
const mostRefusals = 64 << 10

// find returns what is remembered of a take of n units at now.
func (r *refusals) find(d Digest, now Instant, n int64) (Result, bool) {
	r.mu.RLock()
	was, ok := r.keys[d]
	r.mu.RUnlock()
	if !ok || now >= was.until || n != was.units {
		return Result{}, false
	}
	res := was.said
	passed := now.Sub(was.at)
	res.Wait = max(1, res.Wait-passed)
	res.Reset = max(1, res.Reset-passed)
	return res, true
}

// add remembers what a store said of a take of n units, for longest at most: at is
// when it was asked, so that nobody is held back for longer than the store would.
func (r *refusals) add(d Digest, at Instant, n int64, said Result, longest time.Duration) {
	if said.Wait <= shortRefusal {
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
	r.keys[d] = refusal{until: at.Add(min(said.Wait, longest)), units: n, said: said, at: at}
}

// remember remembers that the store has refused c, which was asked for at the instant
// at. alone says that the request waits for nothing else: if it does, whoever waits
// for less may pass, and that is not remembered. Neither is for long what may be over
// when somebody goes away.
func (s *Shared) remember(c *Claim, at Instant, alone bool) {
	switch {
	case !s.Terms.waits():
		s.refused.add(c.Key, at, c.N, c.Result, longestRefusal)
	case alone:
		s.refused.add(c.Key, at, c.N, c.Result, longestWithTurns)
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
