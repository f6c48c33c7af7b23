package upstream

import (
	"crypto/tls"
	"net/http"
	"time"

	"gateway/rules"
)

const (
	// maxIdle is how many idle connections are kept to one server. net/http keeps
	// two by default, which makes every third parallel request dial.
	maxIdle = 4096
	// maxAnswerHeader bounds the header of an answer; more is 502.
	maxAnswerHeader = 1 << 20
	// expectFor is how long a body waits for the server's 100 Continue.
	expectFor = time.Second
)

// connect gives s its transports. tls is for https servers and may be nil. Those
// are net/http's alone: one may turn out to speak HTTP/2.
func (s *Server) connect(spec *rules.Upstream, tls *tls.Config) {
	s.h1 = newTransport(spec, s, tls, false)
	if canBeDirect && spec.Transport != "net_http" && s.scheme == "http" && !s.h2c && isASCII(s.host) {
		s.h1direct = &direct{dial: s.dialer(spec.ConnectTimeout), port: "80", keep: spec.IdleTimeout}
	}
	check := newTransport(spec, s, tls, s.h2c)
	check.DisableKeepAlives = true // a check is about taking connections, too
	s.checks = check
	if s.h2c {
		s.prior = newTransport(spec, s, nil, true)
	}
}

// newTransport returns a transport for a server that speaks HTTP/1.1, or HTTP/2
// where TLS agrees on it; or for one that speaks HTTP/2 from the first byte
// (h2c). No proxy from the environment, no compression of its own.
func newTransport(spec *rules.Upstream, s *Server, tls *tls.Config, h2c bool) *http.Transport {
	var speaks http.Protocols
	if h2c {
		speaks.SetUnencryptedHTTP2(true)
	} else {
		speaks.SetHTTP1(true)
		speaks.SetHTTP2(true)
	}
	return &http.Transport{
		Protocols:              &speaks,
		DialContext:            s.dialer(spec.ConnectTimeout),
		TLSClientConfig:        tls,
		TLSHandshakeTimeout:    spec.ConnectTimeout,
		ExpectContinueTimeout:  expectFor,
		IdleConnTimeout:        spec.IdleTimeout,
		MaxIdleConnsPerHost:    maxIdle,
		MaxConnsPerHost:        spec.MaxConns,
		MaxResponseHeaderBytes: maxAnswerHeader,
		DisableCompression:     true,
		HTTP2: &http.HTTP2Config{
			// Notices a peer that vanished under streams that are quiet.
			SendPingTimeout:  15 * time.Second,
			PingTimeout:      15 * time.Second,
			WriteByteTimeout: spec.Timeout,
		},
	}
}

// isASCII reports whether a host is dialled as it is written.
func isASCII(host string) bool {
	for i := range len(host) {
		if host[i] >= 0x80 {
			return false
		}
	}
	return true
}
