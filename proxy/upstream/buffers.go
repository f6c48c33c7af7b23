package upstream

import "sync"

const bufferSize = 32 << 10

// buffers is what bodies are copied through. It holds arrays, not slices,
// because putting a slice into a sync.Pool allocates.
var buffers = &bufferPool{sync.Pool{New: func() any { return new([bufferSize]byte) }}}

type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(buf []byte) { b.pool.Put((*[bufferSize]byte)(buf)) }
