package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httputil"
	"net/netip"
	"slices"
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
	direct  bool // all servers have a direct
	proxy   *httputil.ReverseProxy
	files   *material // what the files of spec.TLS held
	most    int64     // requests in progress at one server; 0: no bound
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)

	born   time.Time     // instants are counted from here
	stall  time.Duration // 0: a server may take as long as it likes over a body
	outFor time.Duration
	turn   atomic.Uint64
	waits  Histogram

	health sync.Mutex // held to take a server out and to judge a check
	choice atomic.Pointer[choice]
	queue  queue
	life   life
}

// New compiles spec and reads the files of its tls. It dials nothing and starts
// no goroutine, so a pool that never serves needs no Close; Start does. A file
// that cannot be used is a rules.ErrorList; otherwise it fails only for a spec
// that package rules would have refused.
func New(spec *rules.Upstream, o Options) (*Pool, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{
		spec:    spec,
		log:     o.Logger,
		ownHost: spec.Host == "upstream",
		most:    int64(spec.MaxConns),
		born:    time.Now(),
		outFor:  10 * time.Second,
	}
	if spec.Timeout > 0 {
		p.stall = max(spec.Timeout, minStall)
	}
	p.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	var err error
	if p.files, err = readTLS(&spec.TLS); err != nil {
		return nil, err
	}
	for _, s := range spec.Servers {
		server, err := newServer(s)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", spec.Name, err)
		}
		if spec.Resolve > 0 && server.socket == "" {
			server.names = newNames(server.URL)
		}
		var secure *tls.Config
		if server.scheme == "https" {
			secure = p.files.config(&spec.TLS, server)
		}
		server.connect(spec, secure)
		p.servers = append(p.servers, server)
	}
	if len(p.servers) == 0 {
		return nil, fmt.Errorf("upstream %q: %w", spec.Name, errors.New("no servers"))
	}
	p.direct = !slices.ContainsFunc(p.servers, func(s *Server) bool { return s.h1direct == nil })
	p.choice.Store(choose(p.servers))
	p.proxy = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      leg{},
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
// reload may keep this one with its connections, health and counters. It reads
// the files of tls, for they may hold something else by now.
func (p *Pool) Equal(spec *rules.Upstream) bool {
	if !p.spec.Equal(spec) {
		return false
	}
	files, err := readTLS(&spec.TLS)
	return err == nil && files.sum == p.files.sum
}

// Stats reads the servers' counters, in the order of the file.
func (p *Pool) Stats() []ServerStats {
	all := make([]ServerStats, 0, len(p.servers))
	p.health.Lock()
	defer p.health.Unlock()
	now := p.now()
	for _, s := range p.servers {
		r := s.stats(now)
		r.Since = p.born.Add(time.Duration(s.since(now, int64(p.outFor))))
		if s.found.checked {
			r.Checked = p.born.Add(time.Duration(s.found.at))
		}
		all = append(all, r)
	}
	return all
}

// Durations reads how long answers took to their first byte, over DurationBounds.
func (p *Pool) Durations() Reading { return p.waits.Read() }

// now is the instant on the pool's monotonic clock, never 0.
func (p *Pool) now() int64 { return int64(time.Since(p.born)) + 1 }
