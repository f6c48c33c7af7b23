package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gateway/limit"
)

var testSecret = limit.Secret{1, 2, 3}

// recipe makes a recipe of attributes, separated by commas.
func recipe(t testing.TB, key, missing string) *Recipe {
	t.Helper()
	var parts []Attribute
	for text := range strings.SplitSeq(key, ",") {
		parts = append(parts, attribute(t, text))
	}
	m, err := ParseMissing(missing)
	if err != nil {
		t.Fatalf("ParseMissing(%q): %v", missing, err)
	}
	return NewRecipe(parts, m, 64)
}

// digestOf returns the digest of a request that has a key, or a fallback.
func digestOf(t testing.TB, r *Recipe, f *Facts, m *Match) limit.Digest {
	t.Helper()
	d, outcome := r.Digest(&testSecret, f, m)
	if outcome != KeyFound && outcome != KeyFallback {
		t.Fatalf("key %s: outcome %d", r, outcome)
	}
	return d
}

func from(addr string) *Facts { return &Facts{Client: netip.MustParseAddr(addr)} }

func TestOneAddressHasOneKeyHoweverItIsWritten(t *testing.T) {
	// Case K04: what a trusted proxy says in turn, and which client that is.
	trusted := prefixes(t, "127.0.0.1")
	groups := map[limit.Digest][]string{}
	r := recipe(t, "ip", "ip")
	for _, xff := range []string{
		"::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1:51324", "::ffff:192.0.2.2", "[2001:db8::1]:443", "2001:DB8:0:0:0:0:0:1",
	} {
		client, _ := ClientAddr(netip.MustParseAddrPort("127.0.0.1:9"), http.Header{"X-Forwarded-For": {xff}}, trusted)
		d := digestOf(t, r, &Facts{Client: client}, nil)
		groups[d] = append(groups[d], xff)
	}
	var sizes [4]int
	for _, g := range groups {
		sizes[len(g)]++
	}
	if sizes != [4]int{1: 1, 2: 1, 3: 1} {
		t.Errorf("keys: %v; want three spellings of 192.0.2.1, one of .2, two of 2001:db8::1", groups)
	}
	if digestOf(t, r, from("fe80::1%eth0"), nil) != digestOf(t, r, from("fe80::1"), nil) {
		t.Error("the zone is part of the key")
	}
}

func TestHowMuchOfAnAddressCounts(t *testing.T) {
	for _, test := range []struct {
		key, a, b string
		same      bool
	}{
		{"ip", "192.0.2.1", "192.0.2.1", true},
		{"ip", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"ip", "192.0.2.1", "192.0.2.2", false},
		{"ip", "2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"ip", "2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"ip", "2001:db8:1:2::1.2.3.4", "1.2.3.4", false},
		{"ip", "::102:304", "1.2.3.4", false},
		{"ip", "fe80::1%a", "fe80::1%b", true},
		{"ip/24", "192.0.2.1", "192.0.2.200", true},
		{"ip/24", "192.0.2.1", "192.0.3.1", false},
		{"ip/24", "2001:db8:1:2::1", "2001:db8:1:2::2", true},
		{"ip/24", "2001:db8:1:2::1", "2001:db8:1:3::1", false}, // 24 bits of IPv6 are no client
		{"ip/32", "192.0.2.1", "192.0.2.2", false},
		{"ip/48", "192.0.2.1", "192.0.2.2", false},
		{"ip/48", "2001:db8:1:2::1", "2001:db8:1:ffff::1", true},
		{"ip/48", "2001:db8:1::1", "2001:db8:2::1", false},
		{"ip/128", "2001:db8::1", "2001:db8::2", false},
		{"ip/128", "fe80::1%a", "fe80::1", true},
	} {
		r := recipe(t, test.key, "ip")
		if got := digestOf(t, r, from(test.a), nil) == digestOf(t, r, from(test.b), nil); got != test.same {
			t.Errorf("key %s: %s and %s share a counter: %v", test.key, test.a, test.b, got)
		}
	}
	wide := NewRecipe([]Attribute{attribute(t, "ip")}, Missing{}, 56)
	if digestOf(t, wide, from("2001:db8:1:2::1"), nil) != digestOf(t, wide, from("2001:db8:1:ff::1"), nil) {
		t.Error("ipv6_prefix 56 does not put two /64 of one /56 together")
	}
}

func TestWhichRequestsShareACounter(t *testing.T) {
	request := func(method, path string, header ...string) *Facts {
		return factsOf(t, method, "example.com", path, header...)
	}
	withQuery := func(raw string) *Facts {
		f := request("GET", "/")
		f.RawQuery = raw
		return f
	}
	long := strings.Repeat("k", 64)
	for _, test := range []struct {
		key  string
		a, b *Facts
		same bool
	}{
		{"global", request("GET", "/a"), request("POST", "/b"), true},
		{"method", request("GET", "/"), request("HEAD", "/"), false},
		{"path", request("GET", "/login"), request("GET", "/x/..//%6cogin/"), true},
		{"path", request("GET", "/a%2Fb"), request("GET", "/a/b"), false},
		{"path", request("GET", "/a%2Fb"), request("GET", "/a%252Fb"), false},
		{"header.X-Key", request("GET", "/", "X-Key", "k"), request("GET", "/", "x-key", "k"), true},
		{"header.X-Key", request("GET", "/", "X-Key", "k"), request("GET", "/", "X-Key", "K"), false},
		{"header.X-Key", request("GET", "/", "X-Key", "a", "X-Key", "b"), request("GET", "/", "X-Key", "a, b"), true},
		{"header.X-Key", request("GET", "/", "X-Key", "a", "X-Key", "b"), request("GET", "/", "X-Key", "b", "X-Key", "a"), false},
		{"header.X-Key", request("GET", "/", "X-Key", "a", "X-Key", "b"), request("GET", "/", "X-Key", "a"), false},
		{"header.X-Key", request("GET", "/", "X-Key", "\u00e9"), request("GET", "/", "X-Key", "e\u0301"), false},
		{"header.X-Key", request("GET", "/", "X-Key", "\xff"), request("GET", "/", "X-Key", "\xfe"), false},
		{"header.X-Key", request("GET", "/", "X-Key", "a b"), request("GET", "/", "X-Key", "a  b"), false},
		{"header.X-Key", request("GET", "/", "X-Key", "{a}"), request("GET", "/", "X-Key", "{b}"), false},
		{"header.X-Key", request("GET", "/", "X-Key", strings.Repeat(long, 32)+"a"), request("GET", "/", "X-Key", strings.Repeat(long, 32)+"b"), false},
		{"header.X-Key", request("GET", "/", "X-Key", strings.Repeat(long, 8000)), request("GET", "/", "X-Key", strings.Repeat(long, 8000)), true},
		{"header.X-A,header.X-B", request("GET", "/", "X-A", "a", "X-B", "bc"), request("GET", "/", "X-A", "ab", "X-B", "c"), false},
		{"header.X-A,header.X-B", request("GET", "/", "X-A", "a|b", "X-B", "c"), request("GET", "/", "X-A", "a", "X-B", "b|c"), false},
		{"query.k", withQuery("k=a+b"), withQuery("x=1&%6B=a%20b&k=c"), true},
		{"query.k", withQuery("k=a"), withQuery("k=a;b"), false},
		{"cookie.sid", request("GET", "/", "Cookie", "sid=a"), request("GET", "/", "Cookie", `x=1; sid="a"; sid=b`), true},
		{"cookie.sid", request("GET", "/", "Cookie", "sid=a"), request("GET", "/", "Cookie", "sid=b"), false},
		{"ip,header.X-Key", request("GET", "/", "X-Key", "a"), request("GET", "/x", "X-Key", "a"), true},
		{"ip,method", request("GET", "/"), request("POST", "/"), false},
	} {
		r := recipe(t, test.key, "reject")
		if got := digestOf(t, r, test.a, nil) == digestOf(t, r, test.b, nil); got != test.same {
			t.Errorf("key %s: %.60q %.60q and %.60q %.60q share a counter: %v", test.key, test.a.Path, test.a.Header, test.b.Path, test.b.Header, got)
		}
	}
}

func TestAMissingKeyIsAVisibleChoice(t *testing.T) {
	for _, test := range []struct {
		what, key string
		header    []string
		query     string
		missing   bool
	}{
		{"no header", "header.X-Key", nil, "", true},
		{"an empty header", "header.X-Key", []string{"X-Key", ""}, "", true},
		{"a header of spaces", "header.X-Key", []string{"X-Key", " \t "}, "", true},
		{"two empty headers", "header.X-Key", []string{"X-Key", "", "X-Key", " "}, "", true},
		{"one of two headers", "header.X-Key", []string{"X-Key", "", "X-Key", "k"}, "", false},
		{"a header", "header.X-Key", []string{"X-Key", "k"}, "", false},
		{"no query", "query.k", nil, "", true},
		{"an empty value", "query.k", nil, "k=", true},
		{"a name alone", "query.k", nil, "k", true},
		{"a value of spaces", "query.k", nil, "k=+%20%09", true},
		{"an empty value before a full one", "query.k", nil, "k=&k=1", true},
		{"no cookie", "cookie.sid", nil, "", true},
		{"an empty cookie", "cookie.sid", []string{"Cookie", "sid="}, "", true},
		{"half of a key", "ip,header.X-Key", nil, "", true},
		{"the other half", "header.X-Key,header.X-Other", []string{"X-Other", "o"}, "", true},
		{"no segment of that name", "path.id", nil, "", true},
		{"an address", "ip", nil, "", false},
	} {
		f := factsOf(t, "GET", "example.com", "/", test.header...)
		f.RawQuery = test.query
		for missing, want := range map[string]Outcome{
			"ip": KeyFallback, "skip": KeySkip, "reject": KeyReject, "host": KeyFallback, "header.X-None": KeyFallback,
		} {
			if !test.missing {
				want = KeyFound
			}
			d, got := recipe(t, test.key, missing).Digest(&testSecret, f, nil)
			if got != want {
				t.Errorf("%s, missing: %s: outcome %d, want %d", test.what, missing, got, want)
			}
			if none := d == (limit.Digest{}); none != (got == KeySkip || got == KeyReject) {
				t.Errorf("%s, missing: %s: digest %v", test.what, missing, d)
			}
		}
	}
}

func TestAFallbackIsNeverAKeyThatReadsLikeIt(t *testing.T) {
	without := factsOf(t, "GET", "192.0.2.1", "/")
	for _, value := range []string{"192.0.2.1", "\x20\xc0\x00\x02\x01", "f", "example.com"} {
		with := factsOf(t, "GET", "192.0.2.1", "/", "X-Key", value)
		for _, missing := range []string{"ip", "host", "header.X-Other"} {
			r := recipe(t, "header.X-Key", missing)
			if digestOf(t, r, with, nil) == digestOf(t, r, without, nil) {
				t.Errorf("key %q is the fallback of missing: %s", value, missing)
			}
		}
	}
}

func TestTheFallbackOfAnAttributeThatIsMissingTooIsTheAddress(t *testing.T) {
	r := recipe(t, "header.X-Key", "header.X-Other")
	one, other := factsOf(t, "GET", "h", "/"), factsOf(t, "GET", "h", "/")
	if digestOf(t, r, one, nil) != digestOf(t, r, other, nil) {
		t.Error("one address has two keys")
	}
	other.Client = netip.MustParseAddr("192.0.2.99")
	if digestOf(t, r, one, nil) == digestOf(t, r, other, nil) {
		t.Error("two addresses have one key")
	}
	// Another attribute in the policy, which keeps the counters: other keys.
	a := factsOf(t, "GET", "h", "/", "X-A", "v", "X-B", "v")
	if digestOf(t, recipe(t, "header.X-Key", "header.X-A"), a, nil) == digestOf(t, recipe(t, "header.X-Key", "header.X-B"), a, nil) {
		t.Error("the value of one header is that of another")
	}
}

func TestAPathNameIsTakenFromThePatternThatMatched(t *testing.T) {
	m := matchOf(t, "/users/:id/exports", "GET /orders/x/:id/**", "/users/:x/**")
	r := recipe(t, "path.id", "reject")
	key := func(path string) limit.Digest { return digestOf(t, r, factsOf(t, "GET", "h", path), m) }
	if key("/users/7/exports") != key("//users/./%37/exports/") {
		t.Error("two spellings of one path have two keys")
	}
	if key("/users/7/exports") != key("/orders/x/7") {
		t.Error("one id in two patterns has two keys: a rule is one namespace")
	}
	if key("/users/7/exports") == key("/users/8/exports") {
		t.Error("two ids have one key")
	}
	if _, outcome := r.Digest(&testSecret, factsOf(t, "GET", "h", "/users/7"), m); outcome != KeyReject {
		t.Errorf("a pattern without the name: outcome %d", outcome)
	}
	paths := &Match{Any: []Clause{{Methods: []string{"POST"}}, {Paths: []*Pattern{pathPattern(t, "/a/*"), pathPattern(t, "/b/:id")}}}}
	if got := paths.capture(factsOf(t, "GET", "h", "/b/9"), "id"); got != "9" {
		t.Errorf("capture from a list of paths = %q, want 9", got)
	}
}

func TestRecipeTellsWhatItIs(t *testing.T) {
	for _, test := range []struct {
		key, missing, text string
		names              string
	}{
		{"ip", "ip", "ip", ""},
		{"header.x-key", "ip", "header.X-Key", ""},
		{"header.x-key,ip", "ip", "header.X-Key + ip", ""},
		{"query.k", "skip", "query.k", ""},
		{"host", "query.k", "host", ""},
		{"path.a,path.b", "path.c", "path.a + path.b", "a b c"},
		{"cookie.c,ip/24", "ip", "cookie.c + ip/24", ""},
	} {
		r := recipe(t, test.key, test.missing)
		if got := r.String(); got != test.text {
			t.Errorf("String of %s = %q, want %q", test.key, got, test.text)
		}
		if got := strings.Join(r.PathNames(), " "); got != test.names {
			t.Errorf("%s, missing: %s needs the names %q, want %q", test.key, test.missing, got, test.names)
		}
	}
}

func TestIdentityOfARecipeIsItsAttributes(t *testing.T) {
	same := [][2]string{{"header.X-KEY", "header.x-key"}, {"ip", "ip"}, {"ip,path", "ip,path"}}
	for _, pair := range same {
		if a, b := recipe(t, pair[0], "ip"), recipe(t, pair[1], "skip"); a.Identity() != b.Identity() {
			t.Errorf("%s and %s: %s and %s", pair[0], pair[1], a.Identity(), b.Identity())
		}
	}
	seen := map[string]string{}
	for _, key := range []string{"ip", "ip/24", "ip/48", "ip,path", "path,ip", "query.a", "query.A", "cookie.a", "header.A", "path.a", "global"} {
		id := recipe(t, key, "ip").Identity()
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have the identity %s", key, other, id)
		}
		seen[id] = key
	}
	list := NewRecipe([]Attribute{attribute(t, "query.a"), attribute(t, "query.b")}, Missing{}, 64)
	tricky := NewRecipe([]Attribute{attribute(t, `query.a""query.b`)}, Missing{}, 64)
	if list.Identity() == tricky.Identity() {
		t.Errorf("two recipes have the identity %s", list.Identity())
	}
}

func TestADigestTakesNoMemory(t *testing.T) {
	m := matchOf(t, "/users/:id/**")
	for _, key := range []string{
		"ip", "ip/48", "host", "method", "path", "path.id", "header.X-Key", "query.k", "cookie.sid", "global", "header.X-Key,ip,path.id", "header.X-None",
	} {
		f := factsOf(t, "GET", "example.com", "/users/7/x", "X-Key", strings.Repeat("k", 8<<10), "Cookie", "a=1; sid=abc")
		f.RawQuery = "a=1&k=%61bc"
		r := recipe(t, key, "ip")
		r.Digest(&testSecret, f, m) // the scratch grows
		if n := testing.AllocsPerRun(100, func() { f.query = queryState{}; r.Digest(&testSecret, f, m) }); n != 0 {
			t.Errorf("a digest of %s allocates %v times", key, n)
		}
	}
}

// FuzzKeyBytes checks that no two different lists of values have the same bytes,
// by reading the values back out of them.
func FuzzKeyBytes(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"), []byte("ab"), []byte("c"))
	f.Add([]byte("\x06\x00\x00\x00\x01a"), []byte("b"), []byte(""), []byte(" "))
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		key := func(x, y []byte) ([]byte, Outcome) {
			facts := &Facts{Client: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-A": {string(x)}, "X-B": {string(y)}}}
			return recipe(t, "header.X-A,header.X-B", "ip").appendKey(nil, facts, nil)
		}
		one, outcome := key(a, b)
		if (outcome == KeyFound) != (!isBlank(a) && !isBlank(b)) {
			t.Fatalf("%q, %q: outcome %d", a, b, outcome)
		}
		if outcome == KeyFound {
			rest := one[1:]
			for _, want := range [][]byte{a, b} {
				n := binary.BigEndian.Uint32(rest[1:])
				if got := rest[5 : 5+n]; !bytes.Equal(got, want) {
					t.Fatalf("%q holds %q, want %q", one, got, want)
				}
				rest = rest[5+n:]
			}
			if len(rest) > 0 {
				t.Fatalf("%q has %q at its end", one, rest)
			}
		}
		other, otherOutcome := key(c, d)
		same := outcome == otherOutcome && (outcome == KeyFallback || bytes.Equal(a, c) && bytes.Equal(b, d))
		if bytes.Equal(one, other) != same {
			t.Fatalf("(%q, %q) and (%q, %q): %q and %q", a, b, c, d, one, other)
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	m := matchOf(b, "/users/:id/**")
	for _, key := range []string{"ip", "header.X-Key", "path.id", "cookie.sid", "ip,header.X-Key"} {
		for _, size := range []int{32, 8 << 10} {
			if size > 32 && key != "header.X-Key" {
				continue
			}
			f := factsOf(b, "GET", "example.com", "/users/7/x", "X-Key", strings.Repeat("k", size), "Cookie", "a=1; sid=abc")
			r := recipe(b, key, "ip")
			b.Run(fmt.Sprintf("%s/%d", key, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r.Digest(&testSecret, f, m)
				}
			})
		}
	}
}

// The key of a rule that counts all requests together is made once; it is the one
// that would be made of each request.
func TestAKeyOfAllRequestsIsTheSameMadeOnce(t *testing.T) {
	secret := limit.NewSecret()
	global, _ := ParseAttribute("global")
	fixed, made := NewRecipe([]Attribute{global}, Missing{}, 64), NewRecipe([]Attribute{global}, Missing{}, 64)
	fixed.fix(&secret)
	f := &Facts{Method: "GET", Path: "/a"}
	got, is := fixed.Digest(&secret, f, nil)
	want, was := made.Digest(&secret, f, nil)
	if got != want || is != was || got == (limit.Digest{}) {
		t.Errorf("%v, %v; want %v, %v", got, is, want, was)
	}
	ip, _ := ParseAttribute("ip")
	other := NewRecipe([]Attribute{ip}, Missing{}, 64)
	other.fix(&secret)
	if other.fixed != (limit.Digest{}) {
		t.Error("the key of an address is made once")
	}
}
