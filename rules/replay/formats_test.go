package replay

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gateway/limit"
)

// lines are lines of each format as its documentation or the program itself writes
// them, and what they say.
var lines = []struct {
	name, format, line string
	want               string // at, client, method, host, target, status, duration, user, forwarded, user agent
}{
	{
		"Apache common", "common",
		`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
		"2000-10-10T20:55:36Z 127.0.0.1 GET - /apache_pb.gif 200 - frank - -",
	},
	{
		"common of a client that sent nothing", "common",
		`2001:db8::7 - - [10/Oct/2000:13:55:36 +0530] "-" 408 -`,
		"2000-10-10T08:25:36Z 2001:db8::7 none",
	},
	{
		"combined", "combined",
		`203.0.113.9 - - [01/Oct/2026:00:00:01 +0000] "POST /login?next=%2F HTTP/1.1" 401 12 "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"`,
		"2026-10-01T00:00:01Z 203.0.113.9 POST - /login?next=%2F 401 - - - Mozilla/4.08 [en] (Win98; I ;Nav)",
	},
	{
		"combined with escapes", "combined",
		`203.0.113.9 - a b [01/Oct/2026:00:00:01 +0000] "GET /a\x22b\\c HTTP/2.0" 200 - "-" "say \"hi\" \\"`,
		`2026-10-01T00:00:01Z 203.0.113.9 GET - /a"b\c 200 - a b - say "hi" \`,
	},
	{
		"combined of a TLS handshake on a plain port", "combined",
		`203.0.113.9 - - [01/Oct/2026:00:00:01 +0000] "\x16\x03\x01\x02\x00\x01\x00" 400 157 "-" "-"`,
		"2026-10-01T00:00:01Z 203.0.113.9 none",
	},
	{
		"combined with a URL for a target", "combined",
		`203.0.113.9 - - [01/Oct/2026:00:00:01 +0000] "GET http://Shop.example.com:80/a?b HTTP/1.1" 200 1 "-" "-"`,
		"2026-10-01T00:00:01Z 203.0.113.9 GET Shop.example.com:80 /a?b 200 - - - -",
	},
	{
		"combined with more behind it", "combined",
		`203.0.113.9 - - [01/Oct/2026:00:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "curl/8" 0.003 0.002 "upstream 1"`,
		"2026-10-01T00:00:01Z 203.0.113.9 GET - / 200 - - - curl/8",
	},
	{
		"nginx main", "nginx main",
		`10.0.0.3 - - [01/Oct/2026:00:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "curl/8" "198.51.100.7, 203.0.113.9"`,
		"2026-10-01T00:00:01Z 10.0.0.3 GET - / 200 - - 198.51.100.7, 203.0.113.9 curl/8",
	},
	{
		"Apache vhost_combined", "Apache vhost_combined",
		`api.example.com:443 203.0.113.9 - - [01/Oct/2026:00:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "curl/8"`,
		"2026-10-01T00:00:01Z 203.0.113.9 GET api.example.com:443 / 200 - - - curl/8",
	},
	{
		"this gateway", "gateway JSON",
		`{"at":1790812801000000123,"seq":7,"client":"203.0.113.9","peer":"10.0.0.3","method":"GET","host":"api.example.com","path":"/a\"b?x=1","status":200,"bytes":2,"duration":0.001500,"route":"/**","request_id":"x","result":"allowed","cost":1,"settled":1}`,
		`2026-10-01T00:00:01.000000123Z 203.0.113.9 GET api.example.com /a"b?x=1 200 1.5ms - - -`,
	},
	{
		"Caddy", "Caddy JSON",
		`{"level":"info","ts":1790812801.2505,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"203.0.113.9","remote_port":"41342","client_ip":"203.0.113.9","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/caf\u00e9?x=\ud83d\ude00","headers":{"User-Agent":["curl/7.82.0"],"X-Api-Key":["k-1"],"Accept":["*/*"],"X-Forwarded-For":["198.51.100.7"]},"tls":{"resumed":false,"version":772,"server_name":"example.com"}},"bytes_read":0,"user_id":"bob","duration":0.0005,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"X-Cost":["3"]}}`,
		"2026-10-01T00:00:01.25Z 203.0.113.9 GET localhost /café?x=😀 200 500µs bob 198.51.100.7 curl/7.82.0",
	},
	{
		"Caddy before 2.5", "Caddy JSON",
		`{"level":"info","ts":1790812801,"logger":"http.log.access","msg":"handled request","request":{"remote_addr":"203.0.113.9:41342","proto":"HTTP/1.1","method":"GET","host":"localhost:8080","uri":"/","headers":{"User-Agent":["curl/7.82.0"]}},"duration":1.5e-05,"size":10,"status":404}`,
		"2026-10-01T00:00:00.999985Z 203.0.113.9 GET localhost:8080 / 404 15µs - - curl/7.82.0",
	},
	{
		"Traefik JSON", "Traefik JSON",
		`{"ClientAddr":"203.0.113.9:52340","ClientHost":"203.0.113.9","ClientPort":"52340","ClientUsername":"-","DownstreamContentSize":5,"DownstreamStatus":200,"Duration":1234567,"OriginDuration":1000000,"OriginStatus":200,"Overhead":234567,"RequestAddr":"api.example.com","RequestContentSize":0,"RequestCount":1,"RequestHost":"api.example.com","RequestMethod":"GET","RequestPath":"/a?b=c","RequestPort":"-","RequestProtocol":"HTTP/1.1","RequestScheme":"http","RetryAttempts":0,"RouterName":"r@file","StartLocal":"2026-10-01T02:00:01.5+02:00","StartUTC":"2026-10-01T00:00:01.5Z","entryPointName":"web","level":"info","msg":"","request_User-Agent":"curl/8","time":"2026-10-01T02:00:01+02:00"}`,
		"2026-10-01T00:00:01.5Z 203.0.113.9 GET api.example.com /a?b=c 200 1.234567ms - - curl/8",
	},
	{
		"Traefik CLF", "Traefik CLF",
		`203.0.113.9 - - [01/Oct/2026:00:00:01 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl/8" 17 "r@file" "http://10.0.0.1:80" 12ms`,
		"2026-10-01T00:00:01Z 203.0.113.9 GET - /a 200 12ms - - curl/8",
	},
	{
		"Envoy", "Envoy",
		`[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"`,
		"2016-04-15T20:17:00.31Z 10.0.35.28 POST locations /api/v1/locations 204 226ms - - nsq2http",
	},
	{
		"Envoy behind another proxy", "Envoy",
		`[2016-04-15T20:17:00.310Z] "GET / HTTP/1.1" 0 DC 154 0 226 - "198.51.100.7,10.0.35.28" "-" "-" "locations" "-"`,
		"2016-04-15T20:17:00.31Z 10.0.35.28 GET locations / 0 226ms - 198.51.100.7 -",
	},
	{
		"Istio", "Istio",
		`[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default`,
		"2020-11-25T21:26:18.409Z 10.44.1.23 GET httpbin:8000 /status/418 418 3ms - - curl/7.73.0-DEV",
	},
	{
		"HAProxy", "HAProxy HTTP",
		`Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`,
		"2009-02-06T12:14:14.655L 10.0.1.2 GET - /index.html 200 109ms - - -",
	},
	{
		"HAProxy to a file, IPv6, not ended", "HAProxy HTTP",
		`2001:db8::7:33317 [06/Feb/2009:12:14:14.655] http-in~ static/<NOSRV> 10/-1/-1/-1/+8 -1 0 - - CR-- 1/1/1/1/0 0/0 "<BADREQ>"`,
		"2009-02-06T12:14:14.655L 2001:db8::7 none",
	},
	{
		"AWS ALB", "AWS ALB",
		`https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
		"2018-07-02T22:22:48.364Z 192.168.131.39 GET www.example.com:443 /a?b 200 171ms - - curl/7.46.0",
	},
	{
		"AWS ALB without a target", "AWS ALB",
		`http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 - 0.000 -1 -1 502 - 34 366 "- http://www.example.com:80- -" "-" - - - "Root=1-58337364-23a8c76965a2ef7629b185e3" "-" "-" 0 2018-11-30T22:22:48.364000Z "forward" "-" "LambdaInvalidResponse" "-" "-" "-" "-"`,
		"2018-11-30T22:22:48.364Z 192.168.131.39 none",
	},
}

// said writes what a Record says.
func said(r *Record) string {
	at := r.At.Time().Format(time.RFC3339Nano)
	if r.NoRequest {
		return fmt.Sprintf("%s %v none", at, r.Client)
	}
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	duration, agent := "-", "-"
	if r.Duration >= 0 {
		duration = r.Duration.String()
	}
	if v, ok := r.header("User-Agent"); ok {
		agent = v
	}
	return fmt.Sprintf("%s %v %s %s %s %d %s %s %s %s", at, r.Client, r.Method(), dash(r.Host), r.Target, r.Status, duration, dash(r.User), dash(r.Forwarded), agent)
}

// read reads a line as a format.
func read(f *Format, line string) (*Record, error) {
	text := []byte(line)
	r, err := newPageOf(1).read(f, text, &reading{wants: newWanted([]string{"User-Agent", "X-Forwarded-For", "X-Api-Key"}, []string{"X-Cost"})})
	if string(text) != line {
		panic("the line has been written to")
	}
	for i := range text {
		text[i] = '#' // the next line takes its place
	}
	if err != nil {
		return nil, err
	}
	return r, r.check(true)
}

func formatNamed(t testing.TB, name string) *Format {
	for _, f := range newFormats() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no format %s", name)
	return nil
}

func TestEveryFormatIsFoundOutAndRead(t *testing.T) {
	for _, c := range lines {
		t.Run(c.name, func(t *testing.T) {
			found, _ := recognise(newFormats(), [][]byte{[]byte(c.line)}, newWanted(nil, nil))
			if found == nil || found.Name != c.format {
				t.Fatalf("taken for %+v, want %s", found, c.format)
			}
			r, err := read(found, c.line)
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if before, after, ok := strings.Cut(want, "L "); ok { // local time
				at, _ := time.ParseInLocation("2006-01-02T15:04:05.000", before, time.Local)
				want = at.UTC().Format(time.RFC3339Nano) + " " + after
			}
			if got := said(r); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A line that is cut off anywhere says what it said, or is not read.
func TestALineThatIsCutOffSaysNothingElse(t *testing.T) {
	for _, c := range lines {
		f := formatNamed(t, c.format)
		whole, err := read(f, c.line)
		if err != nil {
			t.Fatal(err)
		}
		for n := range c.line {
			if r, err := read(f, c.line[:n]); err == nil && said(r) != said(whole) {
				t.Errorf("%s, the first %d bytes:\ngot  %s\nwant %s", c.name, n, said(r), said(whole))
			}
		}
	}
}

func TestCaddyHoldsHeadersAndAnswers(t *testing.T) {
	r, err := read(formatNamed(t, "Caddy JSON"), lines[10].line)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := r.header("X-Api-Key"); v != "k-1" {
		t.Errorf("X-Api-Key is %q", v)
	}
	if len(r.answers) != 1 || r.answers[0] != (headerValue{"X-Cost", "3"}) {
		t.Errorf("of the answer: %v", r.answers)
	}
}

func TestOurOwnLogTellsOfRules(t *testing.T) {
	line := `{"at":1790812801000000123,"seq":7,"client":"203.0.113.9","peer":"10.0.0.3","method":"GET","path":"/","status":502,"bytes":2,"duration":0.001500,"route":"a","rule":"x,y","dry_run_rule":"z","result":"rejected","cost":1,"settled":1,"answer":0,"client_failed":true,"rules":{"x":{"key":"id:000102030405060708090a0b0c0d0e0f","tier":"premium","cost":2,"said":3,"settled_at":1790812801000000999,"settled_seq":9},"slots":{"settled_at":5,"settled_seq":6}},"count":4}`
	r, err := read(formatNamed(t, "gateway JSON"), line)
	if err != nil {
		t.Fatal(err)
	}
	o := r.Own
	key := limit.Digest{Hi: 0x0001020304050607, Lo: 0x08090a0b0c0d0e0f}
	if o.Rules[0] != (OwnRule{"x", "premium", key, 2, 3, 1790812801000000999, 9}) || o.Rules[1] != (OwnRule{"slots", "", limit.Digest{}, -1, -1, 5, 6}) || len(o.Rules) != 2 {
		t.Errorf("rules: %+v", o.Rules)
	}
	if r.Seq != 7 || r.Count != 4 || o.Rule != "x,y" || o.DryRun != "z" || o.Result != "rejected" || o.Answer != 0 || !o.ClientFailed || o.Route != "a" {
		t.Errorf("%+v", r)
	}
}

func TestPatternsOfNginxAndApache(t *testing.T) {
	const at = "2026-10-01T00:00:01Z"
	for _, c := range []struct{ pattern, line, want string }{
		{
			`$remote_addr [$time_iso8601] "$request" $status $request_time "$http_x_api_key"`,
			`203.0.113.9 [2026-10-01T02:00:01+02:00] "GET /a?b HTTP/1.1" 200 0.012 "k"`,
			at + " 203.0.113.9 GET - /a?b 200 12ms - - -",
		},
		{
			"${msec}|$realip_remote_addr|$remote_addr|$request_method|$host|$uri|$args|$status",
			"1790812801.000|10.0.0.1|2001:db8::1|PUT|api.example.com|/a|b=c|201",
			at + " 2001:db8::1 PUT api.example.com /a?b=c 201 - - - -",
		},
		{
			`%h %l %u %t "%r" %>s %b %D "%{User-agent}i" "%{X-Forwarded-For}i"`,
			`203.0.113.9 - ann [01/Oct/2026:00:00:01 +0000] "GET / HTTP/1.1" 304 - 1500 "curl/8" "198.51.100.7"`,
			at + " 203.0.113.9 GET - / 304 1.5ms ann 198.51.100.7 curl/8",
		},
		{
			"%{%Y-%m-%dT%T%z}t;%a;%m;%U%%;%q;%s;%{ms}T;%V",
			"2026-10-01T00:00:01+0000;203.0.113.9;GET;/a%;?x=y;200;7;example.com",
			at + " 203.0.113.9 GET example.com /a?x=y 200 7ms - - -",
		},
		{"%{msec}t %h \"%r\"", "1790812801000 203.0.113.9 \"GET / HTTP/1.1\"", at + " 203.0.113.9 GET - / 0 - - - -"},
	} {
		f, err := patternFormat(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		r, err := read(f, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := said(r); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.pattern, got, c.want)
		}
	}
}

func TestPatternsThatCannotBeRead(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                               "no address",
		"$remote_addr $request":          "no time",
		"$remote_addr $time_local":       "no request",
		"$time_local $request":           "no address",
		"$remote_addr$time_local":        "nothing tells where $remote_addr ends",
		"${remote_addr [$time_local]":    "no closing brace",
		"$ x":                            "without the name",
		"%h %t \"%r\" %Y":                "unknown directive %Y",
		"%h %{%Q}t \"%r\"":               "unknown %Q",
		"%h %{User-agent \"%r\"":         "no closing brace",
		"%h %":                           "without a directive",
		"%h %{msec_frac}t \"%r\"":        "a part of a time",
		"$remote_addr [$time_local] $id": "no request",
	} {
		if _, err := patternFormat(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", pattern, err, want)
		}
	}
}

func TestClientsAreReadHoweverTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "2001:db8::1": "2001:db8::1", "[2001:db8::1]:443": "2001:db8::1",
		"::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::1", "255.255.255.255": "255.255.255.255",
		"": "", "-": "", "192.0.2": "", "192.0.2.256": "", "192.0.02.1": "", "1.2.3.4.5": "", "host.example.com": "", "[::1": "", ".1.2.3": "", "1..2.3": "",
	} {
		got, err := parseClient([]byte(text))
		if want == "" && err == nil || want != "" && (err != nil || got != netip.MustParseAddr(want)) {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
}

// No line, whatever is in it, breaks a reader; what is read can be decided.
func FuzzLine(f *testing.F) {
	for _, c := range lines {
		f.Add([]byte(c.line))
	}
	set := setOf(f, threeRules)
	formats := newFormats()
	f.Fuzz(func(t *testing.T, line []byte) {
		s := NewRun(set, "")
		for _, format := range formats {
			r, err := read(format, string(line))
			if err != nil {
				continue
			}
			r.page.begin(&File{Name: "log", Format: format})
			if r.Count > 1000 {
				r.more().Count = 1000
			}
			s.Do([]*Record{r}, nil)
		}
		s.Finish()
	})
}
