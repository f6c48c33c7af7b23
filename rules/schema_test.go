package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"
)

// schemaVerdict returns why an editor that knows the schema and YAML, and nothing of
// ours, would mark a file; nil if it would not.
func schemaVerdict(schema *jsonschema.Schema, data []byte) error {
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return err
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func compiledSchema(t testing.TB) *jsonschema.Schema { return compileSchema(t, Schema()) }

func compileSchema(t testing.TB, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("gateway.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("gateway.schema.json") // validated with the schema of draft-07
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// The schema that editors are given is the one that this version has.
func TestTheCommittedSchemaIsTheOneOfTheDecoder(t *testing.T) {
	committed, err := os.ReadFile("gateway.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), string(Schema())); diff != "" {
		t.Errorf("run go generate ./... (-committed +of this version):\n%s", diff)
	}
}

func TestEverySettingSaysWhatItIsFor(t *testing.T) {
	explanations := manual()
	for p, n := range settings {
		for _, name := range n {
			i := slices.IndexFunc(explanations[p], func(e manualEntry) bool { return e.name == name })
			switch {
			case i < 0:
				t.Errorf("setting %q of %s has no line in manualfile.go or manualrule.go", name, p)
			case !strings.HasSuffix(explanations[p][i].help, ".") || explanations[p][i].says == "":
				t.Errorf("setting %q of %s is explained by %q, %q", name, p, explanations[p][i].says, explanations[p][i].help)
			}
		}
		for _, e := range explanations[p] {
			if !slices.Contains(p.names(), e.name) {
				t.Errorf("%s has no setting %q to explain", p, e.name)
			}
		}
	}
}

func TestTheManualHasEverySetting(t *testing.T) {
	want, got := 0, 0
	for _, n := range settings {
		want += len(n)
	}
	for _, s := range Manual() {
		got += len(s.List)
	}
	if got != want {
		t.Errorf("%d settings, want %d: inside and items in defaults.go say where a part stands", got, want)
	}
}

func TestTheSchemaTakesEveryGoodFile(t *testing.T) {
	schema := compiledSchema(t)
	paths, _ := filepath.Glob("testdata/good/*.yaml")
	for _, pattern := range []string{"../*.yaml", "../contrib/*.gateway.yaml", "../cmd/gateway/testdata/*.yaml"} {
		more, _ := filepath.Glob(pattern)
		paths = append(paths, more...)
	}
	if len(paths) < 10 {
		t.Fatalf("%d good files; something is missing", len(paths))
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemaVerdict(schema, data); err != nil {
			t.Errorf("%s is refused: %v", path, err)
		}
		f, err := goldenOutside.Parse(path, data)
		if err != nil {
			t.Fatal(err)
		}
		if all := completed(t, goldenOutside, f); schemaVerdict(schema, []byte(all)) != nil {
			t.Errorf("all settings of %s are refused: %v\n%s", path, schemaVerdict(schema, []byte(all)), all)
		}
	}
}

// The schema of included files and the decoder give one verdict on what they may have.
func TestTheSchemaOfIncludedFiles(t *testing.T) {
	schema := compileSchema(t, IncludedSchema())
	const whole = "upstreams: { default: http://localhost:3000 }\ninclude: part.yaml\n"
	for part, good := range map[string]bool{
		"rules: [{ name: a, limit: 1/s }]":                                           true,
		"groups: { vip: { ip: 192.0.2.1 } }\nrules: []":                              true,
		"upstreams: { b: http://localhost:1 }\nroutes: [{ match: /b, upstream: b }]": true,
		"rules: [{ name: a, limt: 1/s }]":                                            false,
		"rules: { name: a }":                                                         false,
		"upstream: http://localhost:1":                                               false,
		"listen: :80":                                                                false,
		"include: more.yaml":                                                         false,
		"rule: []":                                                                   false,
		"- rules":                                                                    false,
	} {
		o := goldenOutside
		o.Include = func(string) []Included { return []Included{{Path: "part.yaml", Data: []byte(part)}} }
		_, err := o.Parse("gateway.yaml", []byte(whole))
		if marked := schemaVerdict(schema, []byte(part)); (err == nil) != good || (marked == nil) != good {
			t.Errorf("%s: the decoder says %v, the schema %v; good: %v", part, err, marked, good)
		}
	}
}

// beyond are the faults that a schema cannot see, and why.
var beyond = map[string][]string{
	"names what another place of the file must have": {
		"balance-hash-path-name", "balance-hash-path-name-not-in-every-pattern", "exempt-unknown-group", "group-jwt-without-jwt", "group-of-body-in-tiers", "key-body-of-get",
		"key-path-name-not-in-every-pattern", "key-path-name-without-match", "key-jwt-without-jwt", "known-of-another-key", "known-unknown-group", "match-group-unknown", "match-jwt-without-jwt",
		"missing-body-of-get", "missing-itself", "rewrite-captures", "route-unknown-group", "route-unknown-upstream", "route-url", "tiers-no-groups",
		"log-redact-path", "regex-names-nothing", "store-ca-without-tls", "tiers-unknown-group", "tls-listen-plain", "tls-without-https",
	},
	"says the same thing twice, written in two ways or in two places": {
		"admin-default-same-as-listen", "admin-is-public-socket", "admin-same-as-listen", "admin-token-same-as-listen", "cost-patterns-the-same",
		"group-attribute-twice", "match-header-twice", "headers-set-and-removed", "reject-header-twice", "rule-name-twice", "tls-admin-redirect", "tls-listen-redirect",
		"store-node-twice", "store-two-passwords", "upstream-twice",
	},
	"compares numbers with each other, or amounts in several units": {
		"candidate-smaller-than-the-cost", "cost-can-never-pass", "cost-over-a-window", "cost-pattern-can-never-pass", "cost-pattern-over-a-tier", "cost-reserve-can-never-pass",
		"cost-reserve-over-max", "duration-overflow", "health-interval-too-short", "health-timeout-over-interval", "health-timeout-zero",
		"limit-hundred-years", "limit-over-366d", "resolve-too-often", "size-too-large", "size-too-small", "store-limit-too-large", "store-penalty-too-large", "store-timeout-long",
		"store-timeout-none", "tier-fills-too-slowly",
		"tier-smaller-than-the-cost", "calendar-period-30d", "calendar-period-an-hour", "calendar-tier-period", "leaky-cost-can-never-pass",
		"leaky-less-than-a-place", "leaky-max-wait-zero", "leaky-slower-than-a-minute", "leaky-tier-without-a-place", "max-wait-over-a-minute",
		"penalty-block-too-short", "penalty-max-below-block", "penalty-max-zero",
	},
	"is in the time zone database": {
		"calendar-zone-empty", "calendar-zone-europe-berlin", "calendar-zone-europe-brelin", "calendar-zone-local", "calendar-zone-new-york", "calendar-zone-utc",
	},
	"asks what matches take, together": {
		"block-every-address", "block-everything", "cost-patterns-equally-specific", "cost-patterns-hosts-overlap", "match-not-everything",
		"match-not-itself", "paths-loose-costs-the-same",
	},
	"is in what a regular expression means": {
		"regex-final-slash", "regex-lookahead", "regex-no-slash", "regex-repeats-too-often", "regex-star-alone", "regex-too-large", "regex-unclosed",
	},
	"names one of the few headers that no rule sees": {
		"key-header-transfer-encoding", "match-header-trailer",
	},
	"is an address that could be the name of a host": {"match-addresses"},
	"is a star that could be a part of a name":       {"log-redact-star"},
	"counts bytes of a part, or items of a kind": {
		"group-too-many-stars", "upstream-unix-long",
	},
	"is in what the urls of a store say, one by one and together": {
		"store-bad-password", "store-cluster-database", "store-cluster-mixed", "store-sentinels-in-a-list",
	},
	"is in how YAML is written, not in what it says": {
		"number-exponent", "number-hex", "number-octal", "version-float", "yaml-empty-second-document", "yaml-document-ends", "yaml-merge-key", "yaml-plain-tag",
		"yaml-second-document",
	},
	"is in what stands outside of the file": {
		"include-a-folder", "include-double-star", "include-no-such-file",
		"jwt-empty-file", "jwt-for-encryption-alone", "jwt-jwks-in-pem", "jwt-no-such-file", "jwt-pem-as-secret", "jwt-pem-in-jwks", "jwt-private-key",
		"jwt-weak-rsa",
		"secret-credential-without-systemd", "secret-env-empty", "secret-env-unset", "secret-file-empty", "secret-file-missing", "secret-file-of-a-variable",
		"secret-file-too-large", "store-password-unset", "substitution-bad-default", "substitution-bad-number", "substitution-bad-rate", "substitution-bad-url",
		"substitution-bad-word", "substitution-control-character", "substitution-empty-with-message", "substitution-empty-without-message",
		"substitution-inside-a-text", "substitution-not-utf8", "substitution-unset", "substitution-unset-with-message",
	},
}

// Of every bad file the schema says what the decoder does, but for those in beyond;
// which does not hold one that it can see.
func TestTheSchemaRefusesWhatTheDecoderDoes(t *testing.T) {
	schema := compiledSchema(t)
	excused := map[string]string{}
	for why, names := range beyond {
		for _, name := range names {
			if excused[name] != "" {
				t.Errorf("%s is listed twice", name)
			}
			excused[name] = why
		}
	}
	paths, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refused := schemaVerdict(schema, data)
		switch why := excused[name]; {
		case refused == nil && why == "":
			t.Errorf("%s is taken:\n%s", name, data)
		case refused != nil && why != "":
			t.Errorf("%s is refused, though it %s: %v", name, why, refused)
		}
		delete(excused, name)
	}
	for _, name := range slices.Sorted(maps.Keys(excused)) {
		t.Errorf("%s is listed and is no file", name)
	}
}

// What is taken for a value of some kind by the decoder is never refused by the
// schema, however it is written.
func TestTheSchemaTakesEveryValueThatTheDecoderTakes(t *testing.T) {
	schema := compiledSchema(t)
	kinds := []struct{ file, pieces string }{
		{"upstream: http://a\nrules: [{ name: a, limit: %s }]", "1 5 0 9_0 / r/ per m min minutes d h hours . - s"},
		{"upstream: http://a\nrules: []\nshutdown_timeout: %s", "1 0 . 5 _ h m s ms d - us µs"},
		{"upstream: http://a\nrules: []\nmax_memory: %s", "1 64 0 _ K i B KiB MB GB TB m MiB . 000"},
		{"upstream: http://a\nrules: []\nlisten: %s", ": 80 8080 0 70000 [ ] ::1 127.0.0.1 localhost a . - unix: / run systemd: http %% _"},
		{"upstream: %s\nrules: []", "http:// https:// h2c:// unix: a . - / : 80 [::1] 127.0.0.1 ? # .. %% 65536 run"},
		{"upstream: http://a\nrules: []\ntrusted_proxies: [%s]", "10. 0 1 255 256 .0 / 8 33 :: 2001: db8: private fe80 128"},
		{"upstream: http://a\nrules: []\nblock: %s", "GET POST ' ' / * ** : id a b.c localhost . %%2F %% - ? $ @ x.example.com"},
		{"upstream: http://a\nrules: []\nblock: { path: %s }", "/ * ** : id a b.pdf . %%2F - $ @"},
		{"upstream: http://a\nrules: []\nblock: { host: %s }", "a . * - example.com [::1] : 80 _ /"},
		{"upstream: http://a\nrules: []\nblock: { method: %s }", "GET POST get - _ X . /"},
		{"upstream: http://a\nrules: [{ name: a, limit: 1/s, key: %s }]", "ip / 24 129 host header. X-A _ . cookie. query. a basic. username global path. body. user route ' ' jwt. sub"},
		{"upstream: http://a\nrules: [{ name: a, limit: 1/s, match: /:id, missing: %s }]", "skip reject ip / 24 host header. X-A path. id . body. route"},
		{"upstream: http://a\nrules: [{ name: a, limit: 9/s, cost: { %s: 2 } }]", "GET / * ** : id a . b"},
		{"upstream: http://a\nrules: [{ name: %s, limit: 9/s }]", "a 1 - _ A . 07"},
		{"upstreams: { a: http://a }\nroutes: [{ match: /:id/**, redirect: { to: %s } }]\nrules: []", "http:// https:// / a . {path.rest} {path.id} ? # ' ' % : 80"},
		{"upstreams: { a: http://a }\nroutes: [{ match: /:id/**, rewrite: %s }]\nrules: []", "/ a . {path.rest} {path.id} ? # : %%20"},
		{"upstreams: { a: http://a }\nroutes: [{ strip_prefix: %s }]\nrules: []", "/ a . * : - ?"},
		{"upstream: http://a\nrules: []\nreject: { jitter: %s }", "1 0 5 00 % 9"},
		{"upstream: http://a\nrules: []\nreject: { body: a, content_type: %s }", "text / html ; charset = utf-8 ' ' *"},
		{"upstream: http://a\nrules: []\ntls: { domains: %s }", "a . example com - * : 443 A xn--"},
		{"upstream: http://a\nrules: []\ntls: { domains: a.example.com, email: %s }", "ops @ example . com < > ' ' +"},
		{"upstream: http://a\nrules: []\ntls: { domains: a.example.com, ca: %s }", "production staging https:// ca . internal / dir ? # @ :"},
		{"upstreams: { a: { servers: http://a, health: { path: /, status: %s } } }\nrules: []", "2 xx 200 5 4xx 0 9"},
		{"upstreams: { a: { servers: http://a, health: %s } }\nrules: []", "/ a ? = # ' ' : %%20 ;"},
		{"upstreams: { a: { servers: https://a, tls: { server_name: %s } } }\nrules: []", "a . - example :: 1 127.0.0.1 _"},
		{"upstreams: { %s: http://a }\nrules: []", "a . - _ B 1 ' '"},
		{"upstream: http://a\nrules: []\ngroups: { a: { ip: %s } }", "10. 0 1 255 .0 / 8 :: 2001: db8: private"},
		{"upstream: http://a\nrules: []\ngroups: { a: { header.X-A: %s } }", "10.0.0.0 / 8 sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad a * ' ' :: $ ${ $$"},
		{"upstream: http://a\nrules: []\ngroups: { a: { %s: x } }", "ip / 24 host header. X-A _ cookie. query. a basic. username body. user . method path"},
	}
	pieces := func(i int) []string {
		return strings.Fields(strings.ReplaceAll(strings.ReplaceAll(kinds[i].pieces, "' '", "SPACE"), "%%", "%"))
	}
	// judge holds one value against both and reports whether the decoder takes it.
	judge := func(t interface{ Fatalf(string, ...any) }, i int, drawn []string) bool {
		text := strings.ReplaceAll(strings.Join(drawn, ""), "SPACE", " ")
		text = strings.ReplaceAll(text, "per", " per ")
		quoted, _ := json.Marshal(text)
		data := fmt.Appendf(nil, kinds[i].file, quoted)
		if _, err := goldenOutside.Parse("gateway.yaml", data); err != nil {
			return false
		}
		if err := schemaVerdict(schema, data); err != nil {
			t.Fatalf("%s is refused by the schema alone: %v", data, err)
		}
		return true
	}
	rapid.Check(t, func(t *rapid.T) {
		for i, kind := range kinds {
			value := rapid.SliceOfN(rapid.SampledFrom(pieces(i)), 1, 5)
			for _, drawn := range rapid.SliceOfN(value, 5, 5).Draw(t, kind.file) {
				judge(t, i, drawn)
			}
		}
	})
	// Found once: no CIDR, for it has too many digits between colons.
	found := []byte("upstream: http://a\nrules: []\ngroups: { a: { header.X-A: \"::ba7816bf8f01cfea/8\" } }\n")
	if _, err := goldenOutside.Parse("gateway.yaml", found); err != nil || schemaVerdict(schema, found) != nil {
		t.Errorf("%s: decoder %v, schema %v", found, err, schemaVerdict(schema, found))
	}
	// Some of each kind must be good, or nothing was compared. Few are of some kinds.
	random := rand.New(rand.NewPCG(1, 1))
	for i, kind := range kinds {
		from, good := pieces(i), false
		for range 20_000 {
			var drawn []string
			for range 1 + random.IntN(5) {
				drawn = append(drawn, from[random.IntN(len(from))])
			}
			if good = judge(t, i, drawn); good {
				break
			}
		}
		if !good {
			t.Errorf("no value of %q was good", kind.file)
		}
	}
}
