package proxy

import (
	"strings"
	"testing"
)

func TestSecretsInAQueryAreBlankedAndLongOnesCut(t *testing.T) {
	const most = 40
	for target, want := range map[string]string{
		"/a":                               "/a",
		"/a?":                              "/a?",
		"/a?b=c&d":                         "/a?b=c&d",
		"/a?token=x":                       "/a?token=***",
		"/a?token=x&b=1&API_KEY=y&c":       "/a?token=***&b=1&API_KEY=***&c",
		"/a?b=1&key=":                      "/a?b=1&key=",
		"/a?mine=x&other=y":                "/a?mine=***&other=y",
		"/a?m%69ne=x&%74oken=y":            "/a?m%69ne=***&%74oken=***",
		"/a?token=" + long('x', 900):       "/a?token=***",
		"/a?b=1&token=" + long('x', 900):   "/a?b=1&token=***",
		"/a?token=" + long('x', 99) + "&b": "/a?token=***&b",
		"/" + long('a', 99) + "?token=x":   "/" + long('a', most+3), // and no more
		"/a?b=" + long('c', 99):            "/a?b=" + long('c', most-1),
		"/a?" + long('&', 9000):            "/a?" + long('&', most-2),
	} {
		if got := redactTarget(target, []string{"mine"}, most); got != want {
			t.Errorf("%.60q: got %q, want %q", target, got, want)
		}
	}
	// A secret that comes after what is shown is not in the record either.
	for n := range 2 * most {
		if got := redactTarget("/a?"+long('b', n)+"&token=canary&c="+long('d', 99), nil, most); strings.Contains(got, "canary") {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func long(c byte, n int) string { return strings.Repeat(string(c), n) }

func TestARecordOfALongQueryCostsLittle(t *testing.T) {
	target := "/?" + strings.Repeat("a&", 8<<10)
	if n := testing.AllocsPerRun(100, func() { redactTarget(target, nil, mostTarget) }); n > 1 {
		t.Errorf("%v allocations, want the copy of what is shown alone", n)
	}
}
