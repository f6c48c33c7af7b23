package proxy

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
	if c.prompt {
		return c.socket().readNow(p), nil
	}
	n, err := c.Conn.Read(p)
	if c.traffic.floods(p[:n]) {
		c.doors.turnAway(c, flooding, "HTTP/2 connections are closed")
		return 0, errFlood
	}
	return n, err
}
