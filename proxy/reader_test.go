package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// flood answers with n bytes, quickly.
func flood(n int) http.HandlerFunc {
	block := bytes.Repeat([]byte("gateway."), 4<<10)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(n))
		for left := n; left > 0; left -= len(block) {
			if _, err := w.Write(block[:min(left, len(block))]); err != nil {
				return
			}
		}
	}
}

// small makes the windows of a test's connections small, so that a reader who
// stops is felt soon.
func small(c *http.Client) *http.Client {
	tr := c.Transport.(*http.Transport)
	tr.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 128 << 10}
	return c
}

func TestAStalledReaderIsCut(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { write: 500ms }\n"+openRules, flood(32<<20))
	both(t, func(t *testing.T, c *http.Client) {
		res, err := small(c).Get("http://" + s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		began := time.Now()
		eventually(t, "the reader that takes nothing is cut", func() bool { return s.gateway.InFlight() == 0 })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if n, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Errorf("%d bytes and then an end that looks clean", n)
		}
	})
}

func TestAReaderThatStallsOverALittleIsCutToo(t *testing.T) {
	t.Parallel() // it mostly waits
	// What is left fits the buffers of net/http: it goes out when the handler is
	// done, if the client's window ever opens.
	s := newSite(t, "timeouts: { write: 500ms }\n"+openRules, flood(64<<10+1000))
	c := small(h2c(t))
	res, err := c.Get("http://" + s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	time.Sleep(1500 * time.Millisecond) // well past the span, in which nothing is taken
	if n, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Errorf("%d bytes came whole although the client took nothing for three spans", n)
	}
}

func TestASlowHonestReaderGetsAllOfIt(t *testing.T) {
	t.Parallel() // it mostly waits
	const size = 10 << 20
	// Twice and more the span, and time for a machine that stands still for a moment.
	s := newSite(t, "timeouts: { write: 3s }\n"+openRules, flood(size))
	both(t, func(t *testing.T, c *http.Client) {
		t.Parallel()
		res, err := small(c).Get("http://" + s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		began, total := time.Now(), 0
		buf := make([]byte, 128<<10)
		for err == nil {
			time.Sleep(80 * time.Millisecond) // some 1.5 MB/s
			var n int
			n, err = io.ReadFull(res.Body, buf)
			total += n
		}
		if total != size || err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("%d of %d bytes, then %v", total, size, err)
		}
		if took := time.Since(began); took < 6*time.Second {
			t.Errorf("the reader was not slow: %v", took)
		}
	})
}

func TestAStreamThatIsQuietForLongerThanTheSpansLives(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "timeouts: { write: 1s, read: 1s, idle: 1s }\n"+openRules, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			if i > 0 {
				time.Sleep(2500 * time.Millisecond)
			}
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
		}
	})
	for _, method := range []string{"GET", "POST"} {
		both(t, func(t *testing.T, c *http.Client) {
			t.Parallel()
			var body io.Reader
			if method == "POST" {
				body = bytes.NewReader([]byte("hello"))
			}
			req, _ := http.NewRequest(method, "http://"+s.addr, body)
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != "data: 0\n\ndata: 1\n\ndata: 2\n\n" {
				t.Errorf("%s: %q, %v", method, got, err)
			}
		})
	}
}
