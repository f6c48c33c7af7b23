package proxy

import (
	"io"
	"math/bits"
)

// maxGathered is the longest body that is gathered.
const maxGathered = 4 << 10

// gather takes in a short body that is there already, as it nearly always is when the
// head is. It goes to the server in one piece with the head then, sent by the
// goroutine of the request, and to see whether the client leaves is the business of
// the exchange, as if there were no body. What waits for 100 Continue is not gathered:
// whether it is wanted is the server's to say.
func (x *exchange) gather() {
	b, c, length := x.body, x.line, x.r.ContentLength
	switch {
	case b == nil || length <= 0 || length > maxGathered || x.r.Header["Expect"] != nil:
	case x.readsBody:
		x.forward.Body = b.gathered(int(length))
	case c == nil || c.socket() == nil || x.watching != nil: // net/http looks after the client
	default:
		c.attended.Store(true) // before net/http finds the end of the body, and begins to read behind it
		if b.gather(int(length), c, &x.g.bodies) {
			x.attends = c
		} else {
			c.attended.Store(false)
		}
		x.forward.Body = b.gathered(int(length))
	}
}

// gather reads a body of so many bytes, which comes by c, if that goes without
// waiting, and reports whether it did. Read begins with what was read, in any case.
// Half of the memory stays for bodies with keys in them, whose rules cannot do without.
func (b *body) gather(length int, c *conn, memory *bodyMemory) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if memory.used.Load() > bodyRoom/2 {
		return false
	}
	e := &b.early
	buf, ok := memory.take(max(minBuffer, 1<<bits.Len(uint(length-1))), int64(length))
	if !ok {
		return false
	}
	var err error
	c.prompt = true
	for n := 1; n > 0 && err == nil; {
		n, err = b.in.Read(buf[len(buf):length])
		buf = buf[:len(buf)+n]
	}
	c.prompt = false
	b.bytes.Add(int64(len(buf)))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.memory, e.buf = memory, buf; len(buf) == 0 {
		e.free()
	}
	if err != io.EOF {
		return false
	}
	b.err = io.EOF
	b.done.Store(true)
	return true
}

// gathered returns a body of so many bytes if all of it has been read, and nothing of
// it been read once more; else nil.
func (b *body) gathered(length int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != io.EOF || len(b.early.buf) != length {
		return nil
	}
	return b.early.buf
}
