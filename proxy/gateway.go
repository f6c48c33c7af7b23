package proxy

import (
	"log/slog"
	"net/http"
	"sync/atomic"

	"gateway/limit"
	"gateway/proxy/upstream"
)

// Config is what a Gateway needs beside a Snapshot.
type Config struct {
	// Clock tells the time; required.
	Clock *Clock
	// Logger gets what an operator should know; nil discards it.
	Logger *slog.Logger
	// Access gets a line for each request; nil is none.
	Access *AccessLog
	// Store counts the rules that gateways share; nil counts them here.
	Store limit.Store
}

// Gateway is the front door: an http.Handler that matches each request against
// the rules of the current Snapshot, asks the limiter, and forwards what is
// allowed. It owns the one pointer to the Snapshot. It is safe for concurrent use.
type Gateway struct {
	current atomic.Pointer[Snapshot]
	clock   *Clock
	log     *slog.Logger
	access  *AccessLog
	limiter limit.Limiter
	bodies  bodyMemory

	inFlight  atomic.Int64
	waiting   atomic.Int64 // requests that wait for their turn
	still     bool         // nobody waits: what would happen is only looked at
	overhead  upstream.Histogram
	forwarded untrustedForwarded
	unrouted  routeStats // requests that no route took, or that ended before routing
}

// New returns a Gateway that serves snap. It starts what Swap starts; Close ends
// it.
func New(c Config, snap *Snapshot) *Gateway {
	g := &Gateway{clock: c.Clock, log: c.Logger, access: c.Access}
	g.limiter.Store = c.Store
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.Swap(snap)
	return g
}

// Current returns the Snapshot in force.
func (g *Gateway) Current() *Snapshot { return g.current.Load() }

// Swap puts snap, built on Current, in force: requests that begin from now on
// see all of it, those in progress end under what they began with. It cannot
// fail. The checks of its new pools begin, and those of pools that it no longer
// names end; such pools close as their requests end. Swaps must not run at the
// same time.
func (g *Gateway) Swap(snap *Snapshot) {
	old := g.Current()
	snap.rules.Activate(g.clock.Now())
	for _, p := range snap.pools {
		p.Start() // those that run already go on
	}
	g.current.Store(snap)
	if old == nil {
		return
	}
	for name, p := range old.pools {
		if snap.pools[name] != p {
			p.Close()
		}
	}
}

// Close ends what runs beside the requests: the checks of the pools in force. It
// is for when no more requests are to come, and no Swap.
func (g *Gateway) Close() {
	for _, p := range g.Current().pools {
		p.Close()
	}
}

// Stale reports whether a file that a pool in force has read holds something else
// by now, so that a Snapshot built of the same file would differ.
func (g *Gateway) Stale() bool {
	for _, p := range g.Current().pools {
		if !p.Equal(p.Spec()) {
			return true
		}
	}
	return false
}

// Now returns the instant on the clock by which requests are decided.
func (g *Gateway) Now() limit.Instant { return g.clock.Now() }

// Waiting returns the number of requests that wait for their turn.
func (g *Gateway) Waiting() int64 { return g.waiting.Load() }

// InFlight returns the number of requests in progress, tunnels included.
func (g *Gateway) InFlight() int64 { return g.inFlight.Load() }

// ServeHTTP implements http.Handler. It is the whole request, top to bottom.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.begin(w, r) // 1
	defer x.finish()
	snap := g.current.Load() // 2: the only load
	if !x.read(snap) {       // 3: malformed requests end here
		return
	}
	if !x.match(snap) { // 4: blocked, no route, or a key is missing
		return
	}
	if !x.readKeys(snap) { // 5: refused, or the body failed
		return
	}
	if !x.acquire(snap) { // 5, 6: refused
		return
	}
	pool, ok := x.pick(snap) // 7
	if !ok {
		return
	}
	x.gather() // a short body that is there already
	x.sent = g.clock.Now()
	// From here on nothing refers to the snapshot: a WebSocket must not pin it.
	pool.Forward(&x.w, x.r, &x.forward) // 8
} // 9: finish runs, also when Forward panics with http.ErrAbortHandler
