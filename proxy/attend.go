package proxy

import (
	"context"
	"time"
)

// While a handler runs, net/http has a goroutine read from the connection to find
// out whether the client leaves, and ends that read when the handler has returned:
// two calls of the system and some hand-overs in each request, for answers that
// nearly always come long before anybody could care. On connections without TLS
// that read gets nothing, and returns at once. A request that has to wait for
// something asks for a watch then, see exchange.Watch; one that fails looks, see
// exchange.Left.

// active is called when the head of a request has been read.
func (c *conn) active() { c.attended.Store(c.http1.Load()) }

// idle is called when a request has ended and another may come.
func (c *conn) idle() { c.attended.Store(false) }

// attend takes it on x to see to whether the client leaves, where net/http does not.
// What reads the body of a request finds out by itself; see also gather.
func (x *exchange) attend(c *conn) {
	switch {
	case !c.attended.Load():
		if x.r.TLS == nil && x.r.ProtoMajor == 1 && c.socket() != nil {
			c.http1.Store(true) // from the next request on
		}
	case hasBody(x.r):
		c.attended.Store(false)
	default:
		x.attends = c
	}
}

// Watch implements upstream.Client: it returns a context that ends when the client
// leaves, and begins to look for that.
func (x *exchange) Watch() context.Context {
	switch {
	case x.watching != nil:
	case x.attends == nil:
		x.watching = x.r.Context()
	default:
		x.watching, x.leaves = context.WithCancel(x.r.Context())
		x.unwatch = x.attends.watch(x.leaves)
	}
	return x.watching
}

// Left implements upstream.Client: it reports whether the client has left.
func (x *exchange) Left() bool { return x.leftError() != nil }

// leftError is why the request of a client that has left has ended.
func (x *exchange) leftError() error {
	ctx := x.r.Context()
	if x.watching != nil {
		ctx = x.watching
	}
	if err := ctx.Err(); err != nil || x.attends == nil {
		return err
	}
	if x.attends.gone.Load() || x.attends.socket().look() == endThere {
		return context.Canceled
	}
	return nil
}

// unattend ends the watch, before anybody else reads from the connection. The
// context lives on.
func (x *exchange) unattend() {
	if x.unwatch != nil {
		x.unwatch()
		x.unwatch = nil
	}
	x.attends = nil
}

// watch has left called when the client closes the connection, unless it sends
// something before. The func that it returns ends the watch, and is to be called.
func (c *conn) watch(left func()) (end func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		found, err := c.socket().await()
		if found == bytesThere || err != nil && isTimeout(err) {
			return
		}
		left()
	}()
	return func() {
		c.SetReadDeadline(time.Unix(1, 0))
		<-over
		c.SetReadDeadline(time.Time{})
	}
}
