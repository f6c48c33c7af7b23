package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// says answers with the method, the length that the request says and the body.
func says(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %d %s %v", r.Method, r.ContentLength, b, err)
}

// TestBodiesArriveHoweverTheyCome sends bodies about as long as are gathered, at once
// with the head, behind it, and in two pieces, on a new connection and on a kept one,
// with a request behind them and without; where a rule reads them, too.
func TestBodiesArriveHoweverTheyCome(t *testing.T) {
	for _, rules := range []string{
		"upstream: UPSTREAM\nrules: [{ name: all, limit: 100000/h }]\n",
		"upstream: UPSTREAM\nrules: [{ name: all, key: body.name, limit: 100000/h }]\n",
	} {
		s := newSite(t, rules, says)
		for _, length := range []int{1, 2, 100, maxGathered - 1, maxGathered, maxGathered + 1, 3 * maxGathered} {
			body := strings.Repeat("0123456789", length/10+1)[:length]
			head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", length)
			want := fmt.Sprintf("POST %d %s <nil>", length, body)
			for _, pieces := range [][]string{
				{head + body},
				{head, body},
				{head + body[:length/2], body[length/2:]},
				{head[:20], head[20:] + body[:1], body[1:]},
			} {
				for _, behind := range []string{"", "GET /behind HTTP/1.1\r\nHost: a\r\n\r\n", head + body} {
					w := s.dial()
					for range 2 {
						for i, p := range pieces {
							if i == len(pieces)-1 {
								p += behind
							}
							w.send(p)
							if i < len(pieces)-1 {
								time.Sleep(time.Millisecond) // that some of it is read before the rest is there
							}
						}
						if got := w.mustAnswer("POST"); got.StatusCode != 200 || got.body != want {
							t.Errorf("%d bytes in %d pieces: got %d %.80q", length, len(pieces), got.StatusCode, got.body)
						}
						switch {
						case behind == head+body:
							if got := w.mustAnswer("POST"); got.body != want {
								t.Errorf("behind %d bytes in %d pieces: got %d %.80q", length, len(pieces), got.StatusCode, got.body)
							}
						case behind != "":
							if got := w.mustAnswer("GET"); got.body != "GET 0  <nil>" {
								t.Errorf("behind %d bytes in %d pieces: got %d %.80q", length, len(pieces), got.StatusCode, got.body)
							}
						}
					}
					w.Close()
				}
			}
		}
		s.bodyFree()
	}
}

// TestAClientThatLeavesBehindItsBody has the upstream hear of it, whether the body was
// there with the head or came behind it, on a new connection and on a kept one.
func TestAClientThatLeavesBehindItsBody(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*wire){
		"closes":      func(w *wire) { w.Close() },
		"resets":      func(w *wire) { w.SetLinger(0); w.Close() },
		"half-closes": func(w *wire) { w.CloseWrite() },
	} {
		for _, kept := range []bool{false, true} {
			for _, pause := range []time.Duration{0, 5 * time.Millisecond} {
				handler, came, left, _ := held(t)
				s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					handler(w, r)
				})
				w := s.dial()
				if kept {
					w = s.kept()
				}
				w.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
				time.Sleep(pause)
				w.send("hello")
				receive := func(what string, from chan string) {
					select {
					case <-from:
					case <-time.After(patience):
						t.Fatalf("%s, kept %t, %v: %s", name, kept, pause, what)
					}
				}
				receive("the request does not come", came)
				leave(w)
				receive("the upstream hears nothing of it", left)
				eventually(t, "it is logged as 499", func() bool { return strings.Contains(strings.Join(s.access.all(), ""), `"status":499`) })
				s.bodyFree()
			}
		}
	}
}

// TestABodyThatWasGatheredInPartIsTimed has the rest of it come too late.
func TestABodyThatWasGatheredInPartIsTimed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "timeouts: { read: 200ms }\nupstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", says)
	for _, part := range []string{"", "h", "hell"} {
		w := s.kept()
		w.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n" + part)
		if got := w.mustAnswer("POST"); got.StatusCode != http.StatusRequestTimeout {
			t.Errorf("behind %q: %d, want 408", part, got.StatusCode)
		}
		w.ends()
		w.Close()
	}
	for _, part := range []string{"", "h", "hell"} { // or not at all
		w := s.kept()
		w.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n" + part)
		w.CloseWrite()
		if got, ok := w.answer("POST"); ok && got.StatusCode == 200 {
			t.Errorf("behind %q: %d %q", part, got.StatusCode, got.body)
		}
		w.Close()
	}
	s.bodyFree()
}
