package rules

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is said of a request agrees with what is decided about it.
func whyNotAgreesWithMatching(t *rapid.T) {
	matches := drawMatches(t)
	f := drawFacts(t)
	for i, m := range matches {
		why := m.WhyNot(f)
		if takes := m.Matches(f); takes != (why == "") {
			t.Fatalf("match %d takes %s %s%s: %v, but the reason is %q", i, f.Method, f.Host, f.Path, takes, why)
		}
	}
}

func TestWhyNotAgreesWithMatching(t *testing.T) { rapid.Check(t, whyNotAgreesWithMatching) }

func FuzzWhyNotAgreesWithMatching(f *testing.F) { f.Fuzz(rapid.MakeFuzz(whyNotAgreesWithMatching)) }

func TestWhyNotNamesWhatDiffers(t *testing.T) {
	s := compile(t, "upstream: http://a\ngroups: { g: { header.X-Key: [k] }, h: { ip: 192.0.2.9 } }\nrules:\n- { name: a, match: { group: [g, h], path: /x }, limit: 1/m }\n", nil)
	groups := s.Rules[0].match
	for _, tt := range []struct{ match, want string }{
		{"/login", "path /search is not /login"},
		{"POST /search", "method GET is not POST"},
		{"POST /login", "path /search is not /login"},
		{"api.example.com/search", "host www.example.com is not api.example.com"},
		{"GET www.example.com/**", ""},
		{"[/login, POST /search]", "path /search is not /login; method GET is not POST"},
		{"[/login, /search]", ""},
		{"[/a, /b, /c, /d, /e]", "path /search is not /a; path /search is not /b; path /search is not /c; and 2 more"},
		{"{ path: [/a, /b, /c, /d, /e, /f] }", "path /search is not /a, /b, /c, /d or one of 2 more"},
		{"{ path: /search, method: [PUT, POST] }", "method GET is not PUT or POST"},
		{"{ host: ['*.org', example.com] }", "host www.example.com is not *.org or example.com"},
		{"{ ip: private }", "ip 198.51.100.7 is not in the list"},
		{"{ header.X-Plan: gold }", "header.X-Plan is not in the request"},
		{"{ header.X-Client: 'app-*' }", `header.X-Client "web" is not app-*`},
		{"{ not: { path: /search } }", "not: the request is one that is excluded"},
		{"{ not: { path: /login } }", ""},
	} {
		f := factsOf(t, "GET", "www.example.com", "/search")
		f.Client = netip.MustParseAddr("198.51.100.7")
		f.Header = map[string][]string{"X-Client": {"web"}}
		parsed := parse(t, "upstream: http://a\nrules: []\nexempt: "+tt.match+"\n").Exempt
		if got := parsed.WhyNot(f); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.match, got, tt.want)
		}
	}
	f := factsOf(t, "GET", "h", "/x")
	if got := groups.WhyNot(f); got != "the client is not in group g or h" {
		t.Errorf("group: %q", got)
	}
	f.Header = map[string][]string{"X-Key": {"k"}}
	if got := groups.WhyNot(f); got != "" {
		t.Errorf("group: %q", got)
	}
	if got := (&Match{}).WhyNot(f); !strings.Contains(got, "no alternative") || (*Match)(nil).WhyNot(f) != "" {
		t.Errorf("an empty match: %q", got)
	}
}
