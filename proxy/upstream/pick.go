package upstream

import "log/slog"

// rowOut is how many failures in a row take a server out.
const rowOut = 3

// Pick returns the server that the pool's balance gives a request; key is what
// it is hashed by with the balance "hash". Nothing is reserved, so call Forward
// next. It reports false only if the pool has no server.
func (p *Pool) Pick(key uint64) (*Server, bool) {
	s := p.choose(&wish{key: key})
	if s == nil { // all are full: Forward waits
		s = p.choose(&wish{key: key, full: true})
	}
	return s, s != nil
}

// choose picks a server that fits w. Backups are for when no other is in; a
// server that is out is better than none.
func (p *Pool) choose(w *wish) *Server {
	c := p.choice.Load()
	for _, out := range [...]bool{false, true} {
		for _, t := range [...]*tier{&c.first, &c.second} {
			w.out = out
			if s := p.balance(t, w); s != nil {
				return s
			}
			if p.most > 0 && !w.full {
				busy := *w
				busy.full = true
				if p.balance(t, &busy) != nil {
					return nil // they are only busy
				}
			}
		}
	}
	return nil
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
	c := p.choice.Load()
	for _, t := range [...]*tier{&c.first, &c.second} {
		for _, other := range t.servers {
			if other != s && now >= other.out.Load() {
				return true
			}
		}
	}
	return false
}
