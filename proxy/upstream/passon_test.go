package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHeadersArePassedOnAsByReverseProxy compares what comes of a header with what a
// bare ReverseProxy makes of it, behind fields that are there already.
func TestHeadersArePassedOnAsByReverseProxy(t *testing.T) {
	for _, fields := range []string{
		"Content-Length: 2",
		"Content-Length: 2|X: a|x: b|X: c|Vary: Origin",
		"Content-Length: 2|Set-Cookie: a=1|Set-Cookie: b=2",
		"Content-Length: 2|Empty:|odd name: 1|RateLimit: \"a\";r=1",
		"Content-Length: 2|Connection: X, Keep-Alive|X: a|Keep-Alive: timeout=1|Te: x|Upgrade: y",
		"Content-Length: 2|Content-Type: text/event-stream|X: a",
		"Content-Length: 2|Content-Type:  Text/Event-Stream ; charset=utf-8|Vary: X",
		"Content-Length: 2|Content-Type: text/event-streams|X: a",
		"Transfer-Encoding: chunked|Content-Type: text/event-stream|X: a",
		"Transfer-Encoding: chunked|Trailer: T|X: a",
		"X: a",
	} {
		body := "ok"
		if strings.HasPrefix(fields, "Transfer-Encoding") {
			body = "2\r\nok\r\n0\r\nT: end\r\n\r\n"
		}
		addr := answering(t, "HTTP/1.1 200 OK\r\n"+strings.ReplaceAll(fields, "|", "\r\n")+"\r\n\r\n"+body)
		target := &url.URL{Scheme: "http", Host: addr}
		p := newPool(t, spec(t, "http://"+addr))
		var got []http.Header
		for _, h := range []http.Handler{
			&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}, (&door{}).serve(p, 0),
		} {
			w := httptest.NewRecorder()
			w.Header()["Vary"] = []string{"Accept"}
			h.ServeHTTP(w, httptest.NewRequest("GET", "http://a/", nil))
			if w.Body.String() != "ok" {
				t.Errorf("%s: body %q", fields, w.Body)
			}
			got = append(got, w.Header())
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Errorf("%s: (-ReverseProxy +Forward)\n%s", fields, diff)
		}
	}
}

// TestWhoHasSeenAnAnswerKeepsItsHeader has what the front door was shown stay as it
// was, whatever is done to the header of the answer to the client.
func TestWhoHasSeenAnAnswerKeepsItsHeader(t *testing.T) {
	p := newPool(t, spec(t, "http://"+answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\nX: b\r\nY: c\r\n\r\nok")))
	var seen http.Header
	d := &door{change: func(res *http.Response) error { seen = res.Header; return nil }}
	w := httptest.NewRecorder()
	d.serve(p, 0).ServeHTTP(w, httptest.NewRequest("GET", "http://a/", nil))
	h := w.Header()
	h.Add("X", "d")
	h.Set("Y", "e")
	h.Del("Content-Length")
	want := http.Header{"Content-Length": {"2"}, "X": {"a", "b"}, "Y": {"c"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestSpaceBeforeTheColonIsDropped holds a header that net/http would lose.
func TestSpaceBeforeTheColonIsDropped(t *testing.T) {
	for _, transport := range []string{"direct", "net_http"} {
		s := spec(t, "http://"+answering(t, "HTTP/1.1 200 OK\r\nx-a : 1\r\nX-A: 2\r\nKeep-Alive : 5\r\nConnection : X-B\r\nX-B  : 3\r\nContent-Length: 2\r\n\r\nok"))
		s.Transport = transport
		w := httptest.NewRecorder()
		(&door{}).serve(newPool(t, s), 0).ServeHTTP(w, httptest.NewRequest("GET", "http://a/", nil))
		got := strings.Join(slices.Sorted(slices.Values(w.Header()["X-A"])), ",")
		delete(w.Header(), "X-A")
		want := http.Header{"X-B": {"3"}, "Content-Length": {"2"}}
		if diff := cmp.Diff(want, w.Header()); diff != "" || got != "1,2" {
			t.Errorf("%s: X-A %s; (-want +got)\n%s", transport, got, diff)
		}
	}
}

// TestAnswersWithoutContentHaveNoLength asks with a client that waits for it.
func TestAnswersWithoutContentHaveNoLength(t *testing.T) {
	for _, status := range []string{"204 No Content", "304 Not Modified"} {
		gw, _, _ := front(t, "http://"+answering(t, "HTTP/1.1 "+status+"\r\nContent-Length: 5\r\n\r\n"))
		for _, c := range []*http.Client{client(t), h2cClient(t)} {
			res, err := c.Get(gw.URL)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if got := res.Header.Get("Content-Length"); len(body) > 0 || err != nil || got != "" {
				t.Errorf("%s over %s: got a length of %q, body %q, %v", status, res.Proto, got, body, err)
			}
		}
	}
}
