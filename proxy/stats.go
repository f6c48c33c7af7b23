package proxy

import (
	"sync/atomic"
	"time"

	"gateway/limit"
	"gateway/proxy/upstream"
)

// OverheadBounds are the upper bounds of the histogram of the gateway's own time.
var OverheadBounds = []time.Duration{
	10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	100 * time.Millisecond,
}

// routeStats are the counters of one route: plain atomics, read by whoever asks.
type routeStats struct {
	inFlight  atomic.Int64
	in, out   atomic.Int64 // bytes of bodies
	duration  upstream.Histogram
	responses [len(methods) + 1]atomic.Pointer[statuses] // by method, the last for all others
}

// methods are those that have counters, and a label in metrics, of their own.
var methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

// statuses counts answers by status, a hundred of them in a piece; nil is none yet.
type statuses [10]atomic.Pointer[[100]atomic.Uint64]

// answer counts an answer. A status that is none, which an upstream may send over
// HTTP/2, counts as the nearest number of three digits.
func (s *routeStats) answer(method string, code int) {
	code = min(max(code, 0), 999)
	hundred := made(&made(&s.responses[methodIndex(method)])[code/100])
	hundred[code%100].Add(1)
}

// made returns what p points to, a new T if that is nothing.
func made[T any](p *atomic.Pointer[T]) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}

func methodIndex(method string) int {
	for i := range methods {
		if methods[i] == method {
			return i
		}
	}
	return len(methods)
}

// methodLabel names a method by its index: a label never takes what a client
// chooses.
func methodLabel(i int) string {
	if i == len(methods) {
		return "other"
	}
	return methods[i]
}

// finalStatus is the status the request is logged under.
func (x *exchange) finalStatus() int {
	switch {
	case x.status != 0:
		return x.status
	case x.w.status != 0:
		return x.w.status
	default:
		return upstream.StatusClientGone // aborted before a head was written
	}
}

// count adds the exchange to the counters.
func (x *exchange) count(now limit.Instant) {
	s := x.route
	if s == nil {
		s = &x.g.unrouted
	} else {
		s.inFlight.Add(-1)
	}
	s.answer(x.r.Method, x.finalStatus())
	s.duration.Add(upstream.DurationBounds, now.Sub(x.start))
	s.in.Add(x.bytesIn())
	s.out.Add(x.bytesOut())
	own := now
	if x.sent != 0 {
		own = x.sent
	}
	x.g.overhead.Add(OverheadBounds, own.Sub(x.start)-x.awaited)
}

func (x *exchange) bytesIn() int64 {
	n := x.forward.Received
	if x.body != nil {
		n += x.body.bytes.Load()
	}
	return n
}

func (x *exchange) bytesOut() int64 { return x.w.bytes + x.forward.Sent }

// RouteStats are a reading of one route's counters.
type RouteStats struct {
	// Route is the route's name; "none" is what no route took, and what was
	// malformed.
	Route    string
	InFlight int64
	// RequestBytes and ResponseBytes are those of bodies and tunnels.
	RequestBytes, ResponseBytes int64
	// Duration is that of whole requests over upstream.DurationBounds.
	Duration upstream.Reading
	// Responses counts answers.
	Responses []Responses
}

// Responses counts the answers of one route to one method with one status.
// Method is a well-known one or "other"; Code is 499 when the client left first.
type Responses struct {
	Method string
	Code   int
	Count  uint64
}

func (s *routeStats) read(route string) RouteStats {
	r := RouteStats{
		Route: route, InFlight: s.inFlight.Load(), RequestBytes: s.in.Load(), ResponseBytes: s.out.Load(),
		Duration: s.duration.Read(),
	}
	for i := range s.responses {
		codes := s.responses[i].Load()
		for hundred := 0; codes != nil && hundred < len(codes); hundred++ {
			counts := codes[hundred].Load()
			for j := 0; counts != nil && j < len(counts); j++ {
				if n := counts[j].Load(); n > 0 {
					r.Responses = append(r.Responses, Responses{methodLabel(i), 100*hundred + j, n})
				}
			}
		}
	}
	return r
}

// Routes reads the counters of all routes in force, and those of "none".
func (g *Gateway) Routes() []RouteStats {
	snap := g.Current()
	list := []RouteStats{g.unrouted.read("none")}
	for name, s := range snap.routes {
		list = append(list, s.read(name))
	}
	return list
}

// Overhead reads the histogram, over OverheadBounds, of the gateway's own time
// before a request is handed to its upstream, or answered without one.
func (g *Gateway) Overhead() upstream.Reading { return g.overhead.Read() }

// UntrustedForwarded returns the number of requests from untrusted peers that
// carried X-Forwarded-For.
func (g *Gateway) UntrustedForwarded() int64 { return g.forwarded.count.Load() }

// AccessLog returns the access log, or nil.
func (g *Gateway) AccessLog() *AccessLog { return g.access }
