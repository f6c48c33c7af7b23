package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStatusTellsErrorsApart(t *testing.T) {
	live := httptest.NewRequest("GET", "/", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gone := live.WithContext(ctx)
	ctx, cancel = context.WithTimeout(t.Context(), -1)
	defer cancel()
	late := live.WithContext(ctx)
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name string
		err  error
		r    *http.Request
		want int
	}{
		{"client left", context.Canceled, gone, 499},
		{"client left while connecting", &ConnectError{refused}, gone, 499},
		{"request out of time", context.DeadlineExceeded, late, 504},
		{"malformed chunk", &ClientBodyError{errors.New("invalid byte in chunk length")}, live, 400},
		{"body in slow motion", &ClientBodyError{os.ErrDeadlineExceeded}, live, 408},
		{"body in slow motion, then gone", &ClientBodyError{os.ErrDeadlineExceeded}, gone, 408},
		{"client left in its body", &ClientBodyError{io.ErrUnexpectedEOF}, live, 499},
		{"client reset in its body", &ClientBodyError{&net.OpError{Op: "read", Err: syscall.ECONNRESET}}, live, 499},
		{"stream reset in its body", &ClientBodyError{errors.New("client disconnected")}, gone, 499},
		{"refused", &ConnectError{refused}, live, 502},
		{"no connection in time", &ConnectError{os.ErrDeadlineExceeded}, live, 502},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, live, 502},
		{"unusable", &AnswerError{"status 099"}, live, 502},
		{"no answer in time", os.ErrDeadlineExceeded, live, 504},
		{"takes no body", &StallError{}, live, 504},
		{"anything", errors.New("anything"), live, 502},
	}
	for _, test := range tests {
		if got := Status(test.err, test.r.Context().Err()); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

func TestMalformedBodyIsTheClientsFault(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	for _, server := range []string{up.URL, strings.Replace(up.URL, "http:", "h2c:", 1)} {
		gw, d, p := front(t, server)
		for chunk, want := range map[string]int{
			"zz\r\nab\r\n":                   400,
			"5\r\nab":                        499, // and the end of the connection
			"-1\r\n":                         400,
			"0x1\r\na\r\n":                   400,
			"11112222333344445\r\n":          400,
			"5\r\nabcdefghij\r\n0\r\n\r\n":   400,
			"1;" + strings.Repeat("x", 9000): 400,
		} {
			c, r := dial(t, gw)
			send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"+chunk)
			if want == 499 {
				c.CloseWrite()
			}
			res, err := http.ReadResponse(r, nil)
			if err != nil || res.StatusCode != want {
				t.Fatalf("%.20q: got %v, %v, want %d; failed with %v", chunk, res, err, want, d.failures())
			}
			if !res.Close {
				t.Errorf("%.20q: the connection stays open behind half a body", chunk)
			}
		}
		if got := p.Stats()[0]; got.Failures != 0 || got.InFlight != 0 {
			t.Errorf("the server is blamed: %+v", got)
		}
		for _, err := range d.failures() {
			if !is[*ClientBodyError](err) {
				t.Errorf("got %T %v, want a ClientBodyError", err, err)
			}
		}
	}
}

// TestBodyInSlowMotionIsTheClientsFault has a front door with a read deadline,
// and a client that stops in the middle.
func TestBodyInSlowMotionIsTheClientsFault(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	for _, server := range []string{up.URL, strings.Replace(up.URL, "http:", "h2c:", 1)} {
		p, d := newPool(t, spec(t, server)), &door{}
		h := d.serve(p, 0)
		gw := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			h.ServeHTTP(w, r)
		}))
		for range 10 {
			c, r := dial(t, gw)
			send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nfirst")
			res, err := http.ReadResponse(r, nil)
			if err != nil || res.StatusCode != http.StatusRequestTimeout || !res.Close {
				t.Fatalf("%s: got %v, %v, want 408; failed with %v", server, res, err, d.failures())
			}
		}
		if got := p.Stats()[0]; got.Failures != 0 {
			t.Errorf("the server is blamed: %+v", got)
		}
	}
}

func TestUpstreamThatTakesNoMoreOfABodyIsAGatewayTimeout(t *testing.T) {
	gone := make(chan struct{}, 1)
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r) // and nothing more, until the client is told
		select {
		case <-gone:
		case <-time.After(deadline):
		}
	})
	p := newPool(t, spec(t, "http://"+addr))
	p.stall = 50 * time.Millisecond
	d := &door{}
	gw := gateway(t, p, d)
	req, _ := http.NewRequest("POST", gw.URL, io.LimitReader(zeros{}, 1<<30))
	res, err := client(t).Do(req)
	if err != nil || res.StatusCode != http.StatusGatewayTimeout {
		t.Fatalf("got %v, %v, want 504", res, err)
	}
	gone <- struct{}{}
	read(t, res)
	if errs := d.failures(); len(errs) != 1 || !is[*StallError](errs[0]) {
		t.Errorf("got %v, want a StallError", errs)
	}
	if got := p.Stats()[0]; got.Failures != 1 || !got.Up {
		t.Errorf("got %+v", got)
	}
}

// TestServerThatDiesInAStalledUploadIsABadGateway has clients that send no more
// until they are answered, and no deadline that would end their upload.
func TestServerThatDiesInAStalledUploadIsABadGateway(t *testing.T) {
	dies := func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.ReadFull(r, make([]byte, 5))
		c.(*net.TCPConn).SetLinger(0)
	}
	for _, request := range []string{
		"Content-Length: 1000\r\n\r\nfirst",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
	} {
		gw, d, p := front(t, "http://"+raw(t, dies))
		before := runtime.NumGoroutine()
		for range 20 {
			c, r := dial(t, gw)
			send(t, c, "POST / HTTP/1.1\r\nHost: h\r\n"+request)
			res, err := http.ReadResponse(r, nil)
			if err != nil || res.StatusCode != http.StatusBadGateway || !res.Close {
				t.Fatalf("got %v, %v, want 502 and the connection closed; failed with %v", res, err, d.failures())
			}
			c.Close()
		}
		eventually(t, "goroutines at the baseline", func() bool { return runtime.NumGoroutine() <= before+5 })
		if got := p.Stats()[0]; got.Failures != 20 || got.InFlight != 0 {
			t.Errorf("got %+v", got)
		}
	}
}

func TestPausesOfTheClientAreNoStall(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	p := newPool(t, spec(t, up.URL))
	p.stall = 100 * time.Millisecond
	gw := gateway(t, p, &door{})
	body, w := io.Pipe()
	go func() {
		for range 3 {
			time.Sleep(150 * time.Millisecond) // the pause is what is tested
			io.WriteString(w, "x")
		}
		w.Close()
	}()
	req, _ := http.NewRequest("POST", gw.URL, body)
	res, err := client(t).Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("got %v, %v", res, err)
	}
	if got := read(t, res); got != "xxx" {
		t.Errorf("got %q", got)
	}
}

func TestEarlyAnswerReachesAClientThatStillUploads(t *testing.T) {
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		header(r)
		io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		io.Copy(io.Discard, r)
	})
	gw, _, _ := front(t, "http://"+addr)
	c, r := dial(t, gw)
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nfirst")
	res, err := http.ReadResponse(r, nil) // while the rest of the body is not sent
	if err != nil || res.StatusCode != 413 || !res.Close {
		t.Fatalf("got %v, %v, want 413 and the connection closed", res, err)
	}
	if got := read(t, res); got != "big" {
		t.Errorf("got %q", got)
	}
}

// TestRestOfABodyIsNoNextRequest sends the rest of a body and a second request
// behind an early answer.
func TestRestOfABodyIsNoNextRequest(t *testing.T) {
	var gotSecond bool
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		head, _ := header(r)
		gotSecond = gotSecond || strings.HasPrefix(head, "GET /second")
		io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, r)
	})
	gw, _, _ := front(t, "http://"+addr)
	for range 20 {
		c, r := dial(t, gw)
		send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nfirst")
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 401 {
			t.Fatalf("got %v, %v", res, err)
		}
		send(t, c, strings.Repeat("x", 995)+"GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Fatalf("got %q behind the early answer", rest)
		}
	}
	if gotSecond {
		t.Error("the second request went through")
	}
}

func TestExpectedContinueIsTheUpstreams(t *testing.T) {
	bodies := make(chan string, 10)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
	}))
	gw, _, _ := front(t, up.URL)
	c, r := dial(t, gw)
	send(t, c, "POST /yes HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
	if head, _ := header(r); head != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("got %q, want 100 Continue", head)
	}
	send(t, c, "body")
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("got %v, %v", res, err)
	}
	if got := receive(t, "the body", bodies); got != "body" {
		t.Errorf("got %q", got)
	}
	c, r = dial(t, gw)
	send(t, c, "POST /no HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 413 {
		t.Errorf("got %v, %v, want 413 and no 100", res, err)
	}
	if res, _ := get(t, client(t), gw.URL); res.StatusCode != 200 {
		t.Errorf("the next request got %d", res.StatusCode)
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte{0}, min(len(p), 4096))), nil
}
