package upstream

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
)

// Server is one server of a pool. Its counters are atomics, read at any time.
type Server struct {
	// URL is what the file says: scheme http, https or h2c, host, base path.
	URL *url.URL

	scheme string // http or https
	base   string // escaped base path without a slash at its end; may be empty
	h2c    bool   // HTTP/2 with prior knowledge

	inFlight atomic.Int64
	answers  [6]atomic.Uint64 // by status / 100; [0] those past 5xx
	failures atomic.Uint64

	row atomic.Int32 // failures in a row
	out atomic.Int64 // instant until which the server is out; written under Pool.health
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
	// Up is false while the server is out after failures in a row.
	Up bool
}

func newServer(u *url.URL) (*Server, error) {
	s := &Server{URL: u, scheme: u.Scheme, base: strings.TrimRight(u.EscapedPath(), "/")}
	switch u.Scheme {
	case "http", "https":
	case "h2c":
		s.scheme, s.h2c = "http", true
	default:
		return nil, fmt.Errorf("server %q: scheme %q is not http, https or h2c", u, u.Scheme)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("server %q: no host", u)
	}
	return s, nil
}

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

func (s *Server) stats(now int64) ServerStats {
	r := ServerStats{
		URL:      s.URL,
		InFlight: s.inFlight.Load(),
		Failures: s.failures.Load(),
		Up:       now >= s.out.Load(),
	}
	for i := range s.answers {
		r.Answers[i] = s.answers[i].Load()
	}
	return r
}
