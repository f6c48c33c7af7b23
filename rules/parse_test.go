package rules

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheFiveLineFileHasTheDefaults(t *testing.T) {
	f := parse(t, "upstream: http://localhost:3000\nrules:\n  - name: per-ip\n    key: ip\n    limit: 100/m\n")
	if len(f.Warnings) > 0 {
		t.Errorf("warnings:\n%v", f.Warnings)
	}
	want := Defaults()
	if len(f.Listen) != 1 || f.Listen[0].Addr != ":8080" || f.Admin.Addr != "127.0.0.1:9900" || f.Admin.Off {
		t.Errorf("listen %v, admin %v", f.Listen, f.Admin)
	}
	if f.Timeouts != want.Timeouts || f.Limits != want.Limits || !reflect.DeepEqual(f.Log, want.Log) || f.MaxKeys != want.MaxKeys || f.MaxMemory != 1<<30 {
		t.Errorf("settings are not the defaults: %+v", f)
	}
	u := f.Upstreams[0]
	if u.Name != "default" || u.Servers[0].URL.String() != "http://localhost:3000" || u.Timeout != time.Minute ||
		u.ConnectTimeout != 2*time.Second || u.IdleTimeout != 4*time.Second || u.Host != "preserve" {
		t.Errorf("upstream %+v", u)
	}
	if len(f.Routes) != 1 || f.Routes[0].Upstream != "default" || f.Routes[0].Name != "/**" || f.Routes[0].Match != nil {
		t.Errorf("routes %+v", f.Routes)
	}
	r := f.Rules[0]
	if r.Name != "per-ip" || r.Rate != (Rate{Permits: 100, Period: time.Minute}) || r.Burst != 100 || r.BurstGiven || r.Algorithm != "token_bucket" ||
		r.MaxKeys != 1_000_000 || r.Reject.Status != 429 || r.MatchText != "/**" || r.LimitPos.String() != "gateway.yaml:5:12" {
		t.Errorf("rule %+v", r)
	}
	if len(f.Hash) != 64 {
		t.Errorf("hash %q", f.Hash)
	}
}

func TestEverySettingIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/good/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for part, n := range settings {
		for _, name := range n {
			if name != "listen" && name != "upstream" && part != partSecret && !strings.Contains(string(data), name) {
				t.Errorf("everything.yaml does not have %s of %s", name, part)
			}
		}
	}
	f, err := goldenOutside.Parse("gateway.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if f.Reject.Jitter != 10 || f.Reject.ContentType != "text/html; charset=utf-8" || f.Reject.Body == "" {
		t.Errorf("reject %+v", f.Reject)
	}
	login := f.Rules[1]
	wantReject := &Reject{Status: 403, Detail: "slow down: {retry_after} s", Headers: []Header{{"X-Why", "{rule}"}}, Jitter: 10}
	if diff := cmp.Diff(wantReject, login.Reject); diff != "" {
		t.Errorf("reject of login (-want +got):\n%s", diff)
	}
	if login.Burst != 0 || !login.DryRun || login.Missing.String() != "reject" || login.Rate != (Rate{Permits: 5, Period: 15 * time.Minute}) {
		t.Errorf("login %+v", login)
	}
	if f.Timeouts.Tunnel != 24*time.Hour || f.Limits != (Limits{32 << 10, 50, 8000, 5000, 20}) || f.ShutdownDelay != 0 || f.Admin.Addr != "0.0.0.0:9901" || !f.Admin.Token.Is("0123456789abcdef0123456789abcdef") ||
		f.MaxKeys != 200_000 || f.Rules[0].MaxKeys != 5000 || f.Rules[2].MaxKeys != 200_000 || f.IPv6Prefix != 56 ||
		f.RateLimitHeaders != "off" || !reflect.DeepEqual(f.Log, Log{"debug", "json", "combined", f.Log.Redact}) {
		t.Errorf("settings %+v", f)
	}
	api := f.Upstreams[0]
	if got := api.Servers[0].URL.String() + " " + api.Servers[1].URL.String(); got != "http://10.0.0.1:8080/base h2c://10.0.0.2:8080" {
		t.Errorf("servers %s", got)
	}
	checkPools(t, f.Upstreams)
	if f.Routes[0].StripPrefix != "/api" || f.Routes[1].Name != "GET /two/**, {path: /two, method: [PUT, POST]}" || f.Routes[8].Upstream != "web" {
		t.Errorf("routes %+v", f.Routes)
	}
	if f.Routes[2].Rewrite.String() != "/new/{path.id}-x/{path.rest}" || *f.Routes[3].Respond != (Respond{410, "<p>gone</p>", "text/html"}) ||
		f.Routes[4].Redirect.Status != 307 || f.Routes[5].Redirect.Status != 308 {
		t.Errorf("routes %+v", f.Routes)
	}
	if r := f.Routes[2]; r.MaxBody != 10<<20 || r.Timeout != 5*time.Minute {
		t.Errorf("route %+v", r)
	}
	if !f.ProxyProtocol {
		t.Error("proxy_protocol is not read")
	}
	if f.Overload != (OverloadSpec{500, 10}) || f.Routes[2].Priority != Critical || f.Routes[3].Priority != Sheddable || f.Routes[0].Priority != Normal {
		t.Errorf("overload %+v, routes %+v", f.Overload, f.Routes)
	}
	if e := f.Routes[2].Request; len(e.Set) != 3 || e.Set[0].Name != "X-Client" || e.Set[2].Value.String() != `{"a": "b"}` || !slices.Equal(e.Remove, []string{"Cookie"}) ||
		!slices.Equal(f.Routes[2].Response.Remove, []string{"Server", "X-Powered-By"}) {
		t.Errorf("headers %+v, %+v", e, f.Routes[2].Response)
	}
	if got := f.Listen[1].Addr + " " + f.Listen[2].Addr; got != "[::1]:8443 localhost:8081" {
		t.Errorf("listen %s", got)
	}
}

// checkPools checks the upstreams of everything.yaml.
func checkPools(t *testing.T, pools []Upstream) {
	t.Helper()
	api, three, four := pools[0], pools[3], pools[4]
	for i, want := range []Server{
		{Weight: 1}, {Weight: 3}, {Weight: 1, Backup: true}, {Weight: 1, Socket: "/run/app.sock"}, {Weight: 1, Socket: "/run/app.sock"},
	} {
		got := api.Servers[i]
		if got.URL = nil; got != want {
			t.Errorf("server %d: %+v, want %+v", i, got, want)
		}
	}
	if u := api.Servers[4].URL; u.String() != "unix:/run/app.sock:/base" || u.EscapedPath() != "/base" {
		t.Errorf("socket with a base path: %v, path %q", u, u.EscapedPath())
	}
	if api.Balance != "hash" || api.Hash.String() != "header.X-Api-Key" || api.Retries != 10 || api.Resolve != 0 || api.MaxConns != 100 {
		t.Errorf("api %+v", api)
	}
	h := api.Health
	if h.Path != "/healthz?full=1" || h.Interval != time.Second || h.Timeout != 500*time.Millisecond ||
		!h.Status.Has(200) || !h.Status.Has(304) || h.Status.Has(302) {
		t.Errorf("health of api %+v", h)
	}
	tls := api.TLS
	if tls.CA.Path != "ca.pem" || tls.Key.Path != "/etc/gateway/gateway.key" || tls.ServerName != "api.example.com" || tls.Insecure {
		t.Errorf("tls of api %+v", tls)
	}
	if three.Servers[1].URL.String() != "unix:/run/b.sock" || three.Balance != "random" || three.Resolve != time.Minute ||
		three.Retries != 1 || three.Health != (Health{Path: "/", Interval: 5 * time.Second, Timeout: 2 * time.Second, Status: h2xx()}) {
		t.Errorf("three %+v", three)
	}
	if four.Balance != "round_robin" || !four.TLS.Insecure || four.Resolve != 10*time.Second || four.Health != (Health{}) {
		t.Errorf("four %+v", four)
	}
}

// h2xx is the statuses 200 to 299.
func h2xx() (s Statuses) {
	for code := 200; code < 300; code++ {
		s[(code-100)/64] |= 1 << ((code - 100) % 64)
	}
	return s
}

func TestEverySettingOfAPoolMakesAnother(t *testing.T) {
	pool := func(setting string) *Upstream {
		return &parse(t, "upstreams: { api: { servers: [https://a, https://b], "+setting+" } }\nrules: []\n").Upstreams[0]
	}
	plain := pool("")
	if !plain.Equal(pool("balance: least_conn, retries: 1, resolve: 10s, max_conns: 0, connect_timeout: 2s")) {
		t.Error("the defaults written out are another pool")
	}
	seen := []*Upstream{plain}
	for _, setting := range []string{
		"balance: random", "balance: { hash: ip }", "balance: { hash: host }", "health: /", "health: { path: /, interval: 3s }",
		"health: { path: /, timeout: 1s }", "health: { path: /, status: 204 }", "timeout: 1s", "connect_timeout: 1s", "idle_timeout: 1s",
		"retries: 0", "resolve: 0", "max_conns: 1", "host: upstream", "transport: net_http", "tls: { ca: a }", "tls: { server_name: a }", "tls: { cert: a, key: b }",
		"tls: { cert: a, key: c }", "tls: { insecure: true }",
	} {
		u := pool(setting)
		for i, other := range seen {
			if u.Equal(other) || other.Equal(u) {
				t.Errorf("%s is the same as number %d", setting, i)
			}
		}
		seen = append(seen, u)
	}
	for _, servers := range []string{
		"[https://a]", "[https://b, https://a]", "[https://a, { url: https://b, weight: 2 }]", "[https://a, { url: https://b, backup: true }]",
		"[https://a, unix:/b]",
	} {
		u := parse(t, "upstreams: { api: { servers: "+servers+" } }\nrules: []\n").Upstreams[0]
		if plain.Equal(&u) {
			t.Errorf("%s are the same servers", servers)
		}
	}
}

func TestFilesAreFoundFromTheFolderOfTheFile(t *testing.T) {
	for name, want := range map[string]string{"/etc/gateway/g.yaml": "/etc/gateway/ca.pem", "g.yaml": "ca.pem", "../g.yaml": "../ca.pem"} {
		f, err := Parse(name, []byte("upstreams: { api: { servers: https://a, tls: { ca: ca.pem } } }\nrules: []\n"))
		if err != nil {
			t.Fatal(err)
		}
		ca := f.Upstreams[0].TLS.CA
		if ca.Path != want {
			t.Errorf("%s: %s, want %s", name, ca.Path, want)
		}
		got := ca.Error("no such thing", "write one").Text()
		if text := name + ":1:52: no such thing\n   1 | upstreams: { api: { servers: https://a, tls: { ca: ca.pem } } }\n" +
			"     | " + strings.Repeat(" ", 51) + "^^^^^^  write one"; got != text {
			t.Errorf("got\n%s\nwant\n%s", got, text)
		}
	}
}

func TestARouteNeedsNoNameOfTheOnlyUpstream(t *testing.T) {
	f := parse(t, "upstreams: {api: http://a}\nroutes: [{match: /a/**}, {}]\nrules: []\n")
	if f.Routes[0].Upstream != "api" || f.Routes[1].Upstream != "api" {
		t.Errorf("routes %+v", f.Routes)
	}
}

// What cannot be in testdata, because it is no text or very large.
func TestFilesThatAreNoTextAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ data, want string }{
		"empty":         {"", "f.yaml:1: the file is empty; it needs an upstream and rules"},
		"comments only": {"# nothing\n", "f.yaml:1: the file is empty; it needs an upstream and rules"},
		"null":          {"null\n", "f.yaml:1: the file is empty; it needs an upstream and rules"},
		"2 MiB + 1":     {strings.Repeat("#", maxFile+1), "f.yaml: the file is larger than 2 MiB, which is the most"},
		"UTF-16":        {"\xff\xfeu\x00p\x00", "f.yaml:1: the file is UTF-16, not UTF-8"},
		"UTF-16BE":      {"\xfe\xff\x00u\x00p", "f.yaml:1: the file is UTF-16, not UTF-8"},
		"UTF-16 naked":  {"u\x00p\x00", "f.yaml:1:2: a NUL; this is no text file, or it is UTF-16"},
		"latin 1":       {"a: b\nc: \xe4\n", "f.yaml:2:4: byte 0xe4 is not UTF-8"},
		"escape":        {"a: \x1b[31m\n", "f.yaml:1:4: control character U+001B"},
		"delete":        {"a: \x7f\n", "f.yaml:1:4: control character U+007F"},
	} {
		_, err := Parse("f.yaml", []byte(tt.data))
		list, ok := err.(ErrorList)
		if !ok || len(list) != 1 || list[0].Error() != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// hostile are inputs made to take time or memory, none over 2 MiB.
func hostile() map[string]string {
	fill := func(begin, again, end string) string {
		return begin + strings.Repeat(again, (maxFile-len(begin)-len(end))/len(again)) + end
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	const head = "upstream: http://a\nrules:\n"
	return map[string]string{
		"flow list":        fill("[", "a,", "]"),
		"open brackets":    fill("", "[", ""),
		"open maps":        fill("", "{a: ", ""),
		"closed brackets":  strings.Repeat("[", 40_000) + strings.Repeat("]", 40_000),
		"dashes":           fill("", "- ", ""),
		"dash lines":       fill("", "-\n", ""),
		"null keys":        fill("", "a:\n", ""),
		"flow keys":        fill("{", "a,", "}"),
		"questions":        fill("", "? ", ""),
		"comments":         fill("", "#\n", "a: 1\n"),
		"line comments":    fill("", "a: #x\n", ""),
		"item comments":    fill("", "- a #x\n#y\n", ""),
		"deep comments":    fill("", "- #a\n", ""),
		"flow comments":    fill("[", "a,#x\n", "]"),
		"a long quote":     fill(`a: "`, "a ", `"`),
		"an open quote":    fill(`a: "`, "a: b ", ""),
		"long plain":       fill("a: ", "b ", ""),
		"many lines":       fill("a: ", "b\n  ", ""),
		"colons":           fill("", "a:", ""),
		"anchors":          fill("", "- &a a\n", ""),
		"aliases":          fill("- &a [b, c]\n", "- *a\n", ""),
		"billion laughs":   bomb,
		"laughs as rules":  bomb + head + "  - *z\n",
		"self":             "a: &a [*a, *a]\nrules: *a\n",
		"tags":             fill("", "- !a b\n", ""),
		"percents":         fill("", "%", ""),
		"directives":       fill("", "%TAG ! a\n", ""),
		"documents":        fill("", "---\n", ""),
		"empty rules":      fill(head, "- {}\n", ""),
		"unknown settings": fill(head, "- {aaaaaaaaaaaaaaaaaaaaaaaaaaa: b}\n", ""),
		"good rules":       manyRules(fill, head),
		"bad rates":        fill(head, "- {limit: 100/fortnigh}\n", ""),
		"long addresses":   fill("upstream: http://a\nrules: []\ntrusted_proxies:\n", "- 203.0.113.111\n", ""),
		"bad addresses":    fill("upstream: http://a\nrules: []\ntrusted_proxies:\n", "- 203.0.113.1111\n", ""),
		"routes":           fill("upstreams: {a: http://a}\nrules: []\nroutes:\n", "- {match: /a/**}\n", ""),
		"long number":      fill(head+"- {name: a, limit: ", "9", "/m}\n"),
		"long fraction":    fill(head+"- {name: a, limit: 0.", "9", "/m}\n"),
		"long pattern":     fill(head+"- {name: a, limit: 1/m, match: ", "/a", "}\n"),
		"stars":            fill(head+"- {name: a, limit: 1/m, match: {host: \"", "*a", "\"}}\n"),
		"one long line":    fill("{a: {", "ä: b, ", "}}"),
		"many keys":        manyKeys(),
		"servers":          numbered("upstream:\n", "- http://a:80/%d\n", "rules: []\n"),
		"upstreams":        numbered("rules: []\nupstreams:\n", "  a%d: http://a\n", "routes:\n"+strings.Repeat("- {upstream: b}\n", 10_000)),
		"headers":          numbered("upstream: http://a\nrules: []\nreject:\n  headers:\n", "    X-%d: a\n", ""),
		"key parts":        numbered(head+"- name: a\n  limit: 1/m\n  key:\n", "  - header.X-%d\n", ""),
		"two large matches": numbered(head+"- {name: b, limit: 2/m, key: host, match: ["+strings.Repeat("/b, ", maxPatterns)+"]}\n"+
			"- name: a\n  key: header.X\n  limit: 1/m\n  match:\n", "  - /a/%d/*\n", ""),
		"groups":              "upstream: http://a\ngroups:\n" + lines(10_000, "  g%d: {ip: 1.1.1.1}\n") + "rules:\n- name: a\n  limit: 1/m\n  match:\n    group:\n" + lines(5_000, "    - h%d\n"),
		"too many groups":     "upstream: http://a\ngroups:\n" + lines(30_000, "  g%d: {ip: 1.1.1.1}\n") + "rules:\n- name: a\n  limit: 1/m\n  match:\n    group:\n" + lines(5_000, "    - h%d\n"),
		"members":             "upstream: http://a\nrules: []\ngroups:\n  g:\n" + lines(40_000, "    header.X-%d: a\n"),
		"values":              "upstream: http://a\nrules: []\ngroups:\n  g:\n    header.X:\n" + lines(60_000, "    - a%d\n"),
		"values with stars":   "upstream: http://a\nrules: []\ngroups:\n  g:\n    header.X:\n" + lines(50_000, "    - \"*a%d*\"\n"),
		"tiers":               "upstream: http://a\ngroups: {g: {ip: 1.1.1.1}}\nrules:\n- name: a\n  limit: 1/m\n  tiers:\n" + lines(25_000, "    g%d: {limit: 2/m}\n"),
		"known":               "upstream: http://a\ngroups: {g: {ip: 1.1.1.1}}\nrules:\n- name: a\n  limit: 1/m\n  known:\n" + lines(60_000, "  - g%d\n"),
		"nots":                head + "- {name: a, limit: 1/m, match: " + strings.Repeat("{not: ", 28) + "/a" + strings.Repeat("}", 28) + "}\n",
		"a large not":         head + "- name: a\n  limit: 1/m\n  match:\n    not:\n" + lines(9_000, "    - /b/%d/*\n") + "    path:\n" + lines(9_000, "    - /a/%d/*\n"),
		"bad items in a line": fill("upstream: http://a\nrules: []\nexempt: [", "ä, ", "]\n"),
		"spaces":              fill("", " ", "a"),
		"tabs":                fill("a:\n", "\t", "b: c\n"),
		"indented":            indented(),
	}
}

// numbered repeats a line with a number in it until the file is nearly full.
func numbered(begin, line, end string) string {
	var b strings.Builder
	b.WriteString(begin)
	for i := 0; b.Len() < maxFile-len(end)-60; i++ {
		fmt.Fprintf(&b, line, i)
	}
	return b.String() + end
}

// lines repeats a line with a number in it.
func lines(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

func manyKeys() string {
	var b strings.Builder
	b.WriteString("{")
	for i := 0; b.Len() < maxFile-60; i++ {
		fmt.Fprintf(&b, "ä%d: {a: b}, ", i)
	}
	return b.String() + "}"
}

func manyRules(fill func(string, string, string) string, head string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := 0; b.Len() < maxFile-60; i++ {
		fmt.Fprintf(&b, "- {name: r%d, key: header.X, limit: 5/h}\n", i)
	}
	return b.String()
}

func indented() string {
	var b strings.Builder
	for i := 0; b.Len()+i+4 < maxFile; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestNoFileTakesLongOrMuchMemory(t *testing.T) {
	if underRace {
		t.Skip("one goroutine, and its cost is measured: runs without the race detector")
	}
	// What is no longer needed does not count, and a busy machine is late to find it.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	for name, data := range hostile() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			peak := make(chan uint64)
			stop := make(chan struct{})
			runtime.GC()
			go func() { peak <- watchHeap(stop) }()
			start := processorTime()
			f, err := Parse("f.yaml", []byte(data))
			took := processorTime() - start
			close(stop)
			heap := <-peak
			t.Logf("heap %d MiB, %v", heap>>20, took)
			if heap > 128<<20 {
				t.Errorf("the heap grew to %d MiB", heap>>20)
			}
			if took > 4*time.Second { // 1 s is the aim; on a busy machine processors are slower
				t.Errorf("took %v of processor time", took)
			}
			if err == nil && f == nil {
				t.Error("neither a file nor an error")
			}
			if list, _ := err.(ErrorList); len(list) > maxShown+1 || len(list.Error()) > 1<<20 {
				t.Errorf("%d errors in %d bytes", len(list), len(list.Error()))
			}
		})
	}
}

// processorTime returns the time that processors have spent on this process, which
// other processes do not lengthen.
func processorTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap returns how much more than at its start the heap held at most.
func watchHeap(stop <-chan struct{}) uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	start, peak := m.HeapAlloc, uint64(0)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return peak
		case <-tick.C:
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > start {
				peak = max(peak, m.HeapAlloc-start)
			}
		}
	}
}

func FuzzParseGivesAFileThatCompilesOrErrors(f *testing.F) {
	for _, dir := range []string{"testdata/good/", "testdata/bad/"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range entries {
			data, err := os.ReadFile(dir + e.Name())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		file, err := Parse("f.yaml", data)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if err != nil {
			list, ok := err.(ErrorList)
			if !ok || len(list) == 0 || file != nil {
				t.Fatalf("%T of %d, file %v", err, len(list), file)
			}
			checkErrors(t, list)
			return
		}
		checkErrors(t, file.Warnings)
		file, err = file.ReadGroups(nil, func(string) ([]byte, error) { return []byte("192.0.2.1\n"), nil })
		if err != nil {
			t.Fatalf("accepted, but the groups are not: %v", err)
		}
		set, err := file.Compile(nil)
		if err != nil {
			t.Fatalf("accepted, but: %v", err)
		}
		if len(data) < 4<<10 {
			completed(t, Outside{}, file)
		}
		again, err := file.Compile(set)
		if err != nil || !again.Change(set).Empty() {
			t.Fatalf("the same file changes %v, %v", again.Change(set), err)
		}
		facts := request("192.0.2.1")
		set.Match(facts, nil)
		set.Route(facts)
		for _, r := range set.Rules {
			r.Describe()
		}
	})
}

// checkErrors checks that errors are sorted, in the file and one line each.
func checkErrors(t *testing.T, list ErrorList) {
	t.Helper()
	for i, e := range list {
		if i > 0 && i < maxShown && list[i-1].Pos.compare(e.Pos) > 0 {
			t.Errorf("%v comes before %v", list[i-1], e)
		}
		if strings.ContainsAny(e.Error(), "\n\r\x00\x1b") || strings.Count(e.Text(), "\n") > 2 || e.Msg == "" || e.Len < 1 {
			t.Errorf("error %q, length %d", e.Text(), e.Len)
		}
	}
}

func TestNothingOfAFileIsAlive(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type, string)
	visit = func(typ reflect.Type, path string) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Chan, reflect.Func, reflect.Interface, reflect.UnsafePointer:
			t.Errorf("%s is a %v", path, typ)
		case reflect.Pointer, reflect.Slice, reflect.Array:
			visit(typ.Elem(), path)
		case reflect.Map:
			visit(typ.Key(), path)
			visit(typ.Elem(), path)
		case reflect.Struct:
			if pkg := typ.PkgPath(); pkg == "sync" || pkg == "sync/atomic" || pkg == "net/http" || pkg == "gateway/limit" {
				t.Errorf("%s is a %v", path, typ)
				return
			}
			if typ.PkgPath() == "net/netip" { // plain data, with an interned zone
				return
			}
			for i := range typ.NumField() {
				visit(typ.Field(i).Type, path+"."+typ.Field(i).Name)
			}
		}
	}
	visit(reflect.TypeFor[File](), "File")
	if !seen[reflect.TypeFor[Pattern]()] || !seen[reflect.TypeFor[Upstream]()] {
		t.Error("the types of matches and upstreams were not looked at")
	}
}

func TestErrorsNameTheRuleTheyAreIn(t *testing.T) {
	_, err := Parse("gateway.yaml", []byte("upstream: http://a\nrules:\n- {name: a, limit: 1}\n- {name: b, limit: 1/m, burst: 0}\nlog: {level: x}\n"))
	var got []string
	for _, e := range err.(ErrorList) {
		got = append(got, e.Rule)
	}
	if want := []string{"a", "b", ""}; !slices.Equal(got, want) {
		t.Errorf("rules %q, want %q", got, want)
	}
}

func TestOfManyErrorsTheFirstAreShown(t *testing.T) {
	const head = "upstream: http://a\nrules: []\nexempt:\n"
	for n, want := range map[int]string{
		100:  "",
		101:  "f.yaml: 1 error more; these are the first 100",
		150:  "f.yaml: 50 errors more; these are the first 100",
		5000: "f.yaml: 4900 errors more; these are the first 100",
	} {
		_, err := Parse("f.yaml", []byte(head+strings.Repeat("- x\n", n)))
		list := err.(ErrorList)
		last := ""
		if len(list) > 100 {
			last = list[100].Error()
		}
		if last != want || len(list) > 101 || list.Count() != fmt.Sprint(n, " errors") {
			t.Errorf("%d errors: %d are shown, the last is %v, and %s are counted", n, len(list), list[len(list)-1], list.Count())
		}
		if list[99].Pos.Line != 103 {
			t.Errorf("the hundredth is at %v", list[99].Pos)
		}
	}
	var b strings.Builder
	b.WriteString("upstream: http://a\nrules:\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "- {name: a%d, limt: 1/m, limit: 1}\n", i)
	}
	_, err := Parse("f.yaml", []byte(b.String()))
	if list := err.(ErrorList); list.Count() != "6000 errors" || len(list) != 101 {
		t.Errorf("%s, %d shown", list.Count(), len(list))
	}
	_, err = Parse("f.yaml", []byte(strings.ReplaceAll(b.String(), ", limit: 1", "")))
	if list := err.(ErrorList); list.Count() != "3000 errors" {
		t.Errorf("%s; the last but one is %v", list.Count(), list[99])
	}
	f := parse(t, strings.NewReplacer("limt: 1/m, limit: 1", "key: header.X, limit: 1/m").Replace(b.String()))
	if got := f.Warnings; got.Count() != "3000 warnings" || got[100].Error() != "gateway.yaml: warning: 2900 warnings more; these are the first 100" {
		t.Errorf("%s; the last is %v", got.Count(), got[len(got)-1])
	}
}

func TestAFaultThatAliasesRepeatIsReportedOnce(t *testing.T) {
	_, err := Parse("f.yaml", []byte("upstream: http://a\nrules:\n- {name: a, limit: &l 100}\n- {name: b, limit: *l}\n"))
	if list, _ := err.(ErrorList); len(list) != 1 || list[0].Error() != `f.yaml:3:23: limit "100": 100 in how long?` {
		t.Errorf("got:\n%v", err)
	}
}

func TestTheAdminListenerIsFoundInABrokenFileToo(t *testing.T) {
	for text, want := range map[string]Admin{
		"upstream: http://a\nrules: [{ name: x, limt: 1/s }]\nadmin: 127.0.0.1:1234\n": {Addr: "127.0.0.1:1234"},
		"admin: off\nrules: 7\n":          {Off: true},
		"admin: { listen: '[::1]:99' }\n": {Addr: "[::1]:99"},
		"admin: { listen: '[::]:99' }\n":  {Addr: "127.0.0.1:9900"}, // it wants a token
		"admin: {}\n":                     {Addr: "127.0.0.1:9900"},
		"admin: nonsense\n":               {Addr: "127.0.0.1:9900"},
		"upstream: http://a\nrules: []\n": {Addr: "127.0.0.1:9900"},
		"a: [\n":                          {Addr: "127.0.0.1:9900"},
		"":                                {Addr: "127.0.0.1:9900"},
	} {
		got := Outside{}.FindAdmin("gateway.yaml", []byte(text))
		got.Pos = Pos{}
		if got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
