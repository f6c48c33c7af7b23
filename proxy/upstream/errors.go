package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"syscall"
)

// StatusClientGone is the status under which a request is logged whose client
// left before its answer; it is nginx's number and in no RFC.
const StatusClientGone = 499

// ClientBodyError says that the request body could not be read from the client,
// whatever the upstream made of the half it got. Err is the first error that
// the inbound body gave. It is never an upstream's fault.
type ClientBodyError struct{ Err error }

// Error implements error.
func (e *ClientBodyError) Error() string { return "reading the client's body: " + e.Err.Error() }

// Unwrap returns the error of the inbound body.
func (e *ClientBodyError) Unwrap() error { return e.Err }

// ConnectError says that no connection could be made, so that nothing was sent.
// Its text names the address dialled: it is for logs, never for a client.
type ConnectError struct{ Err error }

// Error implements error.
func (e *ConnectError) Error() string { return "connecting: " + e.Err.Error() }

// Unwrap returns the error of the dial or of the TLS handshake.
func (e *ConnectError) Unwrap() error { return e.Err }

// isOurs reports whether err is a want of the gateway's own machine, of file
// descriptors, ports or memory. It says nothing about the server that was dialled.
func isOurs(err error) bool {
	for _, want := range [...]error{
		syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM,
	} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// AnswerError says that a server answered with what cannot be passed on: a 101
// nobody asked for, a status outside 200 to 999, a flood of interim answers.
type AnswerError struct{ Reason string }

// Error implements error.
func (e *AnswerError) Error() string { return "unusable answer: " + e.Reason }

// BusyError says that every server had as many requests in progress as it may,
// for as long as the request would wait for a place.
type BusyError struct{}

// Error implements error.
func (*BusyError) Error() string { return "every server is busy" }

// DownError says that no connection could be made while active checks say that
// every server is down. Err is the ConnectError of the last try.
type DownError struct{ Err error }

// Error implements error.
func (e *DownError) Error() string { return "every server is down: " + e.Err.Error() }

// Unwrap returns the error of the last try.
func (e *DownError) Unwrap() error { return e.Err }

// StallError says that a server took no more of a request's body for the
// upstream's timeout.
type StallError struct{}

// Error implements error.
func (*StallError) Error() string { return "the upstream takes no more of the body" }

// Timeout reports true: it is the upstream that was too slow.
func (*StallError) Timeout() bool { return true }

// Status tells apart why a request got no answer from its upstream: 499 the client went
// away, 408 it sent its body too slowly, 400 its body is malformed, 504 the
// upstream was too slow, 503 every server is busy, or down and taking no
// connection, or the gateway has no descriptor or port left for one, 502 anything
// else (refused, reset, malformed, a header too large, no connection within
// connect_timeout). left is why the client's request has ended, or nil.
func Status(err, left error) int {
	if body, ok := errors.AsType[*ClientBodyError](err); ok {
		return clientStatus(body.Err, left)
	}
	if errors.Is(err, errServerLost) {
		return http.StatusBadGateway // whatever became of the client then
	}
	switch {
	case errors.Is(left, context.Canceled):
		return StatusClientGone
	case left != nil:
		return http.StatusGatewayTimeout
	}
	_, busy := errors.AsType[*BusyError](err)
	if _, down := errors.AsType[*DownError](err); busy || down {
		return http.StatusServiceUnavailable
	}
	if c, ok := errors.AsType[*ConnectError](err); ok {
		if isOurs(c.Err) {
			return http.StatusServiceUnavailable
		}
		return http.StatusBadGateway
	}
	if isTimeout(err) {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// clientStatus is the status of a body that gave err. The end of the connection
// inside a body is a client that left, not one that wrote nonsense.
func clientStatus(err, left error) int {
	gone := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case isTimeout(err):
		return http.StatusRequestTimeout
	case gone || left != nil:
		return StatusClientGone
	}
	return http.StatusBadRequest
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}

// isNetwork reports whether err comes from the network or from TLS, and not from
// a request or an answer that net/http did not like.
func isNetwork(err error) bool {
	for _, known := range [...]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, known) {
			return true
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.AlertError](err)
	return ok
}

// quoted are the words between quotes in an error.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

// Plain returns the text of an error of net/http, or a line of its log, without what
// stands in quotes in it: that is what a server has sent, and may be anything.
func Plain(text string) string { return quoted.ReplaceAllString(text, `"…"`) }
