package rules

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gateway/limit"
)

// parse parses a file that must be good.
func parse(t testing.TB, text string) *File {
	t.Helper()
	f, err := Parse("gateway.yaml", []byte(text))
	if err != nil {
		t.Fatalf("refused:\n%v", err)
	}
	return f
}

// compile parses and compiles a file that must be good.
func compile(t testing.TB, text string, prev *Set) *Set {
	t.Helper()
	s, err := parse(t, text).Compile(prev)
	if err != nil {
		t.Fatalf("does not compile: %v", err)
	}
	return s
}

// oneRule is a file whose only rule has these settings after its name.
func oneRule(settings string) string {
	return "upstream: http://a\nrules:\n  - {name: a, " + settings + "}\n"
}

func TestCompileKeepsCountersOfARuleThatMeansTheSame(t *testing.T) {
	for _, tt := range []struct {
		name, before, after string
		kept, newNumbers    bool
	}{
		{"nothing", "limit: 100/m", "limit: 100/m", true, false},
		{"the same in other words", "limit: 100/m", "limit: 100 per 60 seconds, key: ip, burst: 100", true, false},
		{"limit", "limit: 100/m", "limit: 10/m", true, true},
		{"burst", "limit: 100/m", "limit: 100/m, burst: 7", true, true},
		{"period of a bucket", "limit: 100/m", "limit: 100/h", true, true},
		{"limit of a window", "limit: 5/h, algorithm: fixed_window", "limit: 8/h, algorithm: fixed_window", true, true},
		{"period of a window", "limit: 5/h, algorithm: fixed_window", "limit: 5/m, algorithm: fixed_window", false, false},
		{"max_wait", "limit: 5/s", "limit: 5/s, max_wait: 1s", true, true},
		{"max_wait of a queue", "limit: 5/s, algorithm: leaky_bucket, max_wait: 2s", "limit: 5/s, algorithm: leaky_bucket, max_wait: 1s", true, true},
		{"penalty", "limit: 5/s", "limit: 5/s, penalty: {after: 5/m, block: 1m}", true, true},
		{"the same penalty", "limit: 5/s, penalty: {after: 5/m, block: 1m}", "limit: 5/s, penalty: {after: 5/m, block: 60s, max: 4m}", true, false},
		{"limit of a calendar", "limit: 5/day, algorithm: fixed_window, calendar: {zone: Europe/Berlin}", "limit: 6/d, algorithm: fixed_window, calendar: {zone: Europe/Berlin}", true, true},
		{"nothing of a calendar", "limit: 5/month, algorithm: fixed_window, calendar: {zone: UTC}", "limit: 5/month, algorithm: fixed_window, calendar: {zone: UTC}", true, false},
		{"zone", "limit: 5/day, algorithm: fixed_window, calendar: {zone: Europe/Berlin}", "limit: 5/day, algorithm: fixed_window, calendar: {zone: Europe/Paris}", false, false},
		{"span", "limit: 5/week, algorithm: fixed_window, calendar: {zone: UTC}", "limit: 5/month, algorithm: fixed_window, calendar: {zone: UTC}", false, false},
		{"a calendar added", "limit: 5/d, algorithm: fixed_window", "limit: 5/d, algorithm: fixed_window, calendar: {zone: UTC}", false, false},
		{"algorithm", "limit: 5/h", "limit: 5/h, algorithm: fixed_window", false, false},
		{"key", "limit: 5/h", "limit: 5/h, key: header.X-API-Key", false, false},
		{"order of a key", "limit: 5/h, key: [ip, host]", "limit: 5/h, key: [host, ip]", false, false},
		{"bits of a key", "limit: 5/h, key: ip", "limit: 5/h, key: ip/48", false, false},
		{"missing", "limit: 5/h, key: header.X", "limit: 5/h, key: header.X, missing: skip", false, false},
		{"missing of a key that never is", "limit: 5/h", "limit: 5/h, missing: reject", true, false},
		{"dry_run", "limit: 5/h", "limit: 5/h, dry_run: true", true, false},
		{"match", "limit: 5/h", "limit: 5/h, match: POST /login", true, false},
		{"reject", "limit: 5/h", "limit: 5/h, reject: {status: 403}", true, false},
		{"max_keys", "limit: 5/h", "limit: 5/h, max_keys: 5000", true, false},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			before := compile(t, oneRule(tt.before), nil)
			before.Activate(0)
			after := compile(t, oneRule(tt.after), before)
			old, r := before.Rules[0], after.Rules[0]
			if kept := r.Base.Live == old.Base.Live; kept != tt.kept {
				t.Errorf("kept = %v, want %v", kept, tt.kept)
			}
			wantGen := uint32(1)
			if tt.newNumbers {
				wantGen = 2
			}
			if r.Base.Gen != wantGen {
				t.Errorf("Gen = %d, want %d", r.Base.Gen, wantGen)
			}
			if c := after.Change(before); len(c.Changed) > 0 && c.Changed[0].Kept != tt.kept {
				t.Errorf("the change says kept = %v, want %v", c.Changed[0].Kept, tt.kept)
			}
		})
	}
}

func TestIPv6PrefixIsPartOfAKeyByAddressOnly(t *testing.T) {
	for key, kept := range map[string]bool{
		"key: ip": false, "key: host": true, "key: header.X": false, "key: header.X, missing: reject": true,
	} {
		before := compile(t, oneRule("limit: 5/m, "+key), nil)
		after := compile(t, "ipv6_prefix: 48\n"+oneRule("limit: 5/m, "+key), before)
		if got := after.Rules[0].Base.Live == before.Rules[0].Base.Live; got != kept {
			t.Errorf("%s: kept = %v, want %v", key, got, kept)
		}
	}
}

func TestRenamedAndReturningRulesStartAfresh(t *testing.T) {
	a := compile(t, "upstream: http://a\nrules: [{name: a, limit: 5/h}, {name: b, limit: 5/h}]\n", nil)
	renamed := compile(t, "upstream: http://a\nrules: [{name: a2, limit: 5/h}, {name: b, limit: 5/h}]\n", a)
	if renamed.Rules[0].Base.Live == a.Rules[0].Base.Live {
		t.Error("a renamed rule has the counters of the old name")
	}
	if renamed.Rules[1].Base.Live != a.Rules[1].Base.Live {
		t.Error("the rule beside it has lost its counters")
	}
	back := compile(t, "upstream: http://a\nrules: [{name: a, limit: 5/h}, {name: b, limit: 5/h}]\n", renamed)
	if back.Rules[0].Base.Live == a.Rules[0].Base.Live {
		t.Error("a rule that was removed and came back has its old counters")
	}
}

func TestADroppedCompileLeavesNothingBehind(t *testing.T) {
	before := compile(t, oneRule("limit: 100/m"), nil)
	before.Activate(0)
	table := before.Rules[0].Base.Live.Table
	numbers, gen, hash := table.Numbers(), table.Generation(), before.Hash
	for range 3 {
		compile(t, "max_memory: 16MiB\n"+oneRule("limit: 1/m, max_keys: 1000"), before)
	}
	if table.Numbers() != numbers || table.Generation() != gen || before.Hash != hash || before.Rules[0].Base.Gen != gen {
		t.Errorf("numbers %v, generation %d after dropped compiles; want %v, %d", table.Numbers(), table.Generation(), numbers, gen)
	}
	// Compiled again and put in force, the next generation is still the next.
	after := compile(t, oneRule("limit: 1/m"), before)
	after.Activate(1)
	after.Activate(2)
	if table.Generation() != gen+1 || table.Numbers() != after.Rules[0].Base.Numbers {
		t.Errorf("generation %d, numbers %v; want %d, %v", table.Generation(), table.Numbers(), gen+1, after.Rules[0].Base.Numbers)
	}
}

func TestActivateAppliesNewNumbersToWhatWasUsed(t *testing.T) {
	before := compile(t, oneRule("limit: 5/h, algorithm: fixed_window"), nil)
	before.Activate(0)
	f := request("192.0.2.1")
	now := limit.Instant(time.Minute)
	for i := range 5 {
		if !take(before, f, now) {
			t.Fatalf("request %d is refused", i)
		}
	}
	after := compile(t, oneRule("limit: 8/h, algorithm: fixed_window"), before)
	if take(before, f, now) {
		t.Error("compiling has changed the limit in force")
	}
	after.Activate(now)
	for i := range 3 {
		if !take(after, f, now) {
			t.Errorf("request %d of the 3 left is refused", i)
		}
	}
	if take(after, f, now) {
		t.Error("more than 8 pass")
	}
	lower := compile(t, oneRule("limit: 3/h, algorithm: fixed_window"), after)
	lower.Activate(now)
	if take(lower, f, now) {
		t.Error("a lower limit does not hold at once")
	}
}

// request returns what is known of a GET / from addr.
func request(addr string) *Facts {
	return &Facts{Method: "GET", Path: "/", Host: "example.com", Client: netip.MustParseAddr(addr), Header: http.Header{}}
}

// take asks all rules of s and reports whether the request passes.
func take(s *Set, f *Facts, now limit.Instant) bool {
	var claims []limit.Claim
	for _, h := range s.Match(f, nil) {
		var c limit.Claim
		h.Claim(&c)
		claims = append(claims, c)
	}
	var l limit.Limiter
	_, v := l.Acquire(context.Background(), now, claims)
	return v.OK
}
