package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// way is one of the two RoundTrippers that must do the same.
type way struct {
	name string
	http.RoundTripper
}

// bothWays returns net/http's transport and direct to the same server, as a pool
// has them.
func bothWays(t testing.TB, server string) []way {
	t.Helper()
	s := spec(t, server)
	s.Transport = "direct"
	one := newPool(t, s).servers[0]
	return []way{{"net/http", one.h1}, {"direct", one.h1direct}}
}

// byFlight has direct carry requests for a flight, with a body that is there as a
// whole.
type byFlight struct{ *Pool }

func (p byFlight) RoundTrip(req *http.Request) (*http.Response, error) {
	f := &flight{Context: req.Context(), pool: p.Pool, in: req, server: p.servers[0], now: mono()}
	f.relay = httptrace.ContextClientTrace(req.Context()).Got1xxResponse
	req = req.WithContext(f)
	if req.Body != nil {
		content, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		f.content, req.Body = content, &f.piece
	}
	return p.servers[0].h1direct.carry(req, f)
}

// outcome is what a client sees of an exchange.
type outcome struct {
	Interim []int
	Status  int
	Proto   string
	Length  int64
	Header  http.Header
	Body    string
	Trailer http.Header
	Failed  string // kind of the error of RoundTrip
	Broke   string // kind of the error of the body
}

// kind tells errors apart as far as a client's answer depends on it.
func kind(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case isTimeout(err):
		return "timeout"
	case isNetwork(err):
		return "network"
	}
	return "unusable"
}

// request is one of the corpus: without a body, or with one of known length or
// in chunks.
type request struct{ method, body, framing string }

var requestKinds = []request{
	{"GET", "", ""}, {"HEAD", "", ""}, {"POST", "", ""}, {"POST", "some body", "length"}, {"PUT", "some body", "chunks"},
}

func (r request) String() string { return strings.TrimSpace(r.method + " " + r.framing) }

func (r request) make(ctx context.Context, host, path string) *http.Request {
	var body io.Reader
	if r.framing != "" {
		body = struct{ io.Reader }{strings.NewReader(r.body)}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "http://"+host+path, body)
	if err != nil {
		panic(err)
	}
	if r.framing == "length" {
		req.ContentLength = int64(len(r.body))
	}
	return req
}

// exchangeBy sends r by w and reads all that comes.
func exchangeBy(ctx context.Context, w http.RoundTripper, r request, host, path string) outcome {
	var o outcome
	var mu sync.Mutex
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			if o.Interim = append(o.Interim, code); len(o.Interim) > maxInterim {
				return errors.New("too many")
			}
			return nil
		},
	})
	res, err := w.RoundTrip(r.make(ctx, host, path))
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		o.Failed = kind(err)
		return o
	}
	o.Status, o.Proto, o.Length, o.Header = res.StatusCode, res.Proto, res.ContentLength, res.Header
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	o.Body, o.Trailer, o.Broke = string(b), res.Trailer, kind(err)
	return o
}

// readRequest reads a request as a server does that takes all of it.
func readRequest(r *bufio.Reader) (path string, err error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req.URL.Path, err
}

// corpus is: what a server may write for one request. Those that are
// whole leave the connection open for another.
var corpus = []struct {
	name, text string
	whole      bool
}{
	{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\nX: b\r\n\r\nhello", true},
	{"length 0", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n", true},
	{"no chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
	{"trailers", "HTTP/1.1 200 OK\r\nTrailer: A, B\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", true},
	{"trailers, forbidden", "HTTP/1.1 200 OK\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"trailers, endless", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("x", 10000) + "\r\n\r\n", false},
	{"to the end", "HTTP/1.1 200 OK\r\n\r\nall that comes", false},
	{"to the end, empty", "HTTP/1.1 200 OK\r\n\r\n", false},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
	{"HTTP/1.0, kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", true},
	{"HTTP/1.2", "HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
	{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false},
	{"close among others", "HTTP/1.1 200 OK\r\nConnection: X, Close\r\nContent-Length: 2\r\n\r\nok", false},
	{"204", "HTTP/1.1 204 No Content\r\n\r\n", true},
	{"204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", true},
	{"204 in chunks", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", true},
	{"304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nEtag: \"x\"\r\n\r\n", true},
	{"404", "HTTP/1.1 404 Nope\r\nContent-Length: 4\r\n\r\nnope", true},
	{"999", "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", true},
	{"099", "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", false},
	{"000", "HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n", false},
	{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", true},
	{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", true},
	{"folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", true},
	{"pragma", "HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 0\r\n\r\n", true},

	{"100 first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"102, 103", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
	{"eight interim", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 8) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
	{"nine interim", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 9) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
	{"interim only", "HTTP/1.1 103 Early Hints\r\n\r\n", false},
	{"interim with a body", "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"199", "HTTP/1.1 199 Odd\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"101", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly", false},
	{"101 without a protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\nx", false},
	{"101 without Connection", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nx", false},

	{"nothing", "", false},
	{"a byte", "H", false},
	{"half a status line", "HTTP/1.1 200", false},
	{"half a header", "HTTP/1.1 200 OK\r\nContent-Le", false},
	{"half a header, line ended", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", false},
	{"garbage", "\x00\x01\x02\x03\r\n\r\n", false},
	{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", false},
	{"HTTP/2", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", true},
	{"HTTP/0.9", "hello", false},
	{"empty lines", "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", false},
	{"status 1000", "HTTP/1.1 1000 Odd\r\n\r\n", false},
	{"status -1", "HTTP/1.1 -01 Odd\r\n\r\n", false},
	{"status +20", "HTTP/1.1 +20 Odd\r\nContent-Length: 0\r\n\r\n", false},
	{"no colon", "HTTP/1.1 200 OK\r\nNonsense\r\n\r\n", false},
	{"NUL in a value", "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n", false},
	{"space before the colon", "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n", true},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", false},
	{"two equal lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", true},
	{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false},
	{"length of nonsense", "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nab", false},
	{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nab", false},
	{"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", false},
	{"unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n", false},
	{"two codings", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", false},
	{"length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", true},
	{"bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", false},
	{"huge chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", false},
	{"half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf", false},
	{"no end of a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalfXX0\r\n\r\n", false},
	{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", false},
	{"half of the end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n", false},
	{"chunks of nothing but extensions", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 50) + "0\r\n\r\n", false},
	{"long header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 900) + "Content-Length: 2\r\n\r\nok", true},
	{"too long a header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 1100) + "Content-Length: 2\r\n\r\nok", false},
	{"too long a line", "HTTP/1.1 200 " + strings.Repeat("x", 2<<20) + "\r\n\r\n", false},
	{"large body", "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("0123456789", 30000), true},

	{"204 and another answer", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!", false},
	{"304 with a body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 43\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!", false},
	{"length and another answer", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!", false},
	{"chunks and another answer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nevil!", false},
	{"length and one byte", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!", false},
	{"length and 408", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", false},
}

// endings are what a server does when it has answered.
var endings = []struct {
	name   string
	writes func(c net.Conn, text string)
	slow   bool
	closes bool
}{
	{"closes", func(c net.Conn, text string) { io.WriteString(c, text) }, false, true},
	{"writes bytes one by one and closes", func(c net.Conn, text string) {
		for i := range min(len(text), 400) {
			io.WriteString(c, text[i:i+1])
		}
		io.WriteString(c, text[min(len(text), 400):])
	}, true, true},
	{"stays", func(c net.Conn, text string) { io.WriteString(c, text) }, false, false},
}

const second = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"

// TestDirectDoesWhatNetHTTPDoes has every answer of the corpus to every kind of
// request, and a second request behind it, which must get its own answer.
func TestDirectDoesWhatNetHTTPDoes(t *testing.T) {
	ran := 0
	for _, answer := range corpus {
		t.Run(answer.name, func(t *testing.T) {
			for _, end := range endings {
				if !end.closes && !answer.whole {
					continue
				}
				addr := raw(t, func(c net.Conn, r *bufio.Reader) {
					for {
						path, err := readRequest(r)
						switch {
						case err != nil:
							return
						case path == "/second":
							io.WriteString(c, second)
							continue
						}
						end.writes(c, answer.text)
						if end.closes {
							return
						}
					}
				})
				for _, r := range requestKinds {
					var got []outcome
					ways := bothWays(t, "http://"+addr)
					if r.framing != "chunks" {
						ways = append(ways, way{"direct for a flight", byFlight{newPool(t, directSpec(t, "http://"+addr))}})
					}
					for _, w := range ways {
						ctx, _ := withCancel(t)
						first := exchangeBy(ctx, w, r, addr, "/first")
						got = append(got, first)
						if w.name == "net/http" || end.slow && (!answer.whole || r.method == "HEAD") {
							continue // in a race with what comes behind the answer
						}
						if o := exchangeBy(ctx, w, request{"GET", "", ""}, addr, "/second"); o.Body != "second" {
							t.Errorf("%s, %s: the second request got %+v", end.name, r, o)
						}
					}
					for i, o := range got[1:] {
						want := got[0]
						if i == 1 { // a flight tells nobody of 100, nor of the one that is too many
							want.Interim = nil
							for _, code := range got[0].Interim {
								if code != 100 && len(want.Interim) < maxInterim {
									want.Interim = append(want.Interim, code)
								}
							}
						}
						if diff := cmp.Diff(want, o); diff != "" {
							t.Errorf("%s, %s: (-net/http +%s)\n%s", end.name, r, ways[i+1].name, diff)
						}
						ran++
					}
				}
			}
		})
	}
	t.Attr("transport", fmt.Sprintf("%d exchanges the same over net/http and direct", ran))
}

// TestConnectionsAreKeptAsByNetHTTP counts the connections of six requests one
// behind the other.
func TestConnectionsAreKeptAsByNetHTTP(t *testing.T) {
	for _, answer := range corpus {
		if strings.Contains(answer.name, "and another") || strings.HasPrefix(answer.name, "304 with a") ||
			strings.HasPrefix(answer.name, "length and ") && !answer.whole || len(answer.text) > 500_000 {
			continue // net/http is in a race with what comes behind the answer; and long ones tell nothing new
		}
		var made [2]int
		for i := range made {
			var mu sync.Mutex
			addr := raw(t, func(c net.Conn, r *bufio.Reader) {
				mu.Lock()
				made[i]++
				mu.Unlock()
				for {
					if _, err := readRequest(r); err != nil {
						return
					}
					io.WriteString(c, answer.text)
					if !answer.whole {
						return
					}
				}
			})
			w := bothWays(t, "http://"+addr)[i]
			for range 6 {
				ctx, _ := withCancel(t)
				exchangeBy(ctx, w, request{"POST", "", ""}, addr, "/")
			}
			mu.Lock()
			defer mu.Unlock()
		}
		if answer.whole && made[1] != 1 || made[0] != made[1] {
			t.Errorf("%s: net/http made %d connections, direct %d", answer.name, made[0], made[1])
		}
	}
}

// TestResetsAreToldApartAsByNetHTTP has servers that reset the connection at each
// stage of a GET.
func TestResetsAreToldApartAsByNetHTTP(t *testing.T) {
	for _, text := range []string{
		"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"HTTP/1.1 200 OK\r\n\r\nto the end",
	} {
		taken := make(chan struct{}, 2)
		addr := raw(t, func(c net.Conn, r *bufio.Reader) {
			if _, err := readRequest(r); err != nil {
				return
			}
			io.WriteString(c, text)
			if strings.Contains(text, "\r\n\r\n") {
				select {
				case <-taken: // the header is read, so that the reset cannot overtake it
				case <-time.After(deadline):
				}
			}
			c.(*net.TCPConn).SetLinger(0)
		})
		for _, w := range bothWays(t, "http://"+addr) {
			ctx, _ := withCancel(t)
			res, err := w.RoundTrip(request{"POST", "", ""}.make(ctx, addr, "/"))
			if strings.Contains(text, "\r\n\r\n") {
				if err != nil {
					t.Fatalf("%s: %q: %v", w.name, text, err)
				}
				taken <- struct{}{}
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if kind(err) != "network" {
				t.Errorf("%s: %q and a reset: %v, want an error of the network", w.name, text, err)
			}
		}
	}
}

// TestRequestsAreWrittenAsByNetHTTP compares what the server gets, byte by byte,
// and what becomes of a body that is not what was said of it.
func TestRequestsAreWrittenAsByNetHTTP(t *testing.T) {
	broken := errors.New("broken")
	body := func(text string) io.ReadCloser { return io.NopCloser(struct{ io.Reader }{strings.NewReader(text)}) }
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
	}{
		{"plain", func(*http.Request) {}},
		{"headers", func(r *http.Request) {
			r.Header = http.Header{"B": {"1", "2"}, "A": {""}, "lower": {"x"}, "User-Agent": {""}, "Te": {"trailers"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
		}},
		{"no User-Agent", func(r *http.Request) { r.Header["User-Agent"] = nil }},
		{"host", func(r *http.Request) { r.Host = "api.example.com" }},
		{"bad host", func(r *http.Request) { r.Host = "a b" }},
		{"path as it came", func(r *http.Request) { r.URL.Opaque, r.URL.RawQuery = "/a%2Fb//c", "x=%zz;y" }},
		{"POST", func(r *http.Request) { r.Method = "POST" }},
		{"DELETE", func(r *http.Request) { r.Method = "DELETE" }},
		{"NoBody", func(r *http.Request) { r.Method, r.Body = "POST", http.NoBody }},
		{"close", func(r *http.Request) { r.Close = true }},
		{"long header", func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 50_000)) }},
		{"length", func(r *http.Request) { r.Method, r.Body, r.ContentLength = "POST", body("hello"), 5 }},
		{"length, long header", func(r *http.Request) {
			r.Header.Set("X", strings.Repeat("x", 50_000))
			r.Method, r.Body, r.ContentLength = "POST", body("hello"), 5
		}},
		{"large", func(r *http.Request) {
			r.Method, r.Body, r.ContentLength = "PUT", body(strings.Repeat("0123456789", 20_000)), 200_000
		}},
		{"chunks", func(r *http.Request) { r.Method, r.Body, r.ContentLength = "POST", body("hello"), -1 }},
		{"chunks of a GET", func(r *http.Request) {
			r.Body, r.ContentLength, r.TransferEncoding = body("hello"), -1, []string{"chunked"}
		}},
		{"an empty body of a GET", func(r *http.Request) { r.Body, r.ContentLength = body(""), -1 }},
		{"a body of a GET", func(r *http.Request) { r.Body, r.ContentLength = body("hello"), -1 }},
		{"trailers", func(r *http.Request) {
			r.Method, r.Body, r.ContentLength, r.Trailer = "POST", body("hello"), -1, http.Header{"A": {"1"}, "B": {"2"}}
		}},
		{"bad trailer", func(r *http.Request) {
			r.Method, r.Body, r.ContentLength, r.Trailer = "POST", body("hello"), -1, http.Header{"Content-Length": {"1"}}
		}},
		{"short of its length", func(r *http.Request) { r.Method, r.Body, r.ContentLength = "POST", body("hello"), 10 }},
		{"broken", func(r *http.Request) {
			r.Method, r.ContentLength = "POST", 10
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("hello"), errReader{broken}))
		}},
		{"broken chunks", func(r *http.Request) {
			r.Method, r.ContentLength = "POST", -1
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("hello"), errReader{broken}))
		}},
		{"a control character in the path", func(r *http.Request) { r.URL.Opaque = "/a\x01" }},
	} {
		var got [2]string
		for i := range got {
			sent := make(chan string, 1)
			addr := raw(t, func(c net.Conn, r *bufio.Reader) {
				var all strings.Builder
				in := bufio.NewReader(io.TeeReader(r, &all))
				_, err := readRequest(in)
				if err == nil {
					io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				}
				sent <- strings.ReplaceAll(all.String(), c.LocalAddr().String(), "ADDR")
			})
			w := bothWays(t, "http://"+addr)[i]
			ctx, _ := withCancel(t)
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+addr+"/path?q", nil)
			tt.change(req)
			res, err := w.RoundTrip(req)
			if err == nil {
				read(t, res)
			}
			// What of a broken request has gone out is a matter of time, and so is in net/http
			// whether its end or the connection's is reported; that it broke is not.
			got[i] = fmt.Sprint(err != nil, errors.Is(err, broken))
			if w.name == "direct" && kind(err) == "network" {
				t.Errorf("%s: the server is blamed: %v", tt.name, err)
			}
			if err == nil {
				got[i] += "\n" + receive(t, "the request", sent)
			}
		}
		if got[0] != got[1] {
			t.Errorf("%s: net/http %.2000s\ndirect %.2000s", tt.name, got[0], got[1])
		}
	}
}

// errReader is a body that fails.
type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }
