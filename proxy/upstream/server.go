package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"gateway/rules"
)

// Server is one server of a pool. Its counters are atomics, read at any time.
type Server struct {
	// URL is what the file says: scheme http, https, h2c or unix, host, base path.
	URL *url.URL

	scheme string // http or https
	host   string // that of URL, localhost for a socket
	base   string // escaped base path without a slash at its end; may be empty
	h2c    bool   // HTTP/2 with prior knowledge
	socket string // path of a unix socket, or ""
	weight int64
	backup bool
	id     uint64 // for hashing

	names    *names          // addresses of the host, if it is a name to look up again
	h1       *http.Transport // HTTP/1.1, or HTTP/2 where TLS agrees on it
	h1direct *direct         // HTTP/1.1, in place of h1; nil if that is to do it
	prior    *http.Transport // HTTP/2 from the first byte; nil unless h2c
	checks   http.RoundTripper

	inFlight atomic.Int64
	answers  [6]atomic.Uint64 // by status / 100; [0] those past 5xx
	failures atomic.Uint64

	row atomic.Int32 // failures in a row
	out atomic.Int64 // instant until which the server is out; written under Pool.health

	down    atomic.Bool   // checks say so; written under Pool.health
	found   findings      // guarded by Pool.health
	missing atomic.Uint64 // checks that failed
}

// ServerStats is a reading of one server's counters.
type ServerStats struct {
	// URL is the server as the file names it.
	URL *url.URL
	// InFlight counts requests in progress, open tunnels included.
	InFlight int64
	// Answers counts answers by the class of their status: Answers[2] the 2xx,
	// Answers[0] what is past 599.
	Answers [6]uint64
	// Failures counts attempts that got no usable answer by the server's fault:
	// the client got 502 or 504, unless another server took over.
	Failures uint64
	// Up is false while checks say that the server is down, and while it is out
	// after failures in a row.
	Up bool
	// Since is when it came up or went down; when the pool was made, if it has been
	// as it is from the start.
	Since time.Time
	// CheckFailures counts active checks that failed.
	CheckFailures uint64
	// Checked is when it was checked last, CheckError what that check found; nil is
	// good. The zero time is never.
	Checked    time.Time
	CheckError error
}

func newServer(spec rules.Server) (*Server, error) {
	u := spec.URL
	s := &Server{
		URL: u, scheme: u.Scheme, host: u.Host, base: strings.TrimRight(u.EscapedPath(), "/"),
		weight: int64(max(1, spec.Weight)), backup: spec.Backup, id: identity(u.String()),
	}
	switch u.Scheme {
	case "http", "https":
	case "h2c":
		s.scheme, s.h2c = "http", true
	case "unix":
		s.scheme, s.host, s.socket = "http", "localhost", spec.Socket
		if s.socket == "" {
			return nil, fmt.Errorf("server %q: no path of a socket", u)
		}
	default:
		return nil, fmt.Errorf("server %q: scheme %q is not http, https, h2c or unix", u, u.Scheme)
	}
	if s.host == "" {
		return nil, fmt.Errorf("server %q: no host", u)
	}
	return s, nil
}

// transports returns all transports of s.
func (s *Server) transports() []*http.Transport {
	all := []*http.Transport{s.h1}
	if s.prior != nil {
		all = append(all, s.prior)
	}
	if t, ok := s.checks.(*http.Transport); ok {
		all = append(all, t)
	}
	return all
}

// isFull reports whether s has as many requests in progress as it may; a most of
// 0 is no bound.
func (s *Server) isFull(most int64) bool { return most > 0 && s.inFlight.Load() >= most }

// answered counts an answer that can be passed on.
func (s *Server) answered(status int) {
	class := status / 100
	if class >= len(s.answers) {
		class = 0
	}
	s.answers[class].Add(1)
	if s.row.Load() != 0 {
		s.row.Store(0)
	}
}

// in reports whether requests should go to s; now is read only if need be.
func (s *Server) in(now func() int64) bool {
	until := s.out.Load()
	return until == 0 || now() >= until
}

// stats reads the counters at an instant of the pool's clock. The caller holds
// Pool.health, and puts the instants of the clock in place.
func (s *Server) stats(now int64) ServerStats {
	r := ServerStats{
		URL:      s.URL,
		InFlight: s.inFlight.Load(),
		Failures: s.failures.Load(),
		Up:       now >= s.out.Load() && !s.down.Load(),

		CheckFailures: s.missing.Load(),
		CheckError:    s.found.err,
	}
	for i := range s.answers {
		r.Answers[i] = s.answers[i].Load()
	}
	return r
}

// since returns the instant from which on the server has been up, or down; 0 is
// from the start. Failures in a row take it out for outFor. The caller holds
// Pool.health.
func (s *Server) since(now, outFor int64) int64 {
	back, turned := s.out.Load(), s.found.turned
	switch {
	case s.down.Load() && turned < back: // it was out then, or was to be soon after
		return min(turned, back-outFor)
	case s.down.Load():
		return turned
	case now < back:
		return back - outFor
	}
	return max(turned, back)
}
