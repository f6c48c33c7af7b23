package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// bigSite serves text with a recording upstream and a rule that counts all.
func bigSite(t *testing.T, limits string) (*site, *recorder) {
	up := record(t)
	return newSite(t, limits+"\nupstream: "+up.url+"\nrules: [{ name: all, key: global, limit: 1000/h }]\n", nil), up
}

// headersOf makes n header lines beside Host.
func headersOf(n int) string {
	var b strings.Builder
	for i := range n - 1 { // Connection is one of them
		fmt.Fprintf(&b, "X-%d: y\n", i)
	}
	return b.String() + "Connection: close\n"
}

// bytesOf makes header lines beside Host of n bytes in all, each counted as
// "name: value" and its end of line.
func bytesOf(n int) string {
	const line = "Connection: close\n"
	n -= len(line) + 1 // one more in CRLF
	var b strings.Builder
	b.WriteString(line)
	for i := 0; n > 0; i++ {
		size := min(n, 4000)
		if n-size < 100 {
			size = n
		}
		name := fmt.Sprintf("X-%d: ", i)
		b.WriteString(name + strings.Repeat("v", size-len(name)-2) + "\n")
		n -= size
	}
	return b.String()
}

func TestLimitsHoldToTheUnit(t *testing.T) {
	const head = "GET / HTTP/1.1\nHost: a\n"
	s, up := bigSite(t, "")
	exact := map[int]int{}
	for _, row := range []struct {
		name, text string
		want       int
	}{
		{"100 headers", head + headersOf(100) + "\n", 200},
		{"101 headers", head + headersOf(101) + "\n", 431},
		{"1000 headers", head + headersOf(1000) + "\n", 431},
		{"101 values of one name", head + strings.Repeat("A: b\n", 101) + "\n", 431},
		{"64 KiB of headers", head + bytesOf(64<<10) + "\n", 200},
		{"a byte more", head + bytesOf(64<<10+1) + "\n", 431},
		{"1 MB of headers", head + bytesOf(1_000_000) + "\n", 431},
		{"a URL of 16 KiB", "GET /" + strings.Repeat("u", 16<<10-1) + " HTTP/1.1\nHost: a\nConnection: close\n\n", 200},
		{"a byte more", "GET /" + strings.Repeat("u", 16<<10) + " HTTP/1.1\nHost: a\nConnection: close\n\n", 414},
		{"a query", "GET /?" + strings.Repeat("u", 16<<10-1) + " HTTP/1.1\nHost: a\nConnection: close\n\n", 414},
		{"an absolute one", "GET http://a/" + strings.Repeat("u", 16<<10) + " HTTP/1.1\nHost: a\nConnection: close\n\n", 414},
		{"a URL of 60 KB", "GET /" + strings.Repeat("u", 60_000) + " HTTP/1.1\nHost: a\nConnection: close\n\n", 414},
		{"both at their limits", "GET /" + strings.Repeat("u", 16<<10-1) + " HTTP/1.1\nHost: a\n" + bytesOf(64<<10) + "\n", 200},
	} {
		before := len(up.targets())
		r := s.raw(row.text)
		if r.StatusCode != row.want {
			t.Errorf("%s: %d, want %d", row.name, r.StatusCode, row.want)
		} else {
			exact[row.want]++
		}
		if row.want == 200 {
			before++
		}
		if got := len(up.targets()); got != before {
			t.Errorf("%s: %d requests at the upstream, want %d", row.name, got, before)
		}
	}
	if n := s.gateway.Current().rules.Rules[0].Base.Live.Allowed.Load(); n != int64(len(up.targets())) {
		t.Errorf("%d units taken for %d requests", n, len(up.targets()))
	}
	t.Attr("S12", fmt.Sprintf("%d × 431, %d × 414 exactly, and at the upstream the %d at their limits alone", exact[431], exact[414], len(up.targets())))
}

func TestLimitsHoldOverHTTP2(t *testing.T) {
	s, up := bigSite(t, "")
	c := h2c(t)
	ask := func(path string, headers, size int) int {
		req, _ := http.NewRequest("GET", "http://"+s.addr+path, nil)
		req.Header.Set("User-Agent", "x") // one of them; Go would send its own
		for i := range headers - 1 {
			req.Header.Set(fmt.Sprintf("X-%d", i), strings.Repeat("v", size))
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, row := range []struct {
		path          string
		headers, size int
		want          int
	}{
		{"/", 100, 1, 200}, {"/", 101, 1, 431}, {"/", 20, 4 << 10, 431},
		{"/" + strings.Repeat("u", 16<<10-1), 1, 1, 200}, {"/" + strings.Repeat("u", 16<<10), 1, 1, 414},
	} {
		if got := ask(row.path, row.headers, row.size); got != row.want {
			t.Errorf("a URL of %d, %d headers of %d bytes: %d, want %d", len(row.path), row.headers, row.size, got, row.want)
		}
	}
	got := len(up.targets())
	if got != 2 {
		t.Errorf("%d requests at the upstream, want 2", got)
	}
	t.Attr("S12", fmt.Sprintf("the same over HTTP/2, and %d at the upstream", got))
}

func TestAChangedLimitHoldsFromTheNextRequestOn(t *testing.T) {
	s := newSite(t, openRules, nil)
	w := s.dial() // one connection that lives through all of it
	ask := func(path string, headers int) int {
		w.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", headers) + "\r\n")
		return w.mustAnswer("GET").StatusCode
	}
	long := "/" + strings.Repeat("u", 99)
	for _, step := range []struct {
		limits            string
		headers, url, all int // statuses of 20 headers, of 100 bytes of URL, of an ordinary request
	}{
		{"", 200, 200, 200},
		{"limits: { headers: 10 }\n", 431, 200, 200},
		{"limits: { url: 64B }\n", 200, 414, 200},
		{"limits: { headers: 20, url: 100B }\n", 200, 200, 200},
		{"limits: { headers: 19, url: 99B }\n", 431, 414, 200},
		{"", 200, 200, 200},
	} {
		s.reload(step.limits + openRules)
		if a, b, c := ask("/", 20), ask(long, 0), ask("/", 1); a != step.headers || b != step.url || c != step.all {
			t.Errorf("with %q: %d, %d, %d; want %d, %d, %d", step.limits, a, b, c, step.headers, step.url, step.all)
		}
	}
}
