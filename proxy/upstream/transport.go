package upstream

import (
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

// newTransport returns the transport of a pool for servers that speak HTTP/1.1,
// or HTTP/2 where TLS agrees on it; or for those that speak HTTP/2 from the
// first byte (h2c). No proxy from the environment, no compression of its own.
func newTransport(spec *rules.Upstream, h2c bool) *http.Transport {
	var speaks http.Protocols
	if h2c {
		speaks.SetUnencryptedHTTP2(true)
	} else {
		speaks.SetHTTP1(true)
		speaks.SetHTTP2(true)
	}
	return &http.Transport{
		Protocols:              &speaks,
		DialContext:            dialFunc(spec.ConnectTimeout),
		TLSHandshakeTimeout:    spec.ConnectTimeout,
		ExpectContinueTimeout:  expectFor,
		IdleConnTimeout:        spec.IdleTimeout,
		MaxIdleConnsPerHost:    maxIdle,
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
