package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"gateway/limit"
)

// server is the store at the other end of the network.
type server struct {
	mu       sync.Mutex
	limiter  limit.Limiter
	table    *limit.Table
	commands atomic.Int64
}

func (s *server) acquire(claims []limit.Claim, intent limit.Intent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands.Add(1)
	now := limit.InstantOf(time.Now()) // its own clock
	for i := range claims {
		c := &claims[i]
		theirs := []limit.Claim{{Table: s.table, Gen: 1, Key: c.Key, N: c.N}}
		if intent != limit.ToTake {
			s.limiter.Peek(now, theirs)
		} else {
			s.limiter.Acquire(context.Background(), now, theirs)
		}
		c.Result = theirs[0].Result
	}
}

// network is how far away a store is, and how much gets lost on the way there or
// back.
type network struct {
	latency time.Duration // of one way, on average; from a half to three halves of it
	loss    float64       // of messages
}

// link is the way of one gateway to the store: a limit.Store.
type link struct {
	network
	to      *server
	timeout time.Duration
	lost    atomic.Int64
}

var errTimeout = errors.New("no answer in time")

// Up implements limit.Store.
func (l *link) Up(*limit.Claim) bool { return true }

// Acquire implements limit.Store.
func (l *link) Acquire(claims []limit.Claim, a limit.Ask) (time.Duration, error) {
	begun := time.Now()
	there, back := l.way(), l.way()
	if rand.Float64() < l.loss {
		return l.late()
	}
	time.Sleep(there)
	l.to.acquire(claims, a.Intent)
	if rand.Float64() < l.loss || there+back > l.timeout {
		return l.late()
	}
	time.Sleep(back)
	return time.Since(begun), nil
}

func (l *link) late() (time.Duration, error) {
	l.lost.Add(1)
	time.Sleep(l.timeout)
	return l.timeout, errTimeout
}

func (l *link) way() time.Duration {
	return l.latency/2 + rand.N(l.latency)
}

// Settle implements limit.Store; nothing here comes back.
func (l *link) Settle(*limit.Claim, int64) int64 { return 0 }

// Forget implements limit.Store.
func (l *link) Forget(*limit.Shared, limit.Digest) bool { return false }
