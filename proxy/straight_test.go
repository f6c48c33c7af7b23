package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// An answer that goes straight is the one that net/http would have written: the same
// fields and the same body, and the connection lives on or ends as it would have.
func TestAnAnswerThatGoesStraightIsTheSame(t *testing.T) {
	const text = `
trusted_proxies: [127.0.0.1]
block: { path: /blocked }
routes: [{ match: "/**", respond: { status: 204 }ADDS }]
rules:
  - { name: all, limit: 1000/d }
  - { name: plain, match: /plain, limit: 1/d }
  - { name: two, match: /plain, key: global, limit: 1/2d }
  - { name: fields, match: /fields, limit: 1/d, reject: { headers: { Access-Control-Allow-Origin: "*", X-Why: "{rule} {retry_after}" } } }
  - { name: body, match: /body, limit: 1/d, reject: { status: 503, body: "<p>{rule}", content_type: text/html } }
  - { name: key, match: /key, key: header.X-Key, missing: reject, limit: 1/d }
`
	// An edit of the route's answers is what keeps an answer from going straight.
	straight := newSite(t, strings.Replace(text, "ADDS", "", 1), nil)
	around := newSite(t, strings.Replace(text, "ADDS", ", headers: { response: { set: { X-Added: x } } }", 1), nil)
	for _, s := range []*site{straight, around} {
		for _, path := range []string{"/plain", "/fields", "/body"} {
			s.get(path)
		}
	}
	for _, path := range []string{"/plain", "/fields", "/body", "/key", "/blocked", "/a//../b"} {
		for name, format := range map[string]string{
			"keep-alive":     "GET %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-id\r\n\r\n",
			"HEAD":           "HEAD %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-id\r\n\r\n",
			"close":          "GET %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-id\r\nConnection: close\r\n\r\n",
			"1.0":            "GET %s HTTP/1.0\r\nHost: a\r\nX-Request-Id: the-id\r\n\r\n",
			"1.0 keep-alive": "GET %s HTTP/1.0\r\nHost: a\r\nX-Request-Id: the-id\r\nConnection: keep-alive\r\n\r\n",
			"1.0 HEAD":       "HEAD %s HTTP/1.0\r\nHost: a\r\nX-Request-Id: the-id\r\nConnection: keep-alive\r\n\r\n",
			"a body":         "POST %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-id\r\nContent-Length: 2\r\n\r\nhi",
			"a large body":   "POST %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-id\r\nTransfer-Encoding: chunked\r\n\r\n",
			"gRPC":           "GET %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-id\r\nContent-Type: application/grpc\r\n\r\n",
			"an upgrade":     "GET %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: the-id\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
		} {
			t.Run(name+" "+path, func(t *testing.T) {
				request := fmt.Sprintf(format, path)
				got, want := answersTo(t, straight, request), answersTo(t, around, request)
				if got != want {
					t.Errorf("straight\n%s\nas net/http writes it\n%s", got, want)
				}
				if n := strings.Count(got, "HTTP/1."); n < 1 || !strings.Contains(got, "X-Request-Id: the-id") {
					t.Errorf("%d answers:\n%s", n, got)
				}
			})
		}
	}
}

// answersTo sends the same request twice, one behind the other, and returns the
// answers in a form that can be compared, and whether the connection was ended.
func answersTo(t *testing.T, s *site, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, request+request)
	in := bufio.NewReader(c)
	var b strings.Builder
	method, _, _ := strings.Cut(request, " ")
	for range 2 {
		var raw bytes.Buffer
		res, err := http.ReadResponse(bufio.NewReader(io.TeeReader(byteByByte{in}, &raw)), &http.Request{Method: method})
		if err != nil {
			fmt.Fprintf(&b, "and the end\n")
			break
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "X-Added: ") })
		for i, l := range lines {
			if strings.HasPrefix(l, "Date: ") {
				lines[i] = "Date: "
			}
		}
		slices.Sort(lines[1:])
		fmt.Fprintf(&b, "%s\n\n%s\n", strings.Join(lines, "\n"), body)
		if res.Close {
			b.WriteString("and the last\n")
			break
		}
	}
	return seconds.ReplaceAllString(b.String(), "${1}N") // a clock goes on
}

// seconds are times in answers: of days, and until a limit is whole again.
var seconds = regexp.MustCompile(`(;t=)\d+|\b\d{5,6}\b`)

// byteByByte reads no further than it is asked to.
type byteByByte struct{ io.Reader }

func (r byteByByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

func TestAHeadThatIsNotAsExpectedGoesOutAsItIs(t *testing.T) {
	s := &straight{buf: []byte("A: b\r\nContent-Length: 4\r\nbody"), fields: len("A: b\r\nContent-Length: 4\r\n")}
	for head, want := range map[string]string{
		"HTTP/1.1 429 No\r\nDate: d\r\nContent-Length: 0\r\n\r\n":                      "HTTP/1.1 429 No\r\nA: b\r\nContent-Length: 4\r\nDate: d\r\n\r\nbody",
		"HTTP/1.1 429 No\r\nDate: d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n": "HTTP/1.1 429 No\r\nA: b\r\nContent-Length: 4\r\nDate: d\r\nConnection: close\r\n\r\nbody",
		"HTTP/1.1 429 No\r\nContent-Length: 0\r\nDate: d\r\n\r\n":                      "HTTP/1.1 429 No\r\nA: b\r\nContent-Length: 4\r\nDate: d\r\n\r\nbody",
		"HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n":                                 "HTTP/1.1 429 No\r\nA: b\r\nContent-Length: 4\r\n\r\nbody",
		"HTTP/1.1 429 No\r\nDate: d\r\nContent-Length: 5\r\n\r\n":                      "",
		"HTTP/1.1 429 No\r\nDate: d\r\nContent-Length: 5\r\n\r\nhello":                 "",
		"HTTP/1.1 429 No\r\nDate: d\r\n\r\n":                                           "",
		"HTTP/1.1 429 No\r\nDate: d\r\nContent-Length: 0\r\n":                          "",
		"HTTP/1.1 429 No": "",
		"":                "",
	} {
		out, ok := s.fill([]byte(head))
		if string(out) != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", head, out, ok, want)
		}
	}
	s.head = true
	head, want := "HTTP/1.0 429 No\r\nDate: d\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.0 429 No\r\nA: b\r\nContent-Length: 4\r\nDate: d\r\nConnection: keep-alive\r\n\r\n"
	if out, ok := s.fill([]byte(head)); string(out) != want || !ok {
		t.Errorf("of HEAD: %q %v, want %q", out, ok, want)
	}
}

// takesAll is a connection that takes everything.
type takesAll struct{ net.Conn }

func (takesAll) Write(p []byte) (int, error)      { return len(p), nil }
func (takesAll) SetWriteDeadline(time.Time) error { return nil }

// What goes straight allocates nothing but the request's id.
func TestAnAnswerThatGoesStraightAllocatesItsIDAlone(t *testing.T) {
	for name, text := range map[string]string{
		"one rule":   "rules: [{ name: a, limit: 1/d }]\n",
		"two rules":  "rules: [{ name: a, limit: 1/d }, { name: b, limit: 9/d }]\n",
		"a field":    "rules: [{ name: a, limit: 1/d, reject: { headers: { X-Why: '{rule}' } } }]\n",
		"block":      "block: { path: / }\nrules: []\n",
		"no headers": "ratelimit_headers: off\nrules: [{ name: a, limit: 1/d }]\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := New(Config{Clock: NewClock()}, build(t, "routes: [{ respond: { status: 204 } }]\n"+text, nil))
			defer g.Close()
			c := &conn{Conn: takesAll{}, span: time.Minute}
			c.heard.Store(true)
			r := httptest.NewRequest("GET", "/", nil)
			r = r.WithContext(context.WithValue(t.Context(), connKey{}, c))
			s := sink{header: http.Header{}}
			head := []byte("HTTP/1.1 429 Too Many Requests\r\nDate: d\r\nContent-Length: 0\r\n\r\n")
			refuse := func() {
				g.ServeHTTP(&s, r)
				c.Write(head)
			}
			refuse()
			clear(s.header) // of the first, which may have passed
			if got := testing.AllocsPerRun(200, refuse); got != 1 {
				t.Errorf("%v allocations, want 1", got)
			}
			if s.status < 400 || len(s.header) != 0 {
				t.Errorf("status %d, header %v: it did not go straight", s.status, s.header)
			}
		})
	}
}
