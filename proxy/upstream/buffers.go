package upstream

import (
	"io"
	"sync"
	"sync/atomic"
)

const (
	bufferSize = 32 << 10
	// largeSize is that of the buffers that bodies go through that come faster than
	// they are passed on. To read and to write costs by the call more than by the byte.
	largeSize = 256 << 10
	// largeMost is how many of those are in use at once: what a body that stands still
	// holds must not add up.
	largeMost = 32
)

// buffers is what bodies are copied through. It holds arrays, not slices,
// because putting a slice into a sync.Pool allocates.
var buffers = &bufferPool{sync.Pool{New: func() any { return new([bufferSize]byte) }}}

type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[bufferSize]byte)(buf)) }

var largeBuffers = &largePool{pool: sync.Pool{New: func() any { return new([largeSize]byte) }}}

type largePool struct {
	pool sync.Pool
	used atomic.Int32
}

// get returns a buffer, or nil if there are enough in use.
func (l *largePool) get() *[largeSize]byte {
	if l.used.Add(1) > largeMost {
		l.used.Add(-1)
		return nil
	}
	return l.pool.Get().(*[largeSize]byte)
}

// put takes back a buffer, or nil.
func (l *largePool) put(buf *[largeSize]byte) {
	if buf != nil {
		l.pool.Put(buf)
		l.used.Add(-1)
	}
}

// copyBody is io.Copy. While src gives as much as a buffer takes, it goes through a
// large one.
func copyBody(dst io.Writer, src io.Reader) (written int64, err error) {
	small := buffers.Get()
	defer buffers.Put(small)
	var large *[largeSize]byte
	defer func() { largeBuffers.put(large) }()
	buf := small
	for {
		n, readErr := src.Read(buf)
		if n > 0 {
			m, err := dst.Write(buf[:n])
			written += int64(m)
			if err != nil {
				return written, err
			}
		}
		switch {
		case readErr == io.EOF:
			return written, nil
		case readErr != nil:
			return written, readErr
		case large == nil && n == len(small):
			if large = largeBuffers.get(); large != nil {
				buf = large[:]
			}
		case large != nil && n < len(small):
			largeBuffers.put(large)
			large, buf = nil, small
		}
	}
}
