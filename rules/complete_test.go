package rules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sameFile compares what two files mean, wherever in them it stands.
func sameFile(a, b *File) string {
	places := []string{"Pos", "LimitPos", "KeyPos", "Len", "excerpt", "caret", "Hash", "data", "settings", "Warnings", "BurstGiven", "origin", "sum", "included", "listed"}
	return cmp.Diff(a, b, cmp.Exporter(func(reflect.Type) bool { return true }), cmp.FilterPath(func(p cmp.Path) bool {
		field, ok := p.Last().(cmp.StructField)
		return ok && slices.Contains(places, field.Name())
	}, cmp.Ignore()))
}

// completed returns the text of all settings of f, which must be a file that means
// the same, in YAML and in JSON, but for what is masked.
func completed(t testing.TB, o Outside, f *File) string {
	t.Helper()
	var text string
	for _, asJSON := range []bool{true, false} {
		data, err := f.all(o, asJSON, false)
		if err != nil {
			t.Fatal(err)
		}
		text = string(data)
		again, err := o.Parse(f.Name, data)
		if err != nil {
			t.Fatalf("the settings of %s are refused:\n%v\n%s", f.Name, err, data)
		}
		if diff := sameFile(f, again); diff != "" {
			t.Fatalf("%s, JSON %v (-the file +its settings):\n%s\n%s", f.Name, asJSON, diff, data)
		}
		for _, w := range again.Warnings {
			if !slices.ContainsFunc(f.Warnings, func(v *Error) bool { return v.Msg == w.Msg || strings.Contains(w.Msg, "this route is never reached") }) {
				t.Fatalf("%s: the settings are warned of: %v\n%s", f.Name, w, data)
			}
		}
		if twice, err := again.all(o, asJSON, false); err != nil || string(twice) != text {
			t.Fatalf("the settings of the settings differ: %v\n%s", err, cmp.Diff(text, string(twice)))
		}
		shown, err := f.Settings(o, asJSON)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Parse(f.Name, shown); err != nil {
			t.Fatalf("masked they are refused:\n%v\n%s", err, shown)
		}
		if asJSON && !json.Valid(data) {
			t.Fatalf("this is no JSON:\n%s", data)
		}
	}
	return text
}

func TestSettingsAreAFileThatMeansTheSame(t *testing.T) {
	paths, _ := filepath.Glob("testdata/good/*.yaml")
	if len(paths) < 8 {
		t.Fatalf("%d files in testdata/good; something is missing", len(paths))
	}
	for _, path := range append(paths, "../gateway.example.yaml", "../cmd/gateway/demo.yaml") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == "demo.yaml" {
			data = append([]byte("upstream: http://a\n"), data...)
		}
		f, err := goldenOutside.Parse(path, data)
		if err != nil {
			t.Fatal(err)
		}
		completed(t, goldenOutside, f)
	}
}

// Every setting of the format is in the settings of a file that has every part.
func TestSettingsHaveAllDefaults(t *testing.T) {
	for p, n := range settings {
		var listed []string
		for _, d := range presets[p] {
			listed = append(listed, d.name)
		}
		listed = slices.Concat(listed, unset[p], dependent[p])
		slices.Sort(listed)
		known := slices.Sorted(slices.Values(n.known))
		if diff := cmp.Diff(known, listed); diff != "" {
			t.Errorf("presets, unset and dependent of %s do not list each of its settings once (-settings +listed):\n%s", p, diff)
		}
	}
	f := parse(t, `upstreams: { api: { servers: https://a, health: /h, tls: {} } }
routes: [{ match: /a/**, respond: { body: x } }, { match: /b/**, redirect: { to: /c } }, {}]
overload: { max_in_flight: 10 }
admin: {}
groups: { g: { ip: 10.0.0.1 } }
rules:
  - { name: a, limit: 100/m, tiers: { g: { limit: 200/m } }, cost: { header: X-Cost } }
  - { name: b, limit: 5/m, algorithm: fixed_window, refund: { status: 5xx }, reject: { body: no } }
  - { name: c, concurrency: 7 }
`)
	const want = `version: 1
listen: ":8080"
upstreams:
  api:
    servers: [{ url: https://a, weight: 1, backup: false }]
    balance: least_conn
    health: { path: /h, interval: 5s, timeout: 2s, status: 2xx }
    timeout: 60s
    connect_timeout: 2s
    idle_timeout: 4s
    retries: 1
    resolve: 10s
    max_conns: 0
    host: preserve
    tls: { insecure: false }
    transport: direct
routes:
  - match: /a/**
    respond: { status: 200, body: x, content_type: "text/plain; charset=utf-8" }
    priority: normal
  - match: /b/**
    redirect: { to: /c, status: 308 }
    priority: normal
  - { upstream: api, priority: normal }
rules:
  - name: a
    key: ip
    limit: 100/m
    burst: 100
    algorithm: token_bucket
    missing: ip
    max_keys: 1000000
    dry_run: false
    cost: { header: X-Cost, reserve: 1, max: 100 }
    fail: local
    tiers:
      g: { limit: 200/m, burst: 200 }
  - name: b
    key: ip
    limit: 5/m
    algorithm: fixed_window
    missing: ip
    max_keys: 1000000
    dry_run: false
    reject: { body: "no", content_type: "text/plain; charset=utf-8" }
    cost: 1
    refund: { status: 5xx, upstream_error: false }
    fail: local
  - name: c
    key: ip
    missing: ip
    max_keys: 1000000
    dry_run: false
    concurrency: 7
    fail: local
trusted_proxies: []
ipv6_prefix: 64
ratelimit_headers: draft-11
reject: { status: 429, jitter: 0% }
timeouts: { read_header: 10s, read: 30s, write: 30s, idle: 120s, tunnel: 1h }
limits:
  header_bytes: 64KiB
  headers: 100
  url: 16KiB
  connections: auto
  connections_per_ip: none
shutdown_timeout: 30s
shutdown_delay: 0s
admin: { listen: "127.0.0.1:9900" }
log: { level: info, format: auto, access: auto, redact: [] }
max_keys: 1000000
max_memory: 1GiB
store: memory
overload: { max_in_flight: 10, reserve: 20% }
proxy_protocol: false
groups:
  g: { ip: 10.0.0.1 }
body_limit: 64KiB
paths: strict
state: off
`
	if diff := cmp.Diff(want, completed(t, Outside{}, f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSettingsDoNotShowSecrets(t *testing.T) {
	const stray = "zq7xwkv9p-zq7xwkv9p"
	o := outsideOf(map[string]string{"STRAY": stray, "HOW_MANY": "5_000", "RATE": "7/m", "LEVEL": "debug"}, map[string]string{"token": stray})
	for token, shown := range map[string]string{
		"{ file: token }": "token: { file: token }", "{ env: STRAY }": "token: { env: STRAY }", "'${STRAY}'": `token: "${STRAY}"`, stray: `token: "***"`,
	} {
		f, err := o.Parse("gateway.yaml", []byte(`upstreams: { api.token: http://a }
admin: { token: `+token+` }
max_keys: ${HOW_MANY}
log: { level: "${LEVEL}" }
groups:
  premium: { header.X-Key: [`+stray+`, "sha256:`+strings.Repeat("ab", 32)+`"], ip: [192.0.2.7] }
  office: { cookie.session: `+stray+`, query.token: `+stray+`, header.X-Plan: gold }
block: { header.Authorization: "`+stray+`*", header.User-Agent: "*bot*" }
routes:
  - headers: { request: { set: { authorization: Bearer `+stray+`, X-Internal-Token: `+stray+`, X-Plain: shown, X-From: "a ${STRAY}" } } }
reject: { detail: "$${x} costs $5, $$$$ or ${STRAY}" }
rules:
  - { name: a, key: header.X-Key, limit: "${RATE}" }
  - { name: b, match: { group: [premium, office] }, limit: 1/m }
`))
		if err != nil {
			t.Fatal(err)
		}
		for _, asJSON := range []bool{false, true} {
			data, err := f.Settings(o, asJSON)
			if err != nil || strings.Contains(string(data), "zq7x") {
				t.Errorf("%s, JSON %v: %v\n%s", token, asJSON, err, data)
			}
		}
		data, _ := f.Settings(o, false)
		for _, text := range []string{
			shown, "max_keys: 5_000", "level: debug", "limit: 7/m", "sha256:" + strings.Repeat("ab", 32), "192.0.2.7", "gold", "url: http://a,", `"*bot*"`, "X-Plain: shown",
			`"a ${STRAY}"`, `"$${x} costs $5, $$$$ or ${STRAY}"`, `authorization: "***"`,
		} {
			if !strings.Contains(string(data), text) {
				t.Errorf("%s is not in\n%s", text, data)
			}
		}
	}
	f := withToken(t, o, "'${STRAY}'")
	if _, err := f.Settings(Outside{}, false); err == nil {
		t.Error("no error when a variable has gone")
	}
}

// Any text of a file comes back as it was.
func TestSettingsKeepEveryText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"null", "~", "true", "No", "on", "1", "1.0", "0x1f", "1_000", "2026-01-01", "1e3", ".inf", "-", "?", "!x", "&a", "*a", "%", "@a", "`", "'", `"`,
			"a: b", "a #b", " a", "a ", "a\nb", "a\r\nb", "\t", "{a}", "[a]", "a,b", "---", "...", ":8080", "a:", "$", "$$", "$${", "${A}", "\\", "\u2028", "\ufeff",
			"\u0085", "é", "<<", "=", "|", ">", "12:30:45", "0b1", "0o7", "🎈", "\u202e", "\U000e0001",
		})).Filter(func(s string) bool {
			return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0xfffd })
		})
		body, value := word.Draw(t, "body"), word.Draw(t, "value")
		if strings.ContainsAny(value, "\n\r") {
			value = ""
		}
		dollars := strings.NewReplacer("$", "$$")
		text := "upstream: http://a\nrules: []\nreject:\n  body: " + doubleQuoted(dollars.Replace(body)) + "\n  headers: { X-A: " + doubleQuoted(dollars.Replace(value)) + " }\n"
		f, err := Parse("f.yaml", []byte(text))
		if err != nil {
			t.Skip(err.Error())
		}
		if body != "" && f.Reject.Body != body || f.Reject.Headers[0].Value != value {
			t.Fatalf("%q and %q are read as %q and %q from\n%s", body, value, f.Reject.Body, f.Reject.Headers[0].Value, text)
		}
		for _, asJSON := range []bool{false, true} {
			data, err := f.Settings(Outside{}, asJSON)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse("f.yaml", data)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			if diff := sameFile(f, again); diff != "" {
				t.Fatalf("%s\n%s", diff, data)
			}
		}
	})
}
