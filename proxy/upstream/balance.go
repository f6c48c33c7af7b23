package upstream

import (
	"math"
	"math/rand/v2"
)

// wish is what a request wants of a server.
type wish struct {
	key   uint64    // what is hashed
	tried []*Server // not these
	full  bool      // one that has no place free will do
	out   bool      // one that is out after failures will do
	up    bool      // one that checks say is down will not do
}

// fits reports whether s is what w wants.
func (p *Pool) fits(s *Server, w *wish) bool {
	for _, t := range w.tried {
		if s == t {
			return false
		}
	}
	if w.up && s.down.Load() {
		return false
	}
	return (w.full || !s.isFull(p.most)) && (w.out || s.in(p.now))
}

// balance picks one of t that fits w, or nil.
func (p *Pool) balance(t *tier, w *wish) *Server {
	switch {
	case len(t.servers) == 0:
		return nil
	case p.spec.Balance == "hash":
		return p.nearest(t, w)
	case p.spec.Balance == "random":
		if i := p.draw(t, w, false); i >= 0 {
			return t.servers[i]
		}
		return nil
	}
	i := p.draw(t, w, true)
	if i < 0 {
		return nil
	}
	if p.spec.Balance == "round_robin" || len(t.servers) == 1 {
		return t.servers[i]
	}
	return p.least(t, i, w)
}

// draw returns the index of a server that fits, in turn or at random, or -1. A
// server that does not fit leaves its turns to all others in their proportion;
// only where hardly any fits, the next one that does is taken.
func (p *Pool) draw(t *tier, w *wish, inTurn bool) int {
	i := 0
	for range min(t.total, 4*int64(len(t.servers))) {
		if inTurn {
			i = t.turn(p.turn.Add(1))
		} else {
			i = t.at(rand.Int64N(t.total))
		}
		if p.fits(t.servers[i], w) {
			return i
		}
	}
	for range t.servers {
		if i = (i + 1) % len(t.servers); p.fits(t.servers[i], w) {
			return i
		}
	}
	return -1
}

// least returns the server with the fewest requests in flight for its weight.
// Of equals it is the first from start on, whose turn it is.
func (p *Pool) least(t *tier, start int, w *wish) *Server {
	best := t.servers[start]
	fewest := best.inFlight.Load()
	for i := 1; i < len(t.servers) && fewest > 0; i++ {
		s := t.servers[(start+i)%len(t.servers)]
		if load := s.inFlight.Load(); load*best.weight < fewest*s.weight && p.fits(s, w) {
			best, fewest = s, load
		}
	}
	return best
}

// nearest returns the server that the key belongs to: by weighted rendezvous
// hashing, the one with the lowest score of key and server together. A server
// that is added takes its share of the keys of each other one, and one that is
// removed or does not fit leaves its own to all others; no key moves between two
// servers that stay.
func (p *Pool) nearest(t *tier, w *wish) *Server {
	var best *Server
	lowest := math.Inf(1)
	for _, s := range t.servers {
		// u is in (0, 1]; -ln(u)/weight is the time to the first event of a
		// process of that rate, so the first of all is s with its share.
		u := float64(mix(w.key^s.id)>>11+1) / (1 << 53)
		if score := -math.Log(u) / float64(s.weight); score < lowest && p.fits(s, w) {
			best, lowest = s, score
		}
	}
	return best
}

// mix spreads every bit of x over all of the result (the finalizer of
// splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// identity is the number by which a server takes part in hashing: the FNV-1a
// hash of its URL.
func identity(url string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(url) {
		h = (h ^ uint64(url[i])) * 1099511628211
	}
	return mix(h)
}
