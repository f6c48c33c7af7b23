package rules

import "testing"

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
