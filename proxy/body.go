package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
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
	span  time.Duration
	http2 bool
	most  int64       // bytes that the route takes; 0 is no bound
	done  atomic.Bool // read to its end, or until it failed

	failed atomic.Bool // the client's side failed

	mu     sync.Mutex // one Read at a time; held while it waits for the client
	in     io.ReadCloser
	conn   *conn         // over HTTP/2; else nil
	waited time.Duration // for the client, in this span
	got    int           // bytes in this span
	err    error         // the first error

	bytes atomic.Int64 // that came from the client
	early early        // what was read of it before anybody wanted it

	rcMu sync.Mutex               // guards what follows
	rc   *http.ResponseController // nil once the handler has returned
}

// Read implements io.Reader. It tells of the end with the last bytes, as net/http's
// own does: an upstream may answer before anybody asks for more, and a body that is not
// known to have ended costs the client its connection.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, last := b.early.read(p); n > 0 {
		if last && b.err == io.EOF {
			return n, io.EOF
		}
		return n, nil
	}
	return b.receive(p)
}

// receive reads from the client.
func (b *body) receive(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	var from time.Time
	if b.span > 0 {
		// Only the time spent waiting for the client counts: while the upstream
		// takes nothing the client cannot send.
		from = time.Now()
		if err := b.deadline(from.Add(b.span - b.waited)); err != nil {
			return 0, b.fail(err)
		}
	}
	n, err := b.in.Read(b.within(p))
	if b.http2 && b.span > 0 && err == nil {
		// There a deadline breaks the body even when nobody waits for it, and whoever
		// sends it on may take its time.
		if e := b.deadline(time.Time{}); e != nil {
			return n, b.fail(e)
		}
	}
	if b.conn != nil {
		b.conn.traffic.worth.Add(int64(n))
	}
	if over := b.bytes.Add(int64(n)) - b.most; b.most > 0 && over > 0 {
		return n - int(over), b.fail(errTooLarge)
	}
	if b.got += n; b.got >= minProgress {
		b.got, b.waited = 0, 0
	} else if b.span > 0 {
		b.waited += time.Since(from)
	}
	switch {
	case err == io.EOF:
		b.end()
	case err != nil:
		if b.span > 0 && b.waited >= b.span {
			// net/http hides a deadline among the trailers behind an error of its own.
			err = fmt.Errorf("%w (%v)", os.ErrDeadlineExceeded, err)
		}
		err = b.fail(err)
	}
	return n, err
}

// within returns as much of p as the bound leaves, and a byte more, which tells
// a body that is too long from one that just fits.
func (b *body) within(p []byte) []byte {
	if b.most == 0 {
		return p
	}
	return p[:min(int64(len(p)), b.most-b.bytes.Load()+1)]
}

// end notes the end. The connection lives on; a deadline left behind would cut
// it in the middle of the answer.
func (b *body) end() {
	b.err = io.EOF
	b.done.Store(true)
	if b.span > 0 {
		b.deadline(time.Time{})
	}
}

func (b *body) fail(err error) error {
	b.err = &upstream.ClientBodyError{Err: err}
	b.failed.Store(true)
	b.done.Store(true)
	return b.err
}

// deadline bounds the reads that follow. It does nothing once the handler has
// returned: the connection may be another request's by then, and to touch a
// finished HTTP/2 stream is a panic.
func (b *body) deadline(t time.Time) error {
	b.rcMu.Lock()
	defer b.rcMu.Unlock()
	if b.rc == nil {
		return nil
	}
	return b.rc.SetReadDeadline(t)
}

// errReleased is what a body reads as once its handler has returned.
var errReleased = errors.New("the request has ended")

// release is called when the handler returns: the body is not read any more. On
// HTTP/1 a Read that still waits for the client is ended first. net/http aborts
// a pending read of the connection when a handler has returned; a body that ends
// in that moment begins another one, for which it then waits for ever.
func (b *body) release(http1 bool) {
	b.early.drop()
	b.rcMu.Lock()
	rc := b.rc
	b.rc = nil
	b.rcMu.Unlock()
	if !http1 {
		return
	}
	if !b.mu.TryLock() {
		rc.SetReadDeadline(time.Unix(1, 0))
		b.mu.Lock()
		rc.SetReadDeadline(time.Time{})
	}
	if b.err == nil {
		b.err = errReleased
	}
	b.mu.Unlock()
}

// promptly is how long an answer of the gateway's own waits for the rest of a
// body, and maxRest how much of one it takes in, to keep the connection.
const (
	promptly = 20 * time.Millisecond
	maxRest  = 256 << 10
)

// drain reads away a body of known length that nobody else reads, if it is
// there already, and reports whether it has ended. It does not ask for one that
// waits for 100 Continue, nor for chunks: they cannot be read on after a
// deadline, and then the connection could not end gently.
func (b *body) drain(r *http.Request) (ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	begun := b.bytes.Load()
	rest := r.ContentLength - begun
	if b.err != nil || r.ContentLength < 0 || rest > maxRest || r.Header["Expect"] != nil && begun == 0 {
		return b.err == io.EOF
	}
	if err := b.deadline(time.Now().Add(promptly)); err != nil {
		return false
	}
	n, err := io.CopyN(io.Discard, b.in, rest)
	b.bytes.Add(n)
	if err != nil {
		return false
	}
	b.end()
	b.deadline(time.Time{})
	return true
}

// Close implements io.Closer.
func (b *body) Close() error { return b.in.Close() }

// atEnd says that the body was read to its end, or until it failed. It does not
// wait for a Read in progress.
func (b *body) atEnd() bool { return b.done.Load() }
