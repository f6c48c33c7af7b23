// Package conformance runs test suites that others wrote against the gateway as it
// is built: h2spec for HTTP/2, the interoperability tests of gRPC, slowhttptest.
// What they need is in bench/go.mod; slowhttptest is a Debian package. They are
// the rows of the scorecard that no test of the gateway's own module can be.
package conformance
