package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"gateway/rules"
)

// flushAfter is the longest that bytes of an answer with a known length wait for
// more; an event stream and any answer of unknown length are passed on at once.
const flushAfter = 20 * time.Millisecond

// minStall is the least time that a server may take no more of a body: some
// read an upload in gulps, whatever their timeout for the answer.
const minStall = 30 * time.Second

// Options are the tunables of a Pool. The zero value is useful.
type Options struct {
	// Logger gets a warning for a server taken out, and what ReverseProxy has
	// to say at debug level; nil discards both.
	Logger *slog.Logger
}

// Pool is one upstream of the file: its servers, their connections, health and
// counters. It is safe for concurrent use.
type Pool struct {
	spec    *rules.Upstream
	log     *slog.Logger
	servers []*Server
	ownHost bool // the server gets its own Host, not the client's
	h1      *http.Transport
	h2c     *http.Transport
	proxy   *httputil.ReverseProxy

	born   time.Time     // instants are counted from here
	stall  time.Duration // 0: a server may take as long as it likes over a body
	outFor time.Duration
	turn   atomic.Uint64
	waits  Histogram

	health sync.Mutex // held to take a server out
}

// New compiles spec. It dials nothing and starts no goroutine, so a pool that
// never serves needs no Close. It fails only for a spec that package rules
// would have refused.
func New(spec *rules.Upstream, o Options) (*Pool, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{
		spec:    spec,
		log:     o.Logger,
		ownHost: spec.Host == "upstream",
		h1:      newTransport(spec, false),
		h2c:     newTransport(spec, true),
		born:    time.Now(),
		outFor:  10 * time.Second,
	}
	if spec.Timeout > 0 {
		p.stall = max(spec.Timeout, minStall)
	}
	for _, s := range spec.Servers {
		server, err := newServer(s.URL)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", spec.Name, err)
		}
		p.servers = append(p.servers, server)
	}
	if len(p.servers) == 0 {
		return nil, fmt.Errorf("upstream %q: %w", spec.Name, errors.New("no servers"))
	}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      leg{},
		FlushInterval:  flushAfter,
		ErrorLog:       slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		BufferPool:     buffers,
		ModifyResponse: p.answer,
		ErrorHandler:   p.fail,
	}
	return p, nil
}

// Spec returns what the pool was made from.
func (p *Pool) Spec() *rules.Upstream { return p.spec }

// Equal reports whether a pool made from spec would do the same, so that a
// reload may keep this one with its connections, health and counters.
func (p *Pool) Equal(spec *rules.Upstream) bool { return p.spec.Equal(spec) }

// Close drops the idle connections, and each other one as its request ends.
// What is in flight goes on; the pool stays usable.
func (p *Pool) Close() {
	p.h1.CloseIdleConnections()
	p.h2c.CloseIdleConnections()
}

// Stats reads the servers' counters, in the order of the file.
func (p *Pool) Stats() []ServerStats {
	all := make([]ServerStats, 0, len(p.servers))
	for _, s := range p.servers {
		all = append(all, s.stats(p.now()))
	}
	return all
}

// Durations reads how long answers took to their first byte, over DurationBounds.
func (p *Pool) Durations() Reading { return p.waits.Read() }

// now is the instant on the pool's monotonic clock, never 0.
func (p *Pool) now() int64 { return int64(time.Since(p.born)) + 1 }
