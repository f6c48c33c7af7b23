package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestEventsArriveOneByOne(t *testing.T) {
	step := make(chan struct{})
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 100/h }]\n", func(w http.ResponseWriter, r *http.Request) {
		out, flush := io.Writer(w), http.NewResponseController(w).Flush
		switch r.URL.Path {
		case "/sse":
			w.Header().Set("Content-Type", "text/event-stream")
		case "/ndjson":
			w.Header().Set("Content-Type", "application/x-ndjson")
		case "/gzip":
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out, flush = z, func() error { z.Flush(); return http.NewResponseController(w).Flush() }
		case "/length":
			w.Header().Set("Content-Length", "21") // of a known length, and slow all the same
		}
		w.WriteHeader(200)
		flush()
		for i := range 3 {
			if _, ok := <-step; !ok {
				return
			}
			fmt.Fprintf(out, "data:%d\n", i)
			flush()
		}
	})
	n := 0
	for _, path := range []string{"/sse", "/ndjson", "/gzip", "/length"} {
		both(t, func(t *testing.T, c *http.Client) {
			n++
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+path, nil)
			res, err := c.Do(req) // the header comes before the first event
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if len(res.Header.Values("RateLimit")) != 1 {
				t.Errorf("RateLimit %q", res.Header.Values("RateLimit"))
			}
			in := io.Reader(res.Body)
			if path == "/gzip" {
				step <- struct{}{}
				if in, err = gzip.NewReader(res.Body); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 3 {
				if path != "/gzip" || i > 0 {
					step <- struct{}{}
				}
				// The next event is not sent before this one is here.
				got := make([]byte, 7)
				if _, err := io.ReadFull(in, got); err != nil || string(got) != fmt.Sprintf("data:%d\n", i) {
					t.Fatalf("event %d: %q, %v", i, got, err)
				}
			}
			if path != "/length" {
				if _, err := in.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("at the end: %v", err)
				}
			}
			e := s.entries(n)[n-1]
			if e["status"] != 200.0 || e["path"] != path {
				t.Errorf("access line %v", e)
			}
		})
	}
}

func TestTheFramingOfABodyIsKept(t *testing.T) {
	s := newSite(t, openRules, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%q %d %v", b, r.ContentLength, r.TransferEncoding)
	})
	for text, want := range map[string]string{
		"Content-Length: 0\n\n":                              `"" 0 []`,
		"Content-Length: 5\n\nhello":                         `"hello" 5 []`,
		"Transfer-Encoding: chunked\n\n5\nhello\n0\n\n":      `"hello" -1 [chunked]`,
		"Transfer-Encoding: chunked\n\n2\nhe\n3\nllo\n0\n\n": `"hello" -1 [chunked]`,
	} {
		if r := s.raw("POST / HTTP/1.1\nHost: a\nConnection: close\n" + text); r.body != want {
			t.Errorf("%q: the upstream got %s, want %s", text, r.body, want)
		}
	}
	s.raw("POST / HTTP/1.1\nHost: a\nConnection: close\nContent-Length: 0\n\n")
	if got := s.last().Header.Get("Content-Length"); got != "0" {
		t.Errorf("Content-Length %q, want 0 to be said", got)
	}
}

func TestAnswersWithoutABodyKeepTheirHeaders(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 100/h }]\n", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"e"`)
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.WriteHeader(304)
		default:
			w.Header().Set("Content-Length", "1234")
			w.Header().Set("Content-Type", "image/png")
		}
	})
	both(t, func(t *testing.T, c *http.Client) {
		for _, row := range []struct {
			method, path, length string
			status               int
		}{{"HEAD", "/", "1234", 200}, {"GET", "/204", "", 204}, {"GET", "/304", "", 304}, {"HEAD", "/304", "", 304}} {
			req, _ := http.NewRequest(row.method, "http://"+s.addr+row.path, nil)
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != row.status || res.Header.Get("Etag") != `"e"` || res.Header.Get("Content-Length") != row.length || len(body) > 0 ||
				len(res.Header.Values("RateLimit")) != 1 || res.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s %s: %d %v %q", row.method, row.path, res.StatusCode, res.Header, body)
			}
		}
	})
}

func TestTrailersOfAnAnswerArriveAndThoseOfARequestDoNot(t *testing.T) {
	s := newSite(t, openRules, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
		if len(r.Trailer) > 0 || r.Header.Get("Trailer") != "" || r.Header.Get("X-Api-Key") != "" {
			w.Header().Set("X-Sum", fmt.Sprint(r.Trailer, r.Header))
		}
	})
	both(t, func(t *testing.T, c *http.Client) {
		req, _ := http.NewRequest("POST", "http://"+s.addr, io.MultiReader(strings.NewReader("hello")))
		req.Trailer = http.Header{"X-Api-Key": {"k"}}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if string(body) != "body" || err != nil || res.Trailer.Get("X-Sum") != "7" || res.Trailer.Get("X-Late") != "8" {
			t.Errorf("%q, %v, trailers %v", body, err, res.Trailer)
		}
	})
}

func TestAnAnswerMayBeginBeforeTheUploadEnds(t *testing.T) {
	s := newSite(t, openRules, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		buf := make([]byte, 100)
		for {
			n, err := r.Body.Read(buf)
			w.Write(bytes.ToUpper(buf[:n]))
			http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	})
	both(t, func(t *testing.T, c *http.Client) {
		in, out := io.Pipe()
		req, _ := http.NewRequest("POST", "http://"+s.addr, in)
		sent := make(chan error, 1)
		go func() { _, err := io.WriteString(out, "one"); sent <- err }()
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		buf := make([]byte, 3)
		for _, word := range []string{"one", "two", "six"} {
			if word != "one" {
				io.WriteString(out, word)
			}
			if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != strings.ToUpper(word) {
				t.Fatalf("%s: %q, %v", word, buf, err)
			}
		}
		out.Close()
		if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
			t.Errorf("at the end %q, %v", rest, err)
		}
		<-sent
	})
}
