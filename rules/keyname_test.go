package rules

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gateway/limit"
)

// hitOf compiles a rule with this key and returns it with the key that a request has.
func hitOf(t *testing.T, rule string, f *Facts) (*Set, *Rule, limit.Digest) {
	t.Helper()
	file, err := Parse("gateway.yaml", []byte("upstream: http://127.0.0.1:1\nrules:\n  - { name: a, limit: 1/m, "+rule+" }\n"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := file.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	hits := set.Match(f, nil)
	if len(hits) != 1 {
		t.Fatalf("%s: %d hits", rule, len(hits))
	}
	return set, set.Rules[0], hits[0].Key
}

// What an operator writes is the key that a request with these values has.
func TestFindKeyIsTheKeyOfARequest(t *testing.T) {
	for _, c := range []struct {
		rule    string
		values  []string
		missing bool
		name    string // as it is shown; "" is an id
	}{
		{"key: ip", []string{"192.0.2.9"}, false, "192.0.2.9"},
		{"key: ip", []string{"::ffff:192.0.2.9"}, false, "192.0.2.9"},
		{"key: ip/24", []string{"192.0.2.0/24"}, false, "192.0.2.0/24"},
		{"key: ip/24", []string{"192.0.2.200"}, false, "192.0.2.0/24"},
		{"key: global", nil, false, "global"},
		{"key: host", []string{"API.example.com"}, false, ""},
		{"key: host", []string{"api.example.com.:8080"}, false, ""},
		{"key: path", []string{"/u/7"}, false, ""},
		{"key: path", []string{"//u/./%37/"}, false, ""},
		{"key: ip", []string{"192.0.2.9/32"}, false, "192.0.2.9"},
		{"key: header.X-Key", []string{"a b"}, false, ""},
		{"key: [ip, header.X-Key]", []string{"192.0.2.9", "a b"}, false, ""},
		{"key: [header.X-Key, global, query.q]", []string{"a b", "1"}, false, ""},
		{"key: basic.username", []string{" ANN "}, false, ""},
		{"key: path.user, match: '/u/:user'", []string{"7"}, false, ""},
		{"key: cookie.none", []string{"192.0.2.9"}, true, "192.0.2.9 without cookie.none"},
		{"key: cookie.none, missing: global", []string{"192.0.2.9"}, true, ""},
		{"key: cookie.none, missing: cookie.other", []string{"192.0.2.9"}, true, "192.0.2.9 without cookie.none"},
	} {
		f := &Facts{
			Method: "GET", Host: "api.example.com", Path: "/u/7", RawQuery: "q=1", Client: netip.MustParseAddr("192.0.2.9"),
			Header: http.Header{"X-Key": {"a b"}, "Authorization": {"Basic YW5uOng="}},
		}
		set, r, want := hitOf(t, c.rule, f)
		if got := set.KeyName(r, want, f.Client); got != c.name && (c.name != "" || got != KeyID(want)) {
			t.Errorf("%s is shown as %q, want %q", c.rule, got, c.name)
		}
		if got, err := set.FindKey(r, []string{KeyID(want)}, false); err != nil || got != want {
			t.Errorf("%s by its id: %v, %v", c.rule, got, err)
		}
		if got, err := set.FindKey(r, c.values, c.missing); err != nil || got != want {
			t.Errorf("%s with %q: %v, %v, want %v", c.rule, c.values, got, err, want)
		}
	}
}

func TestAnIPv6ClientIsShownAsItIsCounted(t *testing.T) {
	f := &Facts{Method: "GET", Path: "/", Client: netip.MustParseAddr("2001:db8:1:2:3::4")}
	set, r, key := hitOf(t, "key: ip", f)
	if got := set.KeyName(r, key, f.Client); got != "2001:db8:1:2::/64" {
		t.Errorf("shown as %q", got)
	}
	for _, text := range []string{"2001:db8:1:2::/64", "2001:db8:1:2:ffff::"} {
		if got, err := set.FindKey(r, []string{text}, false); err != nil || got != key {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	// A key that is not that of the address does not get its name.
	if got := set.KeyName(r, keyNo(1), f.Client); got != KeyID(keyNo(1)) {
		t.Errorf("another key is shown as %q", got)
	}
}

func TestFindKeySaysWhatIsWrong(t *testing.T) {
	f := &Facts{Method: "GET", Path: "/", Client: someone, Header: http.Header{"X-Key": {"a"}}}
	set, r, _ := hitOf(t, "key: [ip, header.X-Key]", f)
	for _, c := range []struct {
		values  []string
		missing bool
		want    string
	}{
		{nil, false, "give a value for ip"},
		{[]string{"192.0.2.1"}, false, "give a value for header.X-Key"},
		{[]string{"192.0.2.1", "a", "b"}, false, "1 values too many"},
		{[]string{"x", "a"}, false, `"x" is no IP address`},
		{[]string{"10.0.0.0/8", "a"}, false, "10.0.0.0/8 is many clients, and the rule counts each address by itself"},
		{[]string{"192.0.2.0/31", "a"}, false, "192.0.2.0/31 is many clients"},
		{[]string{"2001:db8::/63", "a"}, false, "2001:db8::/63 is many clients, and the rule counts each /64 by itself"},
		{[]string{"10.0.0.0/8"}, true, "10.0.0.0/8 is many clients"},
		{[]string{"192.0.2.1", " "}, false, "is a missing key"},
		{[]string{"id:12"}, false, "32 hexadecimal digits"},
		{[]string{"id:" + strings.Repeat("x", 32)}, false, "32 hexadecimal digits"},
		{[]string{"id:" + strings.Repeat("a", 33)}, false, "32 hexadecimal digits"},
		{[]string{"a", "b"}, true, "by its address alone"},
		{[]string{"a"}, true, `"a" is no IP address`},
	} {
		if _, err := set.FindKey(r, c.values, c.missing); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.values, err, c.want)
		}
	}
	for _, policy := range []string{"skip", "reject"} {
		set, r, _ := hitOf(t, "key: header.X-Key, missing: "+policy, f)
		if _, err := set.FindKey(r, []string{"192.0.2.1"}, true); err == nil || !strings.Contains(err.Error(), "counts nobody without its key: missing: "+policy) {
			t.Errorf("missing: %s: %v", policy, err)
		}
	}
}

func TestFindKeyRefusesWhatNoRequestCanHave(t *testing.T) {
	f := &Facts{Method: "GET", Host: "a", Path: "/", Client: someone}
	for key, values := range map[string][]string{
		"key: host":  {"a..b", "a b", ""},
		"key: path":  {"login", "/a/..%2fb", "/%zz", "/a//../b"},
		"key: ip/24": {"192.0.0.0/16"},
	} {
		set, r, _ := hitOf(t, key, f)
		for _, value := range values {
			if _, err := set.FindKey(r, []string{value}, false); err == nil {
				t.Errorf("%s: %q is taken", key, value)
			}
		}
	}
}
