package upstream

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"gateway/rules"
)

// Options are the tunables of a Pool. The zero value is useful.
type Options struct {
	// Logger gets what net/http and ReverseProxy have to say, at debug level;
	// nil discards it.
	Logger *slog.Logger
}

// Pool is one upstream of the file: its servers, their connections and
// counters. It is safe for concurrent use.
type Pool struct {
	spec    *rules.Upstream
	servers []*Server
}

// New compiles spec. It dials nothing and starts no goroutine, so a pool that
// never serves needs no Close. It fails for a spec that package rules refuses.
func New(spec *rules.Upstream, o Options) (*Pool, error) { return nil, errors.New("not yet") }

// Spec returns what the pool was made from.
func (p *Pool) Spec() *rules.Upstream { return p.spec }

// Equal reports whether a pool made from spec would do the same, so that a
// reload may keep this one with its connections, health and counters.
func (p *Pool) Equal(spec *rules.Upstream) bool { return p.spec.Equal(spec) }

// Close drops the idle connections, and each other one as its request ends.
// What is in flight goes on; the pool stays usable.
func (p *Pool) Close() {}

// Stats reads the counters, in the order of the file.
func (p *Pool) Stats() []ServerStats { return nil }

// Durations reads the time that answers took to their first byte.
func (p *Pool) Durations() Durations { return Durations{} }

// Pick returns the server with the fewest requests in flight among those that
// are in. It reports false only if the pool has none. Nothing is reserved:
// call Forward next.
func (p *Pool) Pick() (*Server, bool) { return nil, false }

// Front is the front door's part in the exchange of one request.
type Front interface {
	// Rewrite sets headers on out, the request to the upstream; URL, Host and
	// hop-by-hop headers are set already. It must not change in.
	Rewrite(out, in *http.Request)
	// Answer sees the upstream's answer, a 101 too, before anything of it goes to
	// the client, and may change it; an error goes to Fail.
	Answer(res *http.Response) error
	// Fail answers a request that got no answer from the upstream. r is the
	// client's request and err is for Status and the log. It must write an
	// answer or panic: returning in silence would be an empty 200.
	Fail(w http.ResponseWriter, r *http.Request, err error)
}

// Request is what Forward needs beside the client's request, and what it found.
type Request struct {
	// Front is required.
	Front Front
	// Server is where to send it, from Pick. Forward replaces it when no
	// connection could be made and another server took over.
	Server *Server
	// Path is the escaped path to send, put behind the server's base path:
	// SentPath(r), or what strip_prefix leaves of it. Empty is the base path
	// alone, or / where there is none.
	Path string
	// Tunnel closes a WebSocket that has carried no byte either way for so
	// long; 0 is never.
	Tunnel time.Duration

	// Waited is the time from sending to the first byte of the answer (or to
	// the failure). Set by Forward.
	Waited time.Duration
	// Upgraded says that the client's connection became a tunnel. Set by Forward.
	Upgraded bool
	// Received and Sent count a tunnel's bytes from and to the client. Set by Forward.
	Received, Sent int64
}

// SentPath returns the escaped path of r byte for byte as its client sent it.
func SentPath(r *http.Request) string { return r.URL.EscapedPath() }

// Forward sends r to q.Server and its answer to w, through the pool's one
// ReverseProxy, and returns when the exchange is over, a tunnel's end included.
// Like ReverseProxy it panics with http.ErrAbortHandler when the answer breaks
// off midway, so that the client does not take it for complete.
func (p *Pool) Forward(w http.ResponseWriter, r *http.Request, q *Request) {}
