package proxy

import (
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"gateway/rules"
)

// readEarly reads the body to its end, or until it is longer than most or plain
// that f finds no key in it; Read begins with what was read. It takes memory as
// bytes arrive, not as the client says they will. The bytes of the Body are good
// until the first Read. The error is the client's.
func (b *body) readEarly(most int64, f *rules.Facts, memory *bodyMemory) (rules.Body, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &b.early
	e.memory = memory
	for {
		if len(e.buf) == cap(e.buf) && !e.grow(most) {
			return rules.Body{State: rules.BodyNoMemory}, nil
		}
		n, err := b.receive(e.buf[len(e.buf):min(int64(cap(e.buf)), most+1)])
		e.buf = e.buf[:len(e.buf)+n]
		switch {
		case int64(len(e.buf)) > most && (err == nil || err == io.EOF):
			return rules.Body{State: rules.BodyTooLong}, nil
		case err == io.EOF:
			return rules.Body{State: rules.BodyWhole, Bytes: e.buf}, nil
		case err != nil:
			return rules.Body{}, err
		case f.Hopeless(e.buf):
			return rules.Body{State: rules.BodyHopeless}, nil
		}
	}
}

// early is the beginning of a body, kept to be read once more. The handler and
// whoever sends the body on may use it at the same time.
type early struct {
	memory *bodyMemory

	mu   sync.Mutex // guards what follows
	buf  []byte
	done int // bytes of buf that have been read once more
}

// grow makes buf hold more, and reports whether there is memory for it.
func (e *early) grow(most int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	next, ok := e.memory.take(max(minBuffer, 2*cap(e.buf)), most)
	if !ok {
		return false
	}
	next = append(next, e.buf...)
	e.memory.give(e.buf)
	e.buf = next
	return true
}

// read reads of what is left, and says whether that was the last of it.
func (e *early) read(p []byte) (n int, last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n = copy(p, e.buf[e.done:])
	e.done += n
	if last = e.done == len(e.buf); last {
		e.free()
	}
	return n, last
}

// drop forgets what is left: nobody will read it.
func (e *early) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.free()
}

func (e *early) free() {
	if e.buf != nil {
		e.memory.give(e.buf)
		e.buf, e.done = nil, 0
	}
}

// bodyMemory is the memory in which bodies wait while keys are looked for in them,
// of all requests together. The zero value is ready; it is safe for concurrent use.
type bodyMemory struct {
	used  atomic.Int64
	pools [maxBuffer - minBufferBits + 1]sync.Pool // of *[]byte, by size
}

const (
	minBufferBits = 10
	minBuffer     = 1 << minBufferBits
	maxBuffer     = 20 // bits of the largest buffer that is kept for others

	// bodyRoom is the memory of all waiting bodies, unless body_limit is so high that
	// sixteen of the longest would not fit.
	bodyRoom = 64 << 20
)

// take returns an empty buffer of size bytes, a power of two, while bodies may be
// most bytes long; false when all memory is in use.
func (m *bodyMemory) take(size int, most int64) ([]byte, bool) {
	if m.used.Add(int64(size)) > max(bodyRoom, 16*most) {
		m.used.Add(-int64(size))
		return nil, false
	}
	if class := bits.Len(uint(size)) - 1; class <= maxBuffer {
		if buf, ok := m.pools[class-minBufferBits].Get().(*[]byte); ok {
			return (*buf)[:0], true
		}
	}
	return make([]byte, 0, size), true
}

// give takes a buffer back.
func (m *bodyMemory) give(buf []byte) {
	if buf == nil {
		return
	}
	m.used.Add(-int64(cap(buf)))
	if class := bits.Len(uint(cap(buf))) - 1; class <= maxBuffer {
		m.pools[class-minBufferBits].Put(&buf)
	}
}
