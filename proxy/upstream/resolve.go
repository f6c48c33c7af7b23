package upstream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// names are the addresses of a server whose host is a name. Requests go to them
// in turn, each by connections of its own, so that one that the name loses gets
// no more and its connections end when they are idle. Until the name has been
// looked up the dialer does that, at each dial. A nil *names has none.
type names struct {
	host, port string
	known      atomic.Pointer[addresses]
	turn       atomic.Uint32
}

// addresses of a name, with the port. Those of the family that the resolver puts
// first are used in turn, the others only when those take no connection: where
// there is a route for one family alone the resolver puts that first.
type addresses struct{ used, spare []string }

// newNames returns the names of u, or nil if its host is an address.
func newNames(u *url.URL) *names {
	host, port := u.Hostname(), u.Port()
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return nil
	}
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return &names{host: host, port: port}
}

// address returns what the URL of the next request to s holds as its host.
func (s *Server) address() string {
	if s.names == nil {
		return s.host
	}
	known := s.names.known.Load()
	if known == nil {
		return s.host
	}
	return known.used[int(s.names.turn.Add(1)%uint32(len(known.used)))]
}

// others returns what else to dial when addr takes no connection.
func (n *names) others(addr string) []string {
	if n == nil {
		return nil
	}
	known := n.known.Load()
	if known == nil {
		return nil
	}
	var list []string
	if i := slices.Index(known.used, addr); i >= 0 && len(known.used) > 1 {
		list = append(list, known.used[(i+1)%len(known.used)])
	}
	for _, a := range known.spare {
		if a != addr {
			list = append(list, a)
			break
		}
	}
	return list[:min(len(list), maxAddresses-1)]
}

// learn notes the addresses that a look-up found, and reports whether they differ
// from those before.
func (n *names) learn(found []netip.Addr) bool {
	a := &addresses{}
	for _, addr := range found {
		addr = addr.Unmap()
		list := &a.used
		if addr.Is4() != found[0].Unmap().Is4() {
			list = &a.spare
		}
		if text := net.JoinHostPort(addr.String(), n.port); !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	slices.Sort(a.used)
	old := n.known.Swap(a)
	return old == nil || !slices.Equal(old.used, a.used)
}

// follow looks the name of s up again and again. An answer without an address
// and a failure leave what was known.
func (p *Pool) follow(ctx context.Context, s *Server) {
	failing := false
	for {
		look, cancel := context.WithTimeout(ctx, p.spec.Resolve)
		found, err := p.lookup(look, s.names.host)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil || len(found) == 0:
			if !failing {
				p.log.Warn("a server's name cannot be looked up; the addresses last known stay in use",
					slog.String("upstream", p.spec.Name), slog.String("server", s.URL.Redacted()), slog.Any("err", err))
			}
			failing = true
		default:
			failing = false
			if s.names.learn(found) {
				p.log.Debug("a server's name has other addresses",
					slog.String("upstream", p.spec.Name), slog.String("server", s.URL.Redacted()), slog.Int("addresses", len(found)))
			}
		}
		if !pause(ctx, jitter(p.spec.Resolve)) {
			return
		}
	}
}

// jitter returns d, at most a tenth longer or shorter, so that what is done each
// d is not done by all at once.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1))
}

// pause waits for d and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
