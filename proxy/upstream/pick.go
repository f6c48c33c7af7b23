package upstream

import "log/slog"

// rowOut is how many failures in a row take a server out.
const rowOut = 3

// Pick returns the server with the fewest requests in flight among those that
// are in; ties go in turn. It reports false only if the pool has no server.
// Nothing is reserved, so call Forward next.
func (p *Pool) Pick() (*Server, bool) {
	s := p.least(nil)
	return s, s != nil
}

// least picks among the servers but not, which may be nil. A server that is out
// is better than none.
func (p *Pool) least(not *Server) *Server {
	n := uint64(len(p.servers))
	start := uint64(0)
	if n > 1 {
		start = p.turn.Add(1)
	}
	var best, spare *Server
	var fewest int64
	for i := range n {
		s := p.servers[(start+i)%n]
		if s == not {
			continue
		}
		if !s.in(p.now) {
			spare = s
			continue
		}
		if load := s.inFlight.Load(); best == nil || load < fewest {
			best, fewest = s, load
		}
	}
	if best == nil {
		return spare
	}
	return best
}

// failed counts a failure of s that says it is down, and takes it out after
// some in a row unless it is the last that is in. The lock makes two servers
// that fail at once see each other.
func (p *Pool) failed(s *Server) {
	if s.row.Add(1) < rowOut {
		return
	}
	p.health.Lock()
	defer p.health.Unlock()
	now := p.now()
	if now < s.out.Load() || !p.anotherIn(s, now) {
		return
	}
	s.out.Store(now + int64(p.outFor))
	s.row.Store(0)
	p.log.Warn("server taken out after failures in a row",
		slog.String("upstream", p.spec.Name), slog.String("server", s.URL.Redacted()), slog.Duration("for", p.outFor))
}

func (p *Pool) anotherIn(s *Server, now int64) bool {
	for _, other := range p.servers {
		if other != s && now >= other.out.Load() {
			return true
		}
	}
	return false
}
