// Package proxy is the front door of the gateway: an http.Handler that takes a
// request from its connection to its answer in nine steps, one below the other
// in Gateway.ServeHTTP.
//
//	1 begin      an exchange, the scratch of one request; finish runs whatever happens
//	2 Snapshot   loaded once; all that follows sees one version of the file
//	3 read       the client's address, host, path; what is malformed ends here
//	4 match      the route, and all rules that apply
//	5 readKeys   peek, hold slots and read the body, if a key is in it
//	  acquire    all rules or none are charged; a place of the whole gateway's is one more claim;
//	             a request that has to wait for its turn waits here
//	6 refuse     429, Retry-After and a problem that names the rules
//	7 pick       a server of the route's pool
//	8 Forward    through the pool's ReverseProxy; headers in front.go
//	9 finish     settle, count, write the access line; on a panic too
//
// # What a client sees
//
// RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11), or
// what came before them, on each answer that some enforced rule applied to, but
// for rules that are keyed on a name; problem+json (RFC 9457) with X-Request-Id on
// all that the gateway itself answers, and a grpc-status where a client speaks gRPC.
//
// # A new version of the file
//
// Build compiles a file into a Snapshot and has no effects; Doors.Prepare binds
// what is new; Gateway.Swap stores the one pointer and cannot fail. A failure
// before that leaves everything as it was.
//
// # Keys in bodies
//
// A body is read for a key only where a rule has one there, and only when no rule
// that needs no body refuses the request: a refusal reads nothing and says no 100
// Continue. Meanwhile the request holds the slots of requests in progress that it
// has by then, and nothing else; what it costs is taken in one decision
// afterwards. Read are at most body_limit bytes, at the pace that timeouts.read
// asks for, within the memory that all such bodies have together (see
// bodyMemory); the upstream gets the same bytes. A body that breaks off, stalls or
// is too large for its route is answered as always, and has cost nothing.
//
// # Turns
//
// A request that its rules admit only later waits in step 5, see exchange.await: it
// has been charged by then, and holds no slot before its turn. A client that goes
// away meanwhile gives its turn back if nobody has one behind it.
//
// # Who sees that a client leaves
//
// On connections of HTTP/1 without TLS it is not net/http but the exchange, and only
// when a request has to wait for something: see exchange.Watch.
//
// # What is the client's fault is not the upstream's
//
// A request body is read through body, which marks its own failures, and a
// client that leaves is told apart from an upstream that fails: 499, 400 and
// 408 are the client's, 502, 503 and 504 the upstream's.
package proxy
