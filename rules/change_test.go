package rules

import (
	"fmt"
	"strings"
	"testing"
)

func TestAChangeTellsWhatARuleDoesWhenItCannotDecide(t *testing.T) {
	const file = "upstream: http://a\nipv6_prefix: %d\nrules: [{name: a, limit: 5/m, fail: %s, missing: %s}]\n"
	before := compile(t, fmt.Sprintf(file, 64, "local", "ip"), nil)
	for _, c := range []struct{ fail, want string }{
		{"open", `changed "a" (fail local → open; counters kept)`},
		{"closed", `changed "a" (fail open → closed; counters kept)`},
		{"local", `changed "a" (fail closed → local; counters kept)`},
	} {
		after := compile(t, fmt.Sprintf(file, 64, c.fail, "ip"), before)
		if got := after.Change(before).String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		before = after
	}
	// Why counters start afresh is said beside what else has changed.
	const want = `changed "a" (missing ip → skip, ipv6_prefix 64 → 48; counters start afresh); settings ipv6_prefix`
	if got := compile(t, fmt.Sprintf(file, 48, "local", "skip"), before).Change(before).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAChangeIsOneLine(t *testing.T) {
	const up = "upstream: http://a\n"
	before := compile(t, up+`
rules:
  - {name: a, limit: 100/m}
  - {name: b, limit: 5/h, algorithm: fixed_window}
  - {name: c, limit: 5/m}
  - {name: same, limit: 5/m}
shutdown_timeout: 30s
`, nil)
	after := compile(t, up+`
timeouts: {idle: 1m}
rules:
  - {name: d, limit: 1/s}
  - {name: same, limit: 5/m}
  - {name: b, limit: 5/m, algorithm: fixed_window, dry_run: true}
  - {name: a, limit: 10/m, burst: 20, reject: {status: 403}}
`, before)
	const want = `added "d"; changed "b" (limit 5/h → 5/m, dry_run false → true; counters start afresh), ` +
		`"a" (limit 100/m → 10/m, burst 100 → 20, reject; counters kept); removed "c"; settings shutdown_timeout, timeouts`
	if got := after.Change(before).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	again := compile(t, up+`
rules:
  - {name: d, limit: 1/s}
  - {name: same, limit: 5/m}
  - {name: b, limit: 5/m, algorithm: fixed_window, dry_run: true}
  - {name: a, limit: 10/m, burst: 20, reject: {status: 403}}
timeouts: {idle: 1m} # a comment
`, after)
	if c := again.Change(after); !c.Empty() || c.String() != "nothing" {
		t.Errorf("the same settings in another order: %v", c)
	}
	if again.Hash == after.Hash {
		t.Error("different files have one hash")
	}
	if got := before.Change(nil).String(); got != `added "a", "b", "c", "same"` {
		t.Errorf("the first list: %s", got)
	}
}

func TestAChangeOfIPv6PrefixShowsInRulesByAddress(t *testing.T) {
	before := compile(t, oneRule("limit: 5/m"), nil)
	after := compile(t, "ipv6_prefix: 48\n"+oneRule("limit: 5/m"), before)
	const want = `changed "a" (ipv6_prefix 64 → 48; counters start afresh); settings ipv6_prefix`
	if got := after.Change(before).String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOfManyChangedRulesTheFirstAreNamed(t *testing.T) {
	many := func(n int, limit string) string {
		var b strings.Builder
		b.WriteString("upstream: http://a\nrules:\n")
		for i := range n {
			fmt.Fprintf(&b, "- {name: r%d, limit: %s, burst: 9}\n", i, limit)
		}
		return b.String()
	}
	first := compile(t, many(30, "1/m"), nil)
	for _, tt := range []struct{ file, begin, end string }{
		{many(30, "2/m"), `changed "r0" (limit 1/m → 2/m; counters kept), "r1"`, `counters kept), and 10 more`},
		{many(60, "1/m"), `added "r30", "r31"`, `"r49", and 10 more`},
		{many(51, "1/m"), `added "r30", "r31"`, `"r49", and 1 more`},
		{many(50, "1/m"), `added "r30", "r31"`, `"r48", "r49"`},
		{"upstream: http://a\nrules: []\n", `removed "r0", "r1"`, `"r19", and 10 more`},
	} {
		got := compile(t, tt.file, first).Change(first).String()
		if !strings.HasPrefix(got, tt.begin) || !strings.HasSuffix(got, tt.end) {
			t.Errorf("%s; want %s … %s", got, tt.begin, tt.end)
		}
	}
}
