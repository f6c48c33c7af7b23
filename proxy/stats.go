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
	responses [len(methods)][10]atomic.Pointer[hundred] // by method, and by status / 100
}

// hundred counts the statuses that begin with the same digit.
type hundred [100]atomic.Uint64

func (s *routeStats) answer(method string, code int) {
	at := &s.responses[methodIndex(method)][code/100%10]
	n := at.Load()
	if n == nil {
		at.CompareAndSwap(nil, new(hundred))
		n = at.Load()
	}
	n[code%100].Add(1)
}

// methods are those that metrics name: a label never takes what a client chooses.
var methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "other"}

// methodIndex returns where in methods a method is counted.
func methodIndex(method string) int {
	for i := range methods[:len(methods)-1] {
		if methods[i] == method {
			return i
		}
	}
	return len(methods) - 1
}

// status is the status the request is logged under.
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
	for m := range s.responses {
		for class := range s.responses[m] {
			counts := s.responses[m][class].Load()
			for i := 0; counts != nil && i < len(counts); i++ {
				if n := counts[i].Load(); n > 0 {
					r.Responses = append(r.Responses, Responses{methods[m], 100*class + i, n})
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
