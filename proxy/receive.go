package proxy

import (
	"errors"
	"os"
)

// Read implements net.Conn: first what came right behind a PROXY header. A flood
// ends the connection.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		if c.early = c.early[n:]; len(c.early) == 0 {
			c.early = nil // lets go of the buffer
		}
		return n, nil
	}
	if len(p) == 1 && c.attended.Load() {
		return 0, nil // see attended
	}
	n, err := c.receive(p)
	if c.traffic.floods(p[:n]) {
		c.doors.turnAway(c, flooding, "HTTP/2 connections are closed")
		return 0, errFlood
	}
	return n, err
}

// receive reads what the client sends.
func (c *conn) receive(p []byte) (n int, err error) {
	c.reads.begin(c.Conn)
	rests := c.rests.Load() && c.rests.Swap(false)
	for {
		if rests {
			n, err = c.awaitRequest(p)
			rests = false
		} else {
			n, err = c.Conn.Read(p)
		}
		if err == nil || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !c.reads.early(c.Conn) {
			break
		}
	}
	c.reads.end()
	c.emptied.Store(err == nil && n < len(p))
	return n, err
}
