package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"gateway/limit"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// wire is a client's connection of which a test writes each byte itself.
type wire struct {
	t testing.TB
	*net.TCPConn
	in *bufio.Reader
}

// dial connects to the gateway.
func (s *site) dial() *wire {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &wire{s.t, c.(*net.TCPConn), bufio.NewReader(c)}
}

// send writes text as it is. A gateway that has closed already is no failure:
// what it said before that is what counts.
func (w *wire) send(text string) { io.WriteString(w.TCPConn, text) }

// answer reads the final answer to a request with the given method, body
// included. ok is false when the connection ended without one.
func (w *wire) answer(method string) (r reply, ok bool) {
	w.t.Helper()
	res, err := http.ReadResponse(w.in, &http.Request{Method: method})
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(w.in, &http.Request{Method: method})
	}
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
			return reply{}, false
		}
		w.t.Fatalf("no answer: %v", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil && !res.Close { // with the end of a connection may come a reset
		w.t.Fatalf("the body of %d: %v", res.StatusCode, err)
	}
	return reply{res, string(body)}, true
}

// mustAnswer is answer where there has to be one.
func (w *wire) mustAnswer(method string) reply {
	w.t.Helper()
	r, ok := w.answer(method)
	if !ok {
		w.t.Fatal("the connection ended without an answer")
	}
	return r
}

func isReset(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && !op.Timeout()
}

// recorder is an upstream on a plain socket that keeps each request as it was
// on the wire, and answers "ok".
type recorder struct {
	url string

	mu    sync.Mutex
	heads []string // to the empty line, line by line as sent
}

// record starts a recorder.
func record(t testing.TB) *recorder {
	r := &recorder{}
	r.url = "http://" + listen4(t, func(c net.Conn, in *bufio.Reader) {
		for r.take(in) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	return r
}

// take reads a request to its very end, so that whatever stands behind it is the
// next one.
func (r *recorder) take(in *bufio.Reader) bool {
	head, err := readHead(in)
	if err != nil {
		return false
	}
	r.mu.Lock()
	r.heads = append(r.heads, head)
	r.mu.Unlock()
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
	switch {
	case err != nil:
		return false
	case len(req.TransferEncoding) == 0:
		_, err = io.CopyN(io.Discard, in, req.ContentLength)
		return err == nil
	}
	if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(in)); err != nil {
		return false
	}
	for { // trailers
		line, err := in.ReadString('\n')
		if line == "\r\n" || err != nil {
			return err == nil
		}
	}
}

// readHead reads to the empty line.
func readHead(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		if line == "\r\n" || err != nil {
			return b.String(), err
		}
	}
}

// all returns the heads so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.heads...)
}

// targets returns the request targets so far.
func (r *recorder) targets() []string {
	var list []string
	for _, h := range r.all() {
		line, _, _ := strings.Cut(h, "\r\n")
		list = append(list, strings.TrimSuffix(line[strings.IndexByte(line, ' ')+1:], " HTTP/1.1"))
	}
	return list
}

// listen4 serves each connection with handle until the test ends.
func listen4(t testing.TB, handle func(net.Conn, *bufio.Reader)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				handle(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// h2c returns a client that speaks HTTP/2 from the first byte.
func h2c(t testing.TB) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// h1 returns a client with connections of its own.
func h1(t testing.TB) *http.Client {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// both runs a test for either version of HTTP.
func both(t *testing.T, f func(t *testing.T, c *http.Client)) {
	t.Run("http1", func(t *testing.T) { f(t, h1(t)) })
	t.Run("http2", func(t *testing.T) { f(t, h2c(t)) })
}

// at sets the clock of the gateway, which goes on from there.
func (s *site) at(now limit.Instant) {
	s.t.Helper()
	eventually(s.t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	s.gateway.clock = &Clock{start: time.Now(), epoch: now}
}

// nextHour is the beginning of the hour after this one: a window's edge.
func nextHour() limit.Instant {
	return limit.InstantOf(time.Now().Truncate(time.Hour).Add(time.Hour))
}

// entries waits until the access log holds n lines and decodes them.
func (s *site) entries(n int) []map[string]any {
	s.t.Helper()
	eventually(s.t, "all lines of the access log", func() bool { return len(s.access.all()) >= n && s.access.all()[0] != "" })
	var list []map[string]any
	for _, line := range s.access.all() {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			s.t.Fatalf("access line %q: %v", line, err)
		}
		list = append(list, m)
	}
	return list
}

// last returns the request that reached the upstream last.
func (s *site) last() *http.Request {
	s.t.Helper()
	all := s.requests()
	if len(all) == 0 {
		s.t.Fatal("nothing reached the upstream")
	}
	return all[len(all)-1]
}

// discard returns a logger that says nothing.
func discard() *log.Logger { return log.New(io.Discard, "", 0) }
