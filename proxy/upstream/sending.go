package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sentWait is how long an answer that has been read waits for its request to be
	// written, before the connection is given up.
	sentWait = 50 * time.Millisecond
	// answerWait is how long an answer may be on its way when its server takes no
	// more of the request: it has been sent before the connection broke.
	answerWait = time.Second
)

// errUnwanted says that the server answered without asking for the body.
var errUnwanted = errors.New("the server wants no body")

// writers are what requests with a body are written through, chunkWriters those
// with one of unknown length: there a chunk goes out in one piece with what is
// around it. net/http reads 32 KiB for each.
var (
	writers      = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}
	chunkWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 32<<10+64) }}
)

// sending sends a request with its body, in a goroutine of its own. It is that
// body, too.
type sending struct {
	link *link
	req  *http.Request
	body io.ReadCloser

	mu      sync.Mutex    // guards what follows
	held    *bytes.Buffer // the header, for the first of the body to go with it; nil once it is let go
	writing sync.Mutex    // is held while the link is written to; it is taken under mu, so that what is held comes first

	gate   chan bool   // tells whether to send the body; nil if nothing is expected
	opened atomic.Bool // gate has been told
	past   bool        // gate has been passed

	read  atomic.Int64 // bytes of the body
	ended atomic.Bool  // it has been read to its end

	done    chan struct{} // closed at the end; what follows is set then
	readErr error         // what reading the body gave
	err     error
}

func newSending(x *exchange) *sending {
	s := &sending{link: x.link, body: x.req.Body, held: x.out, done: make(chan struct{})}
	if expects(x.req) {
		s.gate = make(chan bool, 1)
	}
	out := *x.req
	out.Body = s
	s.req = &out
	return s
}

// expects reports whether the server is to say that it wants the body.
func expects(req *http.Request) bool {
	for _, v := range req.Header["Expect"] {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.Trim(token, " \t"), "100-continue") {
				return true
			}
		}
	}
	return false
}

// run writes the request.
func (s *sending) run() {
	defer close(s.done)
	pool := &writers
	if s.req.ContentLength < 0 {
		pool = &chunkWriters
	}
	w := pool.Get().(*bufio.Writer)
	w.Reset(s)
	err := s.req.Write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = s.letGo()
	}
	w.Reset(nil)
	pool.Put(w)
	s.err = err
	s.writing.Lock()
	refused := s.link.writeErr != nil
	s.writing.Unlock()
	switch {
	case err == nil || s.readErr == errUnwanted:
	case s.readErr == nil && refused:
		// The answer may be there, or on its way: to an upload that is too large
		// servers say so and hang up.
		s.link.net.SetReadDeadline(time.Now().Add(answerWait))
	default:
		s.link.close() // the request is broken off, and nobody is to wait for an answer
	}
}

// Write writes to the server, what comes first together with what comes next.
func (s *sending) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.held != nil && len(p)+s.held.Len() <= maxRequestKept {
		first := s.held.Len() == 0
		s.held.Write(p)
		s.mu.Unlock()
		if first {
			return len(p), nil
		}
		return len(p), s.letGo()
	}
	held := s.held
	s.held = nil
	s.writing.Lock()
	s.mu.Unlock()
	defer s.writing.Unlock()
	if held != nil && held.Len() > 0 {
		if _, err := s.link.Write(held.Bytes()); err != nil {
			return 0, err
		}
	}
	return s.link.Write(p)
}

// ReadFrom writes what r gives, in pieces larger than a bufio.Writer would make.
func (s *sending) ReadFrom(r io.Reader) (int64, error) {
	return copyBody(s, r)
}

// letGo sends what is held, and nothing is held from then on. When nothing is, it does
// not wait for what is being written: the server may take no more of it until somebody
// reads its answer.
func (s *sending) letGo() error {
	s.mu.Lock()
	held := s.held
	s.held = nil
	if held == nil || held.Len() == 0 {
		s.mu.Unlock()
		return nil
	}
	s.writing.Lock()
	s.mu.Unlock()
	defer s.writing.Unlock()
	_, err := s.link.Write(held.Bytes())
	return err
}

// Read reads the body for net/http's Request.Write, which has sent the header by
// then.
func (s *sending) Read(p []byte) (int, error) {
	if s.gate != nil && !s.past {
		if !s.wanted() {
			s.readErr = errUnwanted
			return 0, errUnwanted
		}
		s.past = true
	}
	n, err := s.body.Read(p)
	s.read.Add(int64(n))
	switch err {
	case nil:
	case io.EOF:
		s.ended.Store(true)
	default:
		s.readErr = err
	}
	return n, err
}

// Close implements io.Closer.
func (s *sending) Close() error { return s.body.Close() }

// wanted waits for the server to ask for the body, as long as is usual.
func (s *sending) wanted() bool {
	t := time.NewTimer(expectFor)
	defer t.Stop()
	select {
	case yes := <-s.gate:
		return yes
	case <-t.C:
	}
	if s.opened.CompareAndSwap(false, true) {
		return true
	}
	return <-s.gate // just now
}

// open tells a body that waits whether it is wanted, and reports whether it was
// waiting.
func (s *sending) open(yes bool) bool {
	if s.gate == nil || !s.opened.CompareAndSwap(false, true) {
		return false
	}
	s.gate <- yes
	return true
}

// early reports whether an answer that is there now came before the server could
// have all of the body. What it does with the rest, and with a request behind it,
// is anybody's guess.
func (s *sending) early() bool {
	if s.req.ContentLength >= 0 {
		return s.read.Load() < s.req.ContentLength
	}
	return !s.ended.Load()
}

// over reports whether the request has been written, or given up.
func (s *sending) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// sent reports whether the request has been written as a whole. It waits a moment:
// an answer may overtake the news.
func (s *sending) sent() bool {
	if !s.over() {
		t := time.NewTimer(sentWait)
		defer t.Stop()
		select {
		case <-s.done:
		case <-t.C:
			return false
		}
	}
	return s.err == nil
}

// failed returns what broke the request off, once it is over.
func (s *sending) failed() error {
	switch {
	case s.readErr == errUnwanted:
		return nil
	case s.readErr != nil:
		return s.readErr
	}
	return s.err
}
