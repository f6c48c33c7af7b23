package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"gateway/proxy/upstream"
)

// body is the request body as it comes from the client. In each span of
// `timeouts.read` at least minProgress bytes must arrive or the body must end;
// how long it takes in all does not matter. Any error but the end is the
// client's, and marked so: whatever the upstream makes of the half it got, it
// is not the upstream's fault. It is not part of the pooled exchange, since a
// transport may still read it when the handler has returned.
type body struct {
	rc   *http.ResponseController
	span time.Duration

	mu     sync.Mutex // one Read at a time
	in     io.ReadCloser
	waited time.Duration // for the client, in this span
	got    int           // bytes in this span
	err    error         // the first error

	bytes  atomic.Int64
	failed atomic.Bool // the client's side failed
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	var from time.Time
	if b.span > 0 {
		// Only the time spent waiting for the client counts: while the upstream
		// takes nothing the client cannot send.
		from = time.Now()
		if err := b.rc.SetReadDeadline(from.Add(b.span - b.waited)); err != nil {
			return 0, b.fail(err)
		}
	}
	n, err := b.in.Read(p)
	b.bytes.Add(int64(n))
	if b.got += n; b.got >= minProgress {
		b.got, b.waited = 0, 0
	} else if b.span > 0 {
		b.waited += time.Since(from)
	}
	switch {
	case err == io.EOF:
		b.err = err
		if b.span > 0 {
			// The connection lives on; a deadline left behind would end it in the
			// middle of the answer.
			b.rc.SetReadDeadline(time.Time{})
		}
	case err != nil:
		err = b.fail(err)
	}
	return n, err
}

func (b *body) fail(err error) error {
	b.err = &upstream.ClientBodyError{Err: err}
	b.failed.Store(true)
	return b.err
}

// Close implements io.Closer.
func (b *body) Close() error { return b.in.Close() }

// atEnd says that the body was read to its end, or until it failed.
func (b *body) atEnd() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil
}
