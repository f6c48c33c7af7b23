package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"gateway/rules"
)

// servers starts n servers that answer with their number, and returns their URLs
// as a list of the file.
func servers(t testing.TB, n int) (list string) {
	var urls []string
	for i := range n {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, i) }))
		t.Cleanup(up.Close)
		urls = append(urls, up.URL)
	}
	return "[" + strings.Join(urls, ", ") + "]"
}

// nobody is the URL of a server that refuses.
func nobody(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func TestHealthIsKeptOverAReloadOfAnUnchangedPool(t *testing.T) {
	var ill atomic.Bool
	ill.Store(true)
	pools := `
upstreams:
  api: { servers: [UPSTREAM, ` + nobody(t) + `, ` + nobody(t) + `], health: { path: /up, interval: 100ms } }
  other: { servers: UPSTREAM, timeout: %ds }
routes: [{ match: /other, upstream: other }, { upstream: api }]
rules: [{ name: r, limit: %d/h }]
`
	s := newSite(t, fmt.Sprintf(pools, 10, 100), nil)
	api := s.gateway.Current().pools["api"]
	failed := func() (n uint64) {
		for _, st := range api.Stats() {
			n += st.CheckFailures
		}
		return n
	}
	eventually(t, "two of three are found down", func() bool { return !api.Stats()[1].Up && !api.Stats()[2].Up && api.Panic() })
	for i := range 20 {
		other := s.gateway.Current().pools["other"]
		s.reload(fmt.Sprintf(pools, 11+i, 101+i))
		if now := s.gateway.Current().pools; now["api"] != api || now["other"] == other {
			t.Fatal("the unchanged pool is another, or the changed one the same")
		}
		if st := api.Stats(); st[1].Up || st[2].Up || !st[0].Up || !api.Panic() {
			t.Fatalf("after reload %d: %+v", i, st)
		}
	}
	before := failed()
	eventually(t, "checks go on", func() bool { return failed() > before+4 })
}

func TestAThousandReloadsOfPoolsWithChecksLeaveNothingRunning(t *testing.T) {
	already := goleak.IgnoreCurrent()
	dead := nobody(t)
	text := func(n int) string {
		return fmt.Sprintf(`
upstreams:
  changed: { servers: [%s, "http://localhost:1"], timeout: %ds, health: { path: /, interval: 100ms }, connect_timeout: 50ms }
  same: { servers: [%s], health: { path: /, interval: 100ms } }
routes: [{ match: /a, upstream: changed }, { upstream: same }]
rules: []
`, dead, n+1, dead)
	}
	g := New(Config{Clock: NewClock()}, build(t, text(0), nil))
	for i := range 1000 {
		next := build(t, text(i+1), g.Current())
		if i%3 != 0 { // a version that is dropped is nothing to tidy up
			g.Swap(next)
		}
	}
	g.Close()
	goleak.VerifyNone(t, already)
}

// TestARetryIsChargedOnce puts a server that reads and dies beside one that
// answers.
func TestARetryIsChargedOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	note := func(r *http.Request) {
		io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		seen[r.Method+r.Header.Get("X-Id")]++
	}
	dies := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		panic(http.ErrAbortHandler)
	})}
	var wg sync.WaitGroup
	wg.Go(func() { dies.Serve(l) })
	t.Cleanup(func() { dies.Close(); wg.Wait() })
	s := newSite(t, `
upstreams: { api: { servers: [UPSTREAM, "http://`+l.Addr().String()+`"], balance: round_robin } }
rules: [{ name: all, limit: 1000/h }]
`, func(w http.ResponseWriter, r *http.Request) { note(r) })
	bad, total := 0, 0
	for i := range 10 {
		for _, method := range []string{"GET", "POST"} {
			total++
			body := "\n"
			if method == "POST" {
				body = "Content-Length: 4\n\nbody"
			}
			r := s.raw(method + " / HTTP/1.1\nHost: a\nConnection: close\nX-Id: " + fmt.Sprint(i) + "\n" + body)
			switch {
			case method == "GET" && r.StatusCode != 200:
				t.Errorf("GET %d: %d", i, r.StatusCode)
			case r.StatusCode == 502:
				bad++
			case r.StatusCode != 200:
				t.Errorf("%s %d: %d", method, i, r.StatusCode)
			}
		}
	}
	live := s.gateway.Current().rules.Rules[0].Live
	eventually(t, "all are settled", func() bool { return s.gateway.InFlight() == 0 })
	if n := live.Units.Load(); n != int64(total) {
		t.Errorf("%d units for %d requests", n, total)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		if strings.HasPrefix(id, "POST") && n != 1 || n > 2 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
	if len(seen) != total || bad == 0 {
		t.Errorf("%d of %d reached a server, %d answered 502: nothing was tried", len(seen), total, bad)
	}
	t.Attr("S18", fmt.Sprintf("%d units for %d requests of which some were tried on two servers", live.Units.Load(), total))
}

func TestOneDeadServerOfTwoIsSeenByNobody(t *testing.T) {
	s := newSite(t, "upstream: [UPSTREAM, \""+nobody(t)+"\"]\nrules: [{ name: all, limit: 1000/h }]\n", nil)
	for i := range 30 {
		r := s.raw("POST / HTTP/1.1\nHost: a\nConnection: close\nContent-Length: 4\n\nbody")
		if r.StatusCode != 200 {
			t.Fatalf("request %d: %d", i, r.StatusCode)
		}
	}
	if n := len(s.requests()); n != 30 {
		t.Errorf("%d requests at the live server", n)
	}
}

func TestAKeyStaysWithItsServer(t *testing.T) {
	s := newSite(t, `
upstreams: { api: { servers: `+servers(t, 5)+`, balance: { hash: header.X-Key } } }
rules: []
`, nil)
	used := map[string]bool{}
	for i := range 100 {
		key := fmt.Sprint("X-Key: k", i)
		first := s.get("/", key).body
		used[first] = true
		for range 2 {
			if again := s.get("/other", key).body; again != first {
				t.Errorf("%s: server %s, then %s", key, first, again)
			}
		}
	}
	if len(used) != 5 {
		t.Errorf("100 keys went to servers %v only", used)
	}
	if a, b := s.get("/").body, s.get("/x").body; a != b {
		t.Errorf("without a key one address went to %s and %s", a, b)
	}
}

func TestAQueryThatIsHashedIsRead(t *testing.T) {
	s := newSite(t, `
upstreams: { api: { servers: `+servers(t, 2)+`, balance: { hash: query.q } } }
rules: []
`, nil)
	if r := s.get("/?q=%zz"); r.StatusCode != 400 {
		t.Errorf("a broken code: %d, want 400", r.StatusCode)
	}
	if a, b := s.get("/?q=x").body, s.get("/?y=1&q=%78").body; a != b {
		t.Errorf("one key went to %s and %s", a, b)
	}
}

func TestEveryServerDownAndRefusingIs503(t *testing.T) {
	dead := nobody(t)
	s := newSite(t, `
upstreams: { api: { servers: `+dead+`, health: { path: /, interval: 100ms } } }
rules: [{ name: counted, limit: 5/h, count: { status: 401 } }]
`, nil)
	eventually(t, "it is found down", func() bool { return !s.gateway.Current().pools["api"].Stats()[0].Up })
	for range 10 {
		r := s.get("/")
		if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" {
			t.Fatalf("got %d, Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
		}
		if p := problemOf(t, r); p["status"] != 503.0 || strings.Contains(r.body, strings.TrimPrefix(dead, "http://")) {
			t.Errorf("got %s", r.body)
		}
	}
	if n := s.gateway.Current().rules.Rules[0].Live.Units.Load(); n != 0 {
		t.Errorf("%d units kept for answers that no upstream gave", n)
	}
}

func TestABusyPoolIs503(t *testing.T) {
	hold := make(chan struct{})
	s := newSite(t, `
upstreams: { api: { servers: UPSTREAM, max_conns: 1, connect_timeout: 1s } }
rules: []
`, func(http.ResponseWriter, *http.Request) { <-hold })
	first := make(chan int, 1)
	go func() { first <- s.get("/").StatusCode }()
	eventually(t, "one is at the server", func() bool { return len(s.requests()) == 1 })
	r := s.raw("POST / HTTP/1.1\nHost: a\nContent-Length: 100\n\nhalf") // and no more
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || problemOf(t, r)["status"] != 503.0 {
		t.Errorf("got %d %v", r.StatusCode, r.Header)
	}
	close(hold)
	if got := <-first; got != 200 {
		t.Errorf("the first got %d", got)
	}
}

func TestAFileBesideThatCannotBeUsedChangesNothing(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: []\n", nil)
	before := s.gateway.Current()
	file, err := rules.Parse("test.yaml", []byte(`upstreams:
  b: { servers: https://b, tls: { cert: nowhere.pem, key: nowhere.key } }
  a: { servers: https://a, tls: { ca: /nowhere/ca.pem } }
routes: [{ match: /a, upstream: a }, { upstream: b }]
rules: []
`))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := Build(file, before, nil)
	list, ok := errors.AsType[rules.ErrorList](err)
	if snap != nil || !ok {
		t.Fatalf("got %v", err)
	}
	want := `test.yaml:2:41: cert "nowhere.pem": no such file or directory
   2 |   b: { servers: https://b, tls: { cert: nowhere.pem, key: nowhere.key } }
     |                                         ^^^^^^^^^^^
test.yaml:2:59: key "nowhere.key": no such file or directory
   2 |   b: { servers: https://b, tls: { cert: nowhere.pem, key: nowhere.key } }
     |                                                           ^^^^^^^^^^^
test.yaml:3:39: ca "/nowhere/ca.pem": no such file or directory
   3 |   a: { servers: https://a, tls: { ca: /nowhere/ca.pem } }
     |                                       ^^^^^^^^^^^^^^^`
	if got := list.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s.gateway.Current() != before || s.get("/").StatusCode != 200 {
		t.Error("something changed")
	}
}
