package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"gateway/rules"
)

const loginRule = `
upstream: UPSTREAM
body_limit: 1KiB
rules:
  - { name: login, match: POST /login, key: body.username, limit: 2/h, burst: 2 }
`

// post sends a body to /login over a connection of its own.
func (s *site) post(contentType, body string, header ...string) reply {
	s.t.Helper()
	w := s.dial()
	defer w.Close()
	head := fmt.Sprintf("POST /login HTTP/1.1\nHost: a\nConnection: close\nContent-Type: %s\nContent-Length: %d\n%s\n", contentType, len(body), joinLines(header))
	w.send(strings.ReplaceAll(head, "\n", "\r\n") + body)
	return w.mustAnswer("POST")
}

func (s *site) json(body string) reply { s.t.Helper(); return s.post("application/json", body) }

// bodyFree checks that no memory of bodies is in use once nothing is in progress.
func (s *site) bodyFree() {
	s.t.Helper()
	eventually(s.t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
	eventually(s.t, "no memory of bodies in use", func() bool { return s.gateway.bodies.used.Load() == 0 })
}

func TestOneUserHasOneCounterHoweverTheNameIsSent(t *testing.T) {
	s := newSite(t, loginRule, nil)
	multi := "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nANN\r\n--b--\r\n"
	for i, send := range []func() reply{
		func() reply { return s.json(`{"username":"ann"}`) },
		func() reply { return s.post("text/plain", `{"UserName":" Ann "}`) },
		func() reply { return s.post("application/x-www-form-urlencoded", "username=an%6e&password=x") },
		func() reply { return s.post("multipart/form-data; boundary=b", multi) },
		func() reply { return s.json(`{"\u0075sername":"\u0061nn","password":"y"}`) },
	} {
		want := 200
		if i > 1 {
			want = 429
		}
		if got := send().StatusCode; got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	for _, other := range []string{`{"username":"bob"}`, `{"username":12}`, `{"username":"12"}`, `{"username":true}`} {
		if r := s.json(other); r.StatusCode != 200 {
			t.Errorf("%s: %d, want 200", other, r.StatusCode)
		}
	}
	if r := s.json(`{"username":1.2e1}`); r.StatusCode != 429 {
		t.Errorf("12, the third time: %d, want 429", r.StatusCode)
	}
	s.bodyFree()
}

// mirror answers with what came, and how.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
	w.Header().Set("X-Coding", strings.Join(r.TransferEncoding, ","))
	w.Header().Set("X-Err", fmt.Sprint(err))
	w.Write(body)
}

// unsized hides how long a body is.
type unsized struct{ io.Reader }

func TestABodyIsSentOnAsItCame(t *testing.T) {
	s := newSite(t, strings.Replace(loginRule, "limit: 2/h, burst: 2", "limit: 100000/s", 1), mirror)
	both(t, func(t *testing.T, c *http.Client) {
		for _, size := range []int{0, 1, 20, 1022, 1023, 1024, 1025, 1026, 2048, 5000, 100_000} {
			for _, known := range []bool{true, false} {
				body := `{"username":"ann","x":"`
				if len(body)+2 <= size {
					body += strings.Repeat("x", size-len(body)-2) + `"}`
				} else {
					body = strings.Repeat("x", size)
				}
				var in io.Reader = strings.NewReader(body)
				if !known {
					in = unsized{in}
				}
				req, _ := http.NewRequest("POST", "http://"+s.addr+"/login", in)
				req.Header.Set("Content-Type", "application/json")
				res, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				length, coding := fmt.Sprint(size), ""
				if !known && size > 0 {
					length, coding = "-1", "chunked"
				}
				if err != nil || res.StatusCode != 200 || string(got) != body || res.Header.Get("X-Err") != "<nil>" {
					t.Fatalf("%d bytes, length known: %t: %d, %v, %d bytes came on, %s", size, known, res.StatusCode, err, len(got), res.Header.Get("X-Err"))
				}
				if size > 0 && (res.Header.Get("X-Length") != length || res.Header.Get("X-Coding") != coding) {
					t.Errorf("%d bytes, length known: %t: came on with length %s, coding %q", size, known, res.Header.Get("X-Length"), res.Header.Get("X-Coding"))
				}
			}
		}
	})
	s.bodyFree()
}

func TestWhatFailSaysOfBodiesThatCannotBeRead(t *testing.T) {
	const file = `
upstream: UPSTREAM
body_limit: 100B
rules:
  - { name: login, key: body.username, limit: 1/h, fail: FAIL }
  - { name: try, key: body.username, limit: 1/h, fail: closed, dry_run: true }
`
	long := `{"username":"zoe","x":"` + strings.Repeat("x", 100) + `"}`
	for fail, want := range map[string][3][2]int{ // unreadable, too long, no memory; each twice
		"local":  {{200, 429}, {429, 429}, {429, 429}}, // as missing: counted by address
		"open":   {{200, 200}, {200, 200}, {200, 200}},
		"closed": {{400, 400}, {413, 413}, {503, 503}},
	} {
		s := newSite(t, strings.Replace(file, "FAIL", fail, 1), mirror)
		for i, what := range []string{`{"username":"zoe","USERNAME":"bob"}`, long, `{"username":"zoe"}`} {
			for n := range 2 {
				if i == 2 {
					s.gateway.bodies.used.Store(bodyRoom)
				}
				r := s.json(what)
				s.gateway.bodies.used.Store(0)
				if r.StatusCode != want[i][n] {
					t.Errorf("%s, %.40s: %d, want %d", fail, what, r.StatusCode, want[i][n])
				}
				if r.StatusCode == 200 && r.body != what {
					t.Errorf("%s: %q came on", fail, r.body)
				}
				if fail == "closed" {
					if got := problemOf(t, r)["violated-policies"].([]any); len(got) != 1 || got[0] != "login" || strings.Contains(r.body, "zoe") {
						t.Errorf("%s", r.body)
					}
				}
				if (r.Header.Get("Retry-After") != "") != (r.StatusCode == 503 || r.StatusCode == 429) {
					t.Errorf("%d with Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
				}
			}
		}
		set := s.gateway.Current().rules
		if open, closed := set.Rule("login").Live.FailedOpen.Load(), set.Rule("login").Base.Live.FailedClosed.Load(); open != map[string]int64{"open": 6}[fail] || closed != map[string]int64{"closed": 6}[fail] {
			t.Errorf("%s: failed open %d times, closed %d times", fail, open, closed)
		}
		if fail == "open" {
			if n := set.Rule("try").Base.Live.DryRunRejected.Load(); n != 6 {
				t.Errorf("the dry run would have refused %d, want 6", n)
			}
		}
		if fail == "closed" { // what is refused for want of a key costs nothing, and what can be read passes
			if r := s.json(`{"username":"zoe"}`); r.StatusCode != 200 {
				t.Errorf("after that: %d, want 200", r.StatusCode)
			}
		}
		s.bodyFree()
	}
}

func TestARefusalThatNeedsNoBodyReadsNone(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules:\n  - { name: login, key: body.username, limit: 100/s }\n  - { name: ip, limit: 1/h }\n", swallow)
	s.json(`{"username":"ann"}`)
	w := s.dial()
	w.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	res, err := http.ReadResponse(w.in, nil)
	if err != nil || res.StatusCode != 429 {
		t.Errorf("%v, %v; want 429 and no 100", res, err)
	}
	// A body that says it is too long is not read either.
	s = newSite(t, "upstream: UPSTREAM\nbody_limit: 4B\nrules: [{ name: login, key: body.username, limit: 100/s, fail: closed }]\n", swallow)
	w = s.dial()
	w.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	res, err = http.ReadResponse(w.in, nil)
	if err != nil || res.StatusCode != 413 {
		t.Errorf("%v, %v; want 413 and no 100", res, err)
	}
	// One that is read gets its 100 first, and its request the answer.
	s = newSite(t, "upstream: UPSTREAM\nrules: [{ name: login, key: body.username, limit: 1/h }]\n", swallow)
	for _, want := range []int{200, 429} {
		w = s.dial()
		w.send(expecting)
		if res, err := http.ReadResponse(w.in, nil); err != nil || res.StatusCode != 100 {
			t.Fatalf("%v, %v; want 100", res, err)
		}
		w.send("hello")
		if r := w.mustAnswer("POST"); r.StatusCode != want || want == 200 && r.body != "5 bytes" {
			t.Errorf("%d %q, want %d", r.StatusCode, r.body, want)
		}
		w.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n") // the connection goes on
		if r, ok := w.answer("GET"); !ok || r.StatusCode != 429 {
			t.Errorf("behind %d: %v %v", want, r.Response, ok)
		}
	}
	s.bodyFree()
}

func TestSlotsAreHeldWhileTheBodyIsRead(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, `
upstream: UPSTREAM
overload: { max_in_flight: 2, reserve: 0% }
timeouts: { read: 6s }
rules:
  - { name: ip, limit: 1000/h }
  - { name: gone, key: body.username, limit: 1000/h, missing: skip }
  - { name: slots, match: POST /login, concurrency: 1 }
  - { name: login, match: POST /login, key: body.username, limit: 1000/h }
  - { name: each, match: POST /login, key: body.username, concurrency: 1 }
`, swallow)
	const head, first, rest = "POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n", `{"username"`, `:"ann"}`
	reading := func() bool { return s.gateway.bodies.used.Load() > 0 } // which begins when the slots are held
	for _, end := range []string{"whole", "gone", "stalled", "broken"} {
		w := s.dial()
		if end == "broken" {
			w.send("POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		} else {
			w.send(head + first)
		}
		eventually(t, "the body is being read", reading)
		if r := s.json(`{"username":"bob"}`); r.StatusCode != 429 || fmt.Sprint(problemOf(t, r)["violated-policies"]) != "[slots]" {
			t.Errorf("%s: beside it: %d %s, want 429 by slots", end, r.StatusCode, r.body)
		}
		// It counts in the whole gateway too, where one more finds a place.
		if r := s.get("/other"); r.StatusCode != 200 {
			t.Errorf("%s: elsewhere: %d", end, r.StatusCode)
		}
		want := 0
		switch end {
		case "whole":
			w.send(rest)
			want = 200
		case "gone":
			w.Close()
		case "stalled":
			want = 408
		case "broken":
			w.send("zz\r\n")
			want = 400
		}
		if want != 0 {
			if r := w.mustAnswer("POST"); r.StatusCode != want {
				t.Errorf("%s: %d %s, want %d", end, r.StatusCode, r.body, want)
			}
		}
		s.bodyFree()
		if r := s.json(`{"username":"ann"}`); r.StatusCode != 200 {
			t.Errorf("%s: after it: %d %s", end, r.StatusCode, r.body)
		}
	}
	for _, name := range []string{"ip", "slots", "login", "each"} {
		// Four of bob were refused; of ann five passed, and four at other places.
		plan := s.gateway.Current().rules.Rule(name).Base
		if n := plan.Live.Allowed.Load(); name == "ip" && n != 9 || name != "ip" && n != 5 {
			t.Errorf("%s has let %d through", name, n)
		}
	}
}

func TestARefusalByTheBodyCostsTheOthersNothing(t *testing.T) {
	s := newSite(t, `
upstream: UPSTREAM
rules:
  - { name: ip, limit: 10/h }
  - { name: slots, concurrency: 10 }
  - { name: login, key: body.username, limit: 1/h }
`, nil)
	for i, want := range []int{200, 429, 429, 429} {
		r := s.json(`{"username":"ann"}`)
		if r.StatusCode != want || rest(r, "ip") != "9" {
			t.Errorf("request %d: %d, RateLimit %q; want %d and 9 left", i, r.StatusCode, r.Header.Get("RateLimit"), want)
		}
		// A rule keyed on a name says nothing but on its own refusals.
		if strings.Contains(r.Header.Get("RateLimit"), "login") != (want == 429) || strings.Contains(r.Header.Get("RateLimit-Policy"), "login") != (want == 429) {
			t.Errorf("request %d: %d with RateLimit %q", i, r.StatusCode, r.Header.Get("RateLimit"))
		}
		if want == 429 && rest(r, "slots") != "10" || want == 200 && rest(r, "slots") != "9" {
			t.Errorf("request %d: %s slots left", i, rest(r, "slots"))
		}
	}
	if r := s.json(`{"username":"bob"}`); r.StatusCode != 200 || rest(r, "ip") != "8" {
		t.Errorf("%d, RateLimit %q; want 8 left", r.StatusCode, r.Header.Get("RateLimit"))
	}
}

func TestABodyGoesToTheNextServerWhenTheFirstCannotBeReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	s := newSite(t, "upstreams: { a: { servers: [\"http://"+dead+"\", UPSTREAM], balance: round_robin } }\nrules: [{ name: login, key: body.username, limit: 1000/h }]\n", mirror)
	for i := range 4 {
		body := fmt.Sprintf(`{"username":"ann","n":%d}`, i)
		if r := s.json(body); r.StatusCode != 200 || r.body != body {
			t.Errorf("request %d: %d %q", i, r.StatusCode, r.body)
		}
	}
	s.bodyFree()
}

func TestRequestsWithoutABodyAreWithoutTheKey(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: login, key: body.username, limit: 1/h, missing: reject }]\n", nil)
	for _, head := range []string{"GET / HTTP/1.1", "DELETE / HTTP/1.1", "POST / HTTP/1.1\nContent-Length: 0"} {
		if r := s.raw(head + "\nHost: a\nConnection: close\n\n"); r.StatusCode != 400 || !strings.Contains(r.body, "needs body.username") {
			t.Errorf("%s: %d %s", head, r.StatusCode, r.body)
		}
	}
	r := s.raw("GET / HTTP/1.1\nHost: a\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n")
	if r.StatusCode != 400 {
		t.Errorf("a handshake: %d, want 400", r.StatusCode)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	// A dry run refuses nothing.
	s = newSite(t, "upstream: UPSTREAM\nrules: [{ name: login, key: body.username, limit: 1/h, missing: reject, dry_run: true }]\n", nil)
	if r := s.get("/"); r.StatusCode != 200 || s.gateway.Current().rules.Rule("login").Base.Live.DryRunRejected.Load() != 1 {
		t.Errorf("a dry run: %d", r.StatusCode)
	}
}

// TestAStreamThatNoKeyIsInFlows makes a client that sends no more of its body
// before it has the beginning of the answer.
func TestAStreamThatNoKeyIsInFlows(t *testing.T) {
	up := speaking(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("welcome "))
		http.NewResponseController(w).Flush()
		io.Copy(w, r.Body)
	})
	s := newSite(t, "upstream: "+up+"\nrules: [{ name: login, key: body.username, limit: 1000/s }]\n", nil)
	c := h2c(t)
	for contentType, first := range map[string]string{"application/octet-stream": "hello ", "application/grpc": ""} {
		in, out := io.Pipe()
		req, _ := http.NewRequest("POST", "http://"+s.addr, in)
		req.Header.Set("Content-Type", contentType)
		go io.WriteString(out, first)
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 8)); err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
		io.WriteString(out, "world")
		out.Close()
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != first+"world" {
			t.Errorf("%s: %q, %v", contentType, got, err)
		}
		res.Body.Close()
	}
	s.bodyFree()
}

func TestWhatARuleHasReadOfABodyReachesTheUpstream(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: login, key: [body.username, basic.username], limit: 1000/h }]\n", nil)
	s.post("application/json", `{"username":"ann"}`, "Authorization: Basic YW5uOng=", "Connection: close, content-type, content-encoding, authorization")
	h := s.last().Header
	if h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "Basic YW5uOng=" {
		t.Errorf("a client took away what the rule went by: %v", h)
	}
}

func TestTheServerIsPickedByAFieldOfTheBody(t *testing.T) {
	var seen [2]sync.Map
	servers := make([]string, 2)
	for i := range servers {
		servers[i] = "http://" + listen4(t, func(c net.Conn, in *bufio.Reader) {
			for {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(req.Body)
				seen[i].Store(strings.ToLower(string(body)), true)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		})
	}
	s := newSite(t, "upstreams: { a: { servers: [\""+strings.Join(servers, `", "`)+"\"], balance: { hash: body.username } } }\nrules: []\n", nil)
	for range 3 {
		for i := range 20 {
			for _, form := range []string{`{"username":"user%d"}`, `{"USERNAME":"USER%d"}`} {
				s.json(fmt.Sprintf(form, i))
			}
		}
	}
	n := 0
	seen[0].Range(func(body, _ any) bool {
		n++
		if _, other := seen[1].Load(body); other {
			t.Errorf("%s went to both", body)
		}
		return true
	})
	if n == 0 || n == 20 {
		t.Errorf("%d of 20 users went to the first", n)
	}
	s.bodyFree()
}

// TestManyBodiesAtOnce lets upstreams answer before they have read, and clients
// leave at any moment, while buffers go from one request to the next.
func TestManyBodiesAtOnce(t *testing.T) {
	var turn atomic.Int32
	s := newSite(t, "upstream: UPSTREAM\nbody_limit: 8KiB\nrules: [{ name: login, key: body.username, limit: 1000000/s }]\n", func(w http.ResponseWriter, r *http.Request) {
		if turn.Add(1)%3 == 0 {
			w.WriteHeader(401) // and reads nothing
			return
		}
		mirror(w, r)
	})
	both(t, func(t *testing.T, c *http.Client) {
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 40 {
					body := fmt.Sprintf(`{"username":"%d","x":"%s"}`, worker, bytes.Repeat([]byte{byte('a' + worker)}, i*300))
					req, _ := http.NewRequest("POST", "http://"+s.addr+"/login", unsized{strings.NewReader(body)})
					req.Header.Set("Content-Type", "application/json")
					res, err := c.Do(req)
					if err != nil {
						continue // an early answer may break the upload off
					}
					if i%5 != 0 {
						if got, err := io.ReadAll(res.Body); err == nil && res.StatusCode == 200 && string(got) != body {
							t.Errorf("another body came back: %.60q for %.60q", got, body)
						}
					}
					res.Body.Close()
				}
			})
		}
		wg.Wait()
	})
	s.bodyFree()
}

func TestBodyMemoryIsBoundedAndUsedAgain(t *testing.T) {
	var m bodyMemory
	var got [][]byte
	for {
		buf, ok := m.take(1<<20, 64<<10)
		if !ok {
			break
		}
		got = append(got, buf)
	}
	if len(got) != 64 {
		t.Errorf("%d MiB before it was full, want 64", len(got))
	}
	if _, ok := m.take(1<<20, 8<<20); !ok { // 16 of 8 MiB are more than 64 MiB
		t.Error("a higher body_limit does not raise the bound")
	}
	for _, buf := range got {
		m.give(buf)
	}
	if n := m.used.Load(); n != 1<<20 {
		t.Errorf("%d bytes in use, want 1 MiB", n)
	}
	var e early
	e.memory = &m
	for range 4 {
		e.grow(64 << 10)
	}
	if cap(e.buf) != 8<<10 || m.used.Load() != 1<<20+8<<10 {
		t.Errorf("a buffer of %d, %d in use", cap(e.buf), m.used.Load())
	}
	e.drop()
	e.drop()
	if n, _ := e.read(make([]byte, 10)); n != 0 || m.used.Load() != 1<<20 {
		t.Errorf("read %d after drop, %d in use", n, m.used.Load())
	}
}

// An upstream may answer as soon as it has all of a body. Only a body that is known
// to have ended by then leaves the client its connection.
func TestABodyThatWasReadForAKeyEndsWithItsLastBytes(t *testing.T) {
	const text = "0123456789"
	for most := range int64(12) {
		for size := 1; size <= 12; size++ {
			b := &body{in: io.NopCloser(iotest.DataErrReader(strings.NewReader(text)))}
			if _, err := b.readEarly(most, new(rules.Facts), new(bodyMemory)); err != nil {
				t.Fatal(err)
			}
			got, p := "", make([]byte, size)
			for got != text {
				n, err := b.Read(p)
				got += string(p[:n])
				if (got == text) != (err == io.EOF) {
					t.Fatalf("after %d early bytes, in pieces of %d: %q and %v", most, size, got, err)
				}
			}
		}
	}
}
