package rules

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// queryValue reads one value as a key does.
func queryValue(raw, name string) (value string, ok bool, err error) {
	f := &Facts{RawQuery: raw}
	out, ok := f.appendQuery(nil, name)
	return string(out), ok, f.QueryError()
}

func TestEverySpellingOfAQueryIsTheKeyOrIsRefused(t *testing.T) {
	pairs := func(n int) string { return strings.TrimSuffix(strings.Repeat("x=1&", n), "&") }
	for _, test := range []struct{ raw, want, err string }{
		{raw: "api_key=k", want: "k"},
		{raw: "%61pi_key=k", want: "k"},
		{raw: "api%5Fkey=%6B", want: "k"},
		{raw: "api_key=k&api_key=b", want: "k"},
		{raw: "x=1&api_key=k", want: "k"},
		{raw: "&&api_key=k&&", want: "k"},
		{raw: "api_key=k=k", want: "k=k"},
		{raw: "api_key=a+b%2Bc", want: "a b+c"},
		{raw: "api_key=k;b", want: "k;b"},
		{raw: "api_key=%C3%A9", want: "é"},
		{raw: "api_key=%00%ff", want: "\x00\xff"},
		{raw: "a=1;api_key=k"},
		{raw: "api_key"},
		{raw: "api_key="},
		{raw: "api_key=&api_key=k"}, // the first counts, and it is empty
		{raw: "API_KEY=k"},
		{raw: "xapi_key=k"},
		{raw: "api_keyx=k"},
		{raw: "api_key%3Dk"},
		{raw: "api_key%26=k"},
		{raw: "=k"},
		{raw: ""},
		{raw: "api_key=%zz", err: "broken percent code"},
		{raw: "api_key=k&x=%", err: "broken percent code"},
		{raw: "api_key=k&%4=1", err: "broken percent code"},
		{raw: "%u0061pi_key=k", err: "broken percent code"},
		{raw: "api_key=k&x=%4&1", err: "broken percent code"},
		{raw: pairs(999) + "&api_key=k", want: "k"},
		{raw: pairs(1000) + "&api_key=k", err: "more than 1000 pairs"},
		{raw: "api_key=k&" + pairs(10_000), err: "more than 1000 pairs"},
		{raw: strings.Repeat("&", 5000) + "api_key=k", want: "k"},
	} {
		got, ok, err := queryValue(test.raw, "api_key")
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || ok {
				t.Errorf("%.60q: %q, %v, %v; want an error with %q", test.raw, got, ok, err, test.err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%.60q: %q, %v, %v; want %q", test.raw, got, ok, err, test.want)
		}
	}
}

func TestAQueryNobodyReadsIsNoError(t *testing.T) {
	f := factsOf(t, "GET", "example.com", "/s")
	f.RawQuery = "a=1;b=2&c=%zz&d=&e&a=3"
	m := matchOf(t, "/s")
	if !m.Matches(f) {
		t.Fatal("no match")
	}
	digestOf(t, recipe(t, "ip,path", "ip"), f, m)
	if err := f.QueryError(); err != nil {
		t.Errorf("QueryError = %v, but nothing has read the query", err)
	}
	digestOf(t, recipe(t, "query.a", "ip"), f, m)
	if err := f.QueryError(); err != errQueryCode {
		t.Errorf("QueryError = %v, want %v", err, errQueryCode)
	}
}

func TestACookieIsTheFirstOfItsName(t *testing.T) {
	for _, test := range []struct{ lines, want string }{
		{"sid=a", "a"},
		{"x=1; sid=a; y=2", "a"},
		{"x=1;sid=a", "a"},
		{" sid = a ;", "a"},
		{"sid=a; sid=b", "a"},
		{"x=1\nsid=a", "a"},
		{`sid="a"`, "a"},
		{`sid="`, `"`},
		{"sid=a=b", "a=b"},
		{"sid=a b", "a b"},
		{"SID=a", ""},
		{"xsid=a", ""},
		{"sid", ""},
		{"sid=", ""},
		{`sid=""`, ""},
		{"", ""},
	} {
		f := &Facts{Header: map[string][]string{"Cookie": strings.Split(test.lines, "\n")}}
		if got, _ := f.cookie("sid"); got != test.want {
			t.Errorf("Cookie %q: %q, want %q", test.lines, got, test.want)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("a=1&b=2", "a")
	f.Add("%61=+%2B&a=3", "a")
	f.Add("a;b=1&a=%zz", "a;b")
	f.Add("&&=&", "")
	f.Fuzz(func(t *testing.T, raw, name string) {
		got, ok, err := queryValue(raw, name)
		// The library's own parser knows no ";" as text, so it gets it encoded.
		values, libErr := url.ParseQuery(strings.ReplaceAll(raw, ";", "%3B"))
		if (err == errQueryCode) != (libErr != nil && strings.Contains(libErr.Error(), "invalid URL escape")) {
			t.Fatalf("%q: %v, the library says %v", raw, err, libErr)
		}
		if err != nil || libErr != nil {
			return
		}
		want, has := values[name]
		if ok != has || ok && got != want[0] {
			t.Fatalf("%q of %q: %q, %v; the library has %q", name, raw, got, ok, want)
		}
	})
}

func BenchmarkQueryKey(b *testing.B) {
	f := factsOf(b, "GET", "example.com", "/")
	r, secret := recipe(b, "query.key", "ip"), testSecret
	for _, n := range []int{1, 20} {
		f.RawQuery = strings.Repeat("x=1&", n-1) + "key=abcdefgh"
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.query = queryState{}
				r.Digest(&secret, f, nil)
			}
		})
	}
}
