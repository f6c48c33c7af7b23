// Package upstream carries requests to the servers behind the gateway.
//
// A Pool is one upstream of the file: its servers, the connections to them,
// their health and their counters. It lives as long as its spec stays the same,
// over any number of reloads. The front door (package proxy) decides about a
// request, then:
//
//	server, ok := pool.Pick()
//	pool.Forward(w, r, &upstream.Request{Front: x, Server: server, Path: path})
//
// Forward runs the pool's one httputil.ReverseProxy and calls the front door
// back three times at most: Rewrite to set headers on what goes out, Answer when
// the upstream answered, Fail when it did not. Status turns the error of Fail
// into 499, 408, 400, 504 or 502.
//
// # What the upstream gets
//
// The path byte for byte as the front door gives it, behind the server's base
// path: base "" or "/base" or "/base/", path "/x%2Fy//z" gives "/x%2Fy//z" or
// "/base/x%2Fy//z". Two exceptions: a raw '#' is sent as %23, so that no server
// cuts the path there; and where a path begins with "//" and there is no base,
// octets that no URL may hold are sent percent-encoded. The query byte for byte,
// whatever is in it. A body with the framing it came in: a known length stays a
// length, chunked stays chunked. No announcement of request trailers, because
// ReverseProxy would announce and not send them.
//
// # Which server, and how often
//
// The one with the fewest requests in flight, ties in turn. Three failures in a
// row (no connection, or a fresh one that broke before a byte was answered) take
// a server out for ten seconds, unless it is the last that is in; a slow answer is
// no failure, nor is a kept connection that the server closed meanwhile.
//
// A request is sent again in two cases only. If no connection could be made,
// nothing was sent, and another server is tried once, whatever the method. If a
// kept connection turns out closed, net/http tries GET, HEAD, OPTIONS and TRACE
// without a body once more on a fresh one. A request with a body is never sent
// twice.
//
// # What a bad upstream cannot do
//
// Get a tunnel nobody asked for (a 101 is 502 and its connection closed), crash
// the gateway with a status outside 200 to 999, send more than eight interim
// answers or more than 1 MiB of headers, hold an upload for ever by not reading it,
// leave a client that pauses in its upload without an answer by dying, or have what
// it sends behind an answer read by another client. An answer that breaks off midway
// breaks off for the client too.
//
// # What a bad client cannot do
//
// Make a server look bad: whatever it does to its body or its connection is a
// ClientBodyError or 499, and no failure of the server. When an answer comes before
// the end of its body, it gets the answer and its connection is closed.
//
// # Tunnels
//
// Only a WebSocket handshake becomes one; any other Upgrade is dropped. What the
// client sent along with its handshake arrives. Either side may close its half.
// A tunnel without a byte either way for Request.Tunnel is closed. To end one
// earlier cancel the request's context. Forward returns when it is over.
//
// # What it does not do
//
// It makes no answer of its own, knows no rules and checks nothing actively. It
// does not bound how slowly a client sends or reads, nor how slowly an answer
// trickles once it has begun: the deadlines of the front door do. net/http's
// transport writes a few lines to the standard logger, which the program should
// direct to its own.
package upstream
