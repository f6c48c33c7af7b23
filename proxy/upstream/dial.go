package upstream

import (
	"context"
	"net"
	"time"
)

// maxAddresses is how many addresses of one name a dial tries at most.
const maxAddresses = 3

// dialer returns what dials for s's transports. A name whose addresses are known
// gets the one that the transport asks for, and when that takes no connection
// another; each has its share of the time that is left.
func (s *Server) dialer(timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c}, nil
	}
	if s.socket != "" {
		return func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "unix", s.socket) }
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		others := s.names.others(addr)
		if len(others) == 0 {
			return dial(ctx, network, addr)
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		var first error
		for i, a := range append([]string{addr}, others...) {
			c, err := within(ctx, len(others)+1-i, func(ctx context.Context) (net.Conn, error) { return dial(ctx, network, a) })
			if err == nil {
				return c, nil
			}
			if first == nil {
				first = err
			}
			if ctx.Err() != nil {
				break
			}
		}
		return nil, first
	}
}

// within gives do one part of so many of the time that ctx has left.
func within(ctx context.Context, parts int, do func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok && parts > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(parts))
		defer cancel()
	}
	return do(ctx)
}
