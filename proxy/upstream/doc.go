// Package upstream carries requests to the servers behind the gateway.
//
// A Pool is one upstream of the file: its servers, the connections to them,
// their health and their counters. It lives as long as its spec stays the same,
// over any number of reloads. The front door (package proxy) decides about a
// request, then:
//
//	server, ok := pool.Pick(key)
//	pool.Forward(w, r, &upstream.Request{Front: x, Server: server, Key: key, Path: path})
//
// Forward runs the pool's one httputil.ReverseProxy and calls the front door
// back three times at most: Rewrite to set headers on what goes out, Answer when
// the upstream answered, Fail when it did not. Status turns the error of Fail
// into 499, 408, 400, 504, 503 or 502.
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
// By the pool's balance: the fewest requests in flight for the weight, ties in
// turn; in turn, with as many turns as the weight says; at random; or by weighted
// rendezvous hashing of a key. Backups are for when no other server is up.
//
// Three failures in a row (no connection, or a fresh one that broke before a byte
// was answered) take a server out for ten seconds, unless it is the last that is
// in; a slow answer is no failure, nor is a kept connection that the server
// closed meanwhile. Active checks change what is thought of a server after two in
// a row that say otherwise; the first one decides alone. When they say that fewer
// than half of the servers (of the backups, when those serve) are up, requests go
// to all. Start begins the checks, Close ends them.
//
// A request is sent again in three cases only. If no connection could be made,
// nothing was sent, and another server is tried, whatever the method, Retries
// times but once at least. If a connection breaks before a byte of an answer, GET,
// HEAD, OPTIONS and TRACE without a body are tried again Retries times. If a kept
// connection turns out closed, those are tried once more on another
// connection, unless Retries is 0. A request with a body is never sent twice.
//
// # What carries a request
//
// HTTP/1.1 without TLS, the type direct: it runs in the goroutine that calls
// Forward and leaves parsing and writing out to net/http. Everything else, and that
// too with Transport net_http, a http.Transport. Both do the same with whatever a
// server does; tests compare them.
//
// # What a request costs
//
// One without a body, or with a short one that is there already, that is answered at
// once has no context, no timer and no goroutine of its own: the time to the first
// byte is a deadline of the connection's reads, and whether its client leaves is looked
// at when a read has waited for 50 ms.
//
// # How many at once
//
// With MaxConns a server has at most so many requests in flight. One that finds
// all full waits its turn, first come first served, at most the connect timeout;
// then it fails with a BusyError.
//
// # Names
//
// A server's name is looked up every Resolve. Its addresses get the requests in
// turn; an address that takes no connection has its dial go to another one.
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
// It makes no answer of its own and knows no rules. It does not bound how slowly a
// client sends or reads, nor how slowly an answer trickles once it has begun: the
// deadlines of the front door do. A http.Transport writes a few lines to the
// standard logger, which the program should direct to its own.
package upstream
