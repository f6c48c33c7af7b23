package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
)

// untrustedForwarded remembers which networks have sent X-Forwarded-For without
// being trusted, to warn once of each: most often it is a balancer that nobody
// has named, and then all clients share one counter.
type untrustedForwarded struct {
	count atomic.Int64

	mu   sync.Mutex
	seen map[netip.Prefix]bool
}

// maxWarned bounds the memory; when it is full nothing more is said.
const maxWarned = 256

func (u *untrustedForwarded) first(peer netip.Addr) (netip.Prefix, bool) {
	u.count.Add(1)
	peer = peer.Unmap().WithZone("")
	bits := 24
	if peer.Is6() {
		bits = 64
	}
	net, err := peer.Prefix(bits)
	if err != nil {
		return net, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[net] || len(u.seen) >= maxWarned {
		return net, false
	}
	if u.seen == nil {
		u.seen = map[netip.Prefix]bool{}
	}
	u.seen[net] = true
	return net, true
}

func (x *exchange) watchForwarded() {
	if x.trusted || len(x.r.Header["X-Forwarded-For"]) == 0 {
		return
	}
	if net, ok := x.g.forwarded.first(x.peer.Addr()); ok {
		x.g.log.LogAttrs(context.Background(), slog.LevelWarn, "X-Forwarded-For from a peer that is not trusted is ignored",
			slog.String("peer", x.peer.Addr().Unmap().String()),
			slog.String("hint", "if it is your load balancer, write: trusted_proxies: ["+net.String()+"]"))
	}
}
