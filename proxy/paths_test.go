package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSevenSpellingsOfLoginShareOneCounter(t *testing.T) {
	up := record(t)
	s := newSite(t, "upstream: "+up.url+"\nrules: [{ name: login, match: /login, limit: 2/h }]\n", nil)
	spellings := []string{"/login", "/login/", "//login", "/./login", "/%6cogin", "/a/../login", "/login?x=1"}
	for i, path := range spellings {
		want := 429
		if i < 2 {
			want = 200
		}
		if got := s.get(path).StatusCode; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	for _, path := range []string{"/LOGIN", "/login%2f", "/login;v=1", "/login%20", "/login%3Fa"} {
		if got := s.get(path).StatusCode; got != 200 {
			t.Errorf("%s, another path: %d, want 200", path, got)
		}
	}
	want := []string{"/login", "/login/", "/LOGIN", "/login%2f", "/login;v=1", "/login%20", "/login%3Fa"}
	if diff := cmp.Diff(want, up.targets()); diff != "" {
		t.Errorf("targets at the upstream, as sent:\n%s", diff)
	}
}

func TestNoSpellingOfAdminEscapesItsRule(t *testing.T) {
	up := record(t)
	s := newSite(t, "upstream: "+up.url+"\nrules: [{ name: admin, match: /admin, limit: 1/h }]\n", nil)
	s.get("/admin")
	rows := []struct {
		path string
		want int // 429: the same bucket; 400: refused; 200: another path for us and for a server that reads RFC 3986
	}{
		{"//admin", 429}, {"/./admin", 429}, {"/x/../admin", 429}, {"/x/%2e%2e/admin", 429}, {"/x/.%2E/admin", 429},
		{"/%61dmin", 429}, {"/%61%64%6D%69%6e", 429}, {"/admin/", 429}, {"/admin//", 429}, {"/admin/.", 429}, {"/admin/x/..", 429},
		{"/%2e/admin", 429}, {"///admin///", 429}, {"/../admin", 429}, {"/admin?", 429}, {"/admin?/../x", 429},
		{"/x%2f..%2fadmin", 400}, {"/x/..;/admin", 400}, {"/x/..%5cadmin", 400}, {`/x/..\admin`, 400}, {"/admin%00", 400}, {"/x//../admin", 400},
		{"/x/%252e%252e/admin", 400}, {"/adm%C3%28n", 400}, {"/adm%FFn", 400}, {"/admin%", 400}, {"/admin%2", 400}, {"/%zzadmin", 400}, {"/x/..%2Fadmin", 400},
		{"/.%2Fadmin", 400}, {"/..%00/admin", 400}, {"/%2e%2e%2fadmin", 400}, {"/x/.%252e/admin", 400}, {"/x/%2e%2e;a=b/admin", 400},
		{"/admin#f", 400}, {"/x#/../admin", 400}, {"/admin?a#f", 400},
		{"/ADMIN", 200}, {"/admin;x=1", 200}, {"/admin%20", 200}, {"/admin%3Fa", 200}, {"/admin%2f", 200}, {"/admin%252f", 200}, {`/\admin`, 200},
		{"/adm%C3%ADn", 200}, {"/admin%23f", 200}, {"/admin.", 200}, {"/%2Fadmin", 200}, {"/admin%5c", 200},
	}
	want := []string{"/admin"}
	for _, row := range rows {
		r := s.get(row.path)
		if r.StatusCode != row.want {
			t.Errorf("%s: %d, want %d", row.path, r.StatusCode, row.want)
		}
		if row.want == 200 {
			want = append(want, row.path)
		}
	}
	// What passes reaches the upstream as it was sent: what was matched is what is served.
	if diff := cmp.Diff(want, up.targets()); diff != "" {
		t.Errorf("targets at the upstream:\n%s", diff)
	}
	t.Attr("S05", fmt.Sprintf("%d spellings of a path, %d of them reached the upstream and are other paths there too", len(rows), len(up.targets())-1))
}

func TestAbsoluteTargetsMeetTheSameRule(t *testing.T) {
	up := record(t)
	s := newSite(t, "upstream: "+up.url+"\nrules: [{ name: login, match: api.example.com/login, limit: 2/h }]\n", nil)
	for i, head := range []string{
		"GET http://api.example.com/login HTTP/1.1\nHost: other.example\n",
		"GET http://user:secret@API.example.com:80/a/../login HTTP/1.1\nHost: other.example\n",
		"GET http://api.example.com./login HTTP/1.1\nHost: \n",
		"GET /login HTTP/1.1\nHost: api.example.com:8443\n",
	} {
		want := 200
		if i >= 2 {
			want = 429
		}
		if got := s.raw(head + "Connection: close\n\n").StatusCode; got != want {
			t.Errorf("%q: %d, want %d", head, got, want)
		}
	}
	for _, h := range up.all() {
		if !strings.Contains(strings.ToLower(h), "\r\nhost: api.example.com") {
			t.Errorf("the upstream got another host than the one that was matched:\n%s", h)
		}
	}
}

func TestHostSpellingsAmong150HostsMeetTheirRule(t *testing.T) {
	var b strings.Builder
	b.WriteString("upstream: UPSTREAM\nrules:\n")
	for i := range 150 {
		fmt.Fprintf(&b, "  - { name: h%d, match: { host: Host%d.Example.com }, key: global, limit: 1/h }\n", i, i)
	}
	s := newSite(t, b.String(), nil)
	host := func(h string) int { return s.raw("GET / HTTP/1.1\nHost: " + h + "\nConnection: close\n\n").StatusCode }
	if got := host("host149.example.com"); got != 200 {
		t.Fatalf("the first: %d", got)
	}
	spellings := map[string]int{
		"HOST149.example.COM": 429, "host149.example.com.": 429, "host149.example.com:80": 429, "host149.example.com:443": 429,
		"Host149.Example.Com.:8080": 429, "host149.example.com:": 429,
		"host149.example.com,host1.example.com": 400, "host149.exa%6dple.com": 400, "": 400, "host149.example.com..": 400, "host149.example.com:99999": 400,
		"host149.example.com:8a": 400, "host149 .example.com": 400, "host149.example.com/": 400, "user@host149.example.com": 400, "[::1": 400, "host149.example.com\x00": 400,
	}
	for h, want := range spellings {
		if got := host(h); got != want {
			t.Errorf("Host %q: %d, want %d", h, got, want)
		}
	}
	heads := []string{
		"GET / HTTP/1.0\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\nHost: host149.example.com\nHost: host149.example.com\n",
		"GET / HTTP/1.1\nHost: host149.example.com\nhost: other.example.com\n",
	}
	for _, head := range heads {
		if got := s.raw(head + "Connection: close\n\n").StatusCode; got != 400 {
			t.Errorf("%q: %d, want 400", head, got)
		}
	}
	n := len(s.requests())
	if n != 1 {
		t.Errorf("%d requests reached the upstream, want 1", n)
	}
	t.Attr("S05", fmt.Sprintf("%d spellings of a host among 150, %d passed more than once", len(spellings)+len(heads), n-1))
}

func TestAQueryNobodyReadsArrivesByteForByte(t *testing.T) {
	up := record(t)
	s := newSite(t, "upstream: "+up.url+"\nrules: [{ name: all, limit: 100/h }]\n", nil)
	many := "/m?" + strings.Repeat("a&", 5000)
	want := []string{"/s?a=1;b=2&c=%zz&d=&e&a=3", "/s?", "/s?%", "/s?a=%ff%00&;&&==", "/s??/../x", many}
	for _, target := range want {
		if got := s.get(target).StatusCode; got != 200 {
			t.Errorf("%.40s: %d, want 200", target, got)
		}
	}
	if diff := cmp.Diff(want, up.targets()); diff != "" {
		t.Error(diff)
	}
}

func TestSpellingsOfAQueryKeyAreTheSameKeyOr400(t *testing.T) {
	up := record(t)
	s := newSite(t, "upstream: "+up.url+"\nrules: [{ name: k, key: query.api_key, missing: reject, limit: 2/h }]\n", nil)
	rows := []struct {
		query string
		want  int
	}{
		{"api_key=k", 200}, {"%61pi_key=k", 200}, {"api_key=k&api_key=other", 429}, {"api%5Fkey=%6b", 429}, {"x=1&api_key=k", 429}, {"&&api_key=k", 429},
		{"api_key=k;x=1", 200}, // ";" is text: the value is "k;x=1"
		{"a=1;api_key=k", 400}, {"api_key=%zz", 400}, {"api_key=k&x=%", 400}, {"api_key", 400}, {"api_key=", 400}, {"api_key=+", 400}, {"API_KEY=k", 400},
		{"api_key=k&" + strings.Repeat("a&", 1000), 400},
		{strings.Repeat("a&", 10_000) + "api_key=k", 414}, // 20 kB
		{"api_key=k+1", 200}, {"api_key=k%201", 200}, {"api_key=k 1", 400},
	}
	passed := 0
	for _, row := range rows {
		if got := s.get("/s?" + row.query).StatusCode; got != row.want {
			t.Errorf("%.40s: %d, want %d", row.query, got, row.want)
		}
		if row.want == 200 {
			passed++
		}
	}
	if got := up.targets(); len(got) != passed || got[1] != "/s?%61pi_key=k" {
		t.Errorf("%d targets at the upstream, want %d, as sent: %q", len(got), passed, got)
	}
	t.Attr("S06", fmt.Sprintf("%d spellings, %d of them other keys", len(rows), passed-2))
}

// TestAbsoluteTargets has targets as a proxy gets them, with the upstream asked for
// their paths and told of their hosts.
func TestAbsoluteTargets(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: []\n", nil)
	for target, want := range map[string]string{
		"http://x.example.com":                  "/",
		"http://x.example.com?q=/a":             "/?q=/a",
		"http://x.example.com/a//b":             "/a//b",
		"http://x.example.com/a?u=http://b/c":   "/a?u=http://b/c",
		"HTTPS://x.example.com:8443/a?u=/://b/": "/a?u=/://b/",
	} {
		if r := s.raw("GET " + target + " HTTP/1.1\nHost: other.example.com\nConnection: close\n\n"); r.StatusCode != 200 {
			t.Errorf("%s: got %d", target, r.StatusCode)
			continue
		}
		seen := s.requests()
		if last := seen[len(seen)-1]; last.RequestURI != want || !strings.HasPrefix(last.Host, "x.example.com") {
			t.Errorf("%s: the upstream was asked for %s of %s, want %s", target, last.RequestURI, last.Host, want)
		}
	}
}
