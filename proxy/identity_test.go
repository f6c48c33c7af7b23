package proxy

import (
	"fmt"
	"strings"
	"testing"
)

// pass counts the answers 200 to n requests of which header makes the lines; any
// other answer must be 429.
func (s *site) pass(n int, header func(i int) []string) (passed int) {
	s.t.Helper()
	for i := range n {
		switch r := s.get("/", header(i)...); r.StatusCode {
		case 200:
			passed++
		case 429:
		default:
			s.t.Fatalf("request %d: %d %q", i, r.StatusCode, r.body)
		}
	}
	return passed
}

func TestSpoofedIdentityHeadersBuyNothing(t *testing.T) {
	tries, extra := 0, 0
	for _, name := range []string{
		"X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "CF-Connecting-IP", "X-Client-IP", "X-Forwarded",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, fivePerHour, nil)
			// Each on a connection of its own: the port is no part of the key either.
			passed := s.pass(50, func(i int) []string {
				value := fmt.Sprintf("203.0.113.%d", i)
				if name == "Forwarded" {
					value = "for=" + value
				}
				return []string{name + ": " + value}
			})
			n := len(s.requests())
			if passed != 5 || n != 5 {
				t.Errorf("%d of 50 passed and %d reached the upstream, want 5", passed, n)
			}
			tries, extra = tries+50, extra+n-5
		})
	}
	t.Attr("S01", fmt.Sprintf("%d extra permits of %d tries", extra, tries))
}

func TestAForgedHeaderDoesNotLockItsVictimOut(t *testing.T) {
	s := newSite(t, "trusted_proxies: [127.0.0.1/32]\n"+fivePerHour, nil)
	attack := func(int) []string { return []string{"X-Forwarded-For: 198.51.100.7, 203.0.113.66"} }
	if passed := s.pass(20, attack); passed != 5 {
		t.Errorf("the attacker passed %d times, want 5", passed)
	}
	if passed := s.pass(6, func(int) []string { return []string{"X-Forwarded-For: 198.51.100.7"} }); passed != 5 {
		t.Errorf("the victim passed %d times, want its 5", passed)
	}
}

func TestTheClientIsTheNearestAddressThatIsNotTrusted(t *testing.T) {
	// All requests of a row must be one client: 5 of 20 pass.
	rows := []struct {
		name   string
		header func(i int) []string
	}{
		{"behind an invented one", func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 10.%d.2.3, 203.0.113.7", i)} }},
		{"on a second line", func(i int) []string {
			return []string{fmt.Sprintf("X-Forwarded-For: 6.6.6.%d", i), "X-Forwarded-For: 203.0.113.7"}
		}},
		{"before trusted hops", func(i int) []string {
			return []string{fmt.Sprintf("X-Forwarded-For: 6.6.6.%d, 203.0.113.7, 127.0.0.9", i)}
		}},
		{"garbage at the right is the peer", func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 6.6.6.%d, unknown", i)} }},
		{"garbage behind a trusted hop", func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 6.6.6.%d, _x, 127.0.0.9", i)} }},
		{"ports", func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 203.0.113.9:%d", 1000+i)} }},
		{"a /64", func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 2001:db8::%x", i+1)} }},
		{"zones", func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: fe80::1%%eth%d", i)} }},
		{"X-Real-IP says nothing", func(i int) []string { return []string{fmt.Sprintf("X-Real-IP: 203.0.113.%d", i)} }},
		{"Forwarded yields to X-Forwarded-For", func(i int) []string {
			return []string{fmt.Sprintf("Forwarded: for=6.6.6.%d", i), "X-Forwarded-For: 203.0.113.7"}
		}},
		{"Forwarded alone", func(i int) []string {
			return []string{fmt.Sprintf(`Forwarded: for=6.6.6.%d, for="203.0.113.7:%d"`, i, 1000+i)}
		}},
		{"an empty line more", func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 6.6.6.%d", i), "X-Forwarded-For:"} }},
		{"10,000 entries", func(i int) []string {
			return []string{"X-Forwarded-For: " + fmt.Sprint(i) + strings.Repeat(",", 9_999) + "203.0.113.7"}
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newSite(t, "trusted_proxies: [127.0.0.0/8]\n"+fivePerHour, nil)
			if passed := s.pass(20, row.header); passed != 5 {
				t.Errorf("%d of 20 passed, want 5", passed)
			}
		})
	}
}

func TestAnInvalidEntryAtTheRightIsThePeerItself(t *testing.T) {
	s := newSite(t, "trusted_proxies: [127.0.0.1/32]\n"+fivePerHour, nil)
	if passed := s.pass(5, func(int) []string { return nil }); passed != 5 {
		t.Fatalf("the peer passed %d times, want 5", passed)
	}
	if passed := s.pass(1, func(int) []string { return []string{"X-Forwarded-For: 203.0.113.7, 1.2.3"} }); passed != 0 {
		t.Error("an entry that cannot be read was another client than the peer, whose limit is used up")
	}
}

func TestOneAddressHasOneCounterHoweverItIsWritten(t *testing.T) {
	s := newSite(t, "trusted_proxies: [127.0.0.1/32]\nupstream: UPSTREAM\nrules: [{ name: a, limit: 2/m }]\n", nil)
	for i, step := range []struct {
		sent   string
		want   int
		client string
	}{
		{"::ffff:192.0.2.1", 200, "192.0.2.1"},
		{"192.0.2.1", 200, "192.0.2.1"},
		{"192.0.2.1:51324", 429, "192.0.2.1"},
		{"::ffff:192.0.2.2", 200, "192.0.2.2"},
		{"[2001:db8::1]:443", 200, "2001:db8::1"},
		{"2001:DB8:0:0:0:0:0:1", 200, "2001:db8::1"},
		{"fe80::1%eth0", 200, "fe80::1"},
		{"[fe80::1%eth1]:80", 200, "fe80::1"},
		{"fe80::1", 429, "fe80::1"},
	} {
		if got := s.get("/", "X-Forwarded-For: "+step.sent).StatusCode; got != step.want {
			t.Errorf("%s: %d, want %d", step.sent, got, step.want)
		}
		if got := s.entries(i + 1)[i]["client"]; got != step.client {
			t.Errorf("%s: logged as %v, want %s", step.sent, got, step.client)
		}
	}
}

func TestAnAddressAdmitsItsLimitInWhateverFamilyOfSpellings(t *testing.T) {
	mapped := []string{"::ffff:192.0.2.1", "::ffff:c000:201", "0:0:0:0:0:ffff:192.0.2.1", "::FFFF:192.0.2.1", "192.0.2.1"}
	long := []string{"2001:db8::1", "2001:DB8::1", "2001:db8:0:0:0:0:0:1", "2001:0db8::0001", "[2001:db8::1]"}
	families := []struct {
		name string
		addr func(i int) string
	}{
		{"addresses of a /64", func(i int) string { return fmt.Sprintf("2001:db8:1:2:%x:%x::%x", i, 7*i, i+1) }},
		{"IPv4 mapped into IPv6", func(i int) string { return mapped[i%len(mapped)] }},
		{"ports of IPv4", func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1024+i) }},
		{"ports of IPv6", func(i int) string { return fmt.Sprintf("[2001:db8::1]:%d", 1024+i) }},
		{"zones", func(i int) string { return fmt.Sprintf("fe80::1%%eth%d", i) }},
		{"ways to write an address", func(i int) string { return long[i%len(long)] }},
	}
	for _, f := range families {
		s := newSite(t, "trusted_proxies: [127.0.0.1/32]\n"+fivePerHour, nil)
		if passed := s.pass(50, func(i int) []string { return []string{"X-Forwarded-For: " + f.addr(i)} }); passed != 5 || len(s.requests()) != 5 {
			t.Errorf("%s: %d of 50 passed and %d reached the upstream, want 5", f.name, passed, len(s.requests()))
		}
	}
	t.Attr("S03", fmt.Sprintf("5 admitted of 50 in each of %d families", len(families)))
}

func TestFiftyNetworksOfIPv6AreFiftyClients(t *testing.T) {
	s := newSite(t, "trusted_proxies: [127.0.0.1/32]\nupstream: UPSTREAM\nrules: [{ name: a, limit: 1/h }]\n", nil)
	if passed := s.pass(50, func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 2001:db8:0:%x::1", i)} }); passed != 50 {
		t.Errorf("%d passed, want one of each of 50 networks", passed)
	}
	if passed := s.pass(10, func(i int) []string { return []string{fmt.Sprintf("X-Forwarded-For: 2001:db8:0:%x::ffff", i)} }); passed != 0 {
		t.Errorf("%d more passed from networks that had theirs", passed)
	}
}

func TestAnExemptNetworkIsKnownByTheResolvedAddress(t *testing.T) {
	const rule = "exempt: { ip: [10.0.0.0/8] }\n" + fivePerHour
	s := newSite(t, "trusted_proxies: [127.0.0.1/32]\n"+rule, nil)
	for range 50 {
		r := s.get("/", "X-Forwarded-For: 10.1.2.3")
		if r.StatusCode != 200 || r.Header.Get("RateLimit") != "" {
			t.Fatalf("an exempt client: %d, RateLimit %q", r.StatusCode, r.Header.Get("RateLimit"))
		}
	}
	from := func(addr string) func(int) []string {
		return func(int) []string { return []string{"X-Forwarded-For: " + addr} }
	}
	if passed := s.pass(10, from("198.51.100.7")); passed != 5 {
		t.Errorf("a client outside passed %d times, want 5", passed)
	}
	if passed := s.pass(10, from("10.1.2.3, 198.51.100.7")); passed != 0 {
		t.Errorf("the same client passed %d more times with an exempt address in front", passed)
	}
	if passed := s.pass(6, from("198.51.100.8")); passed != 5 {
		t.Errorf("another client passed %d times, want its own 5", passed)
	}

	direct := newSite(t, rule, nil)
	if passed := direct.pass(10, from("10.1.2.3")); passed != 5 {
		t.Errorf("with the exempt address forged to an open gateway %d passed, want 5", passed)
	}
}

// Whatever is done to the header that is the key, the limiter counts what the
// upstream sees.
func TestNoTrickWithAKeysHeaderPassesTwice(t *testing.T) {
	tricks := []struct {
		name  string
		first func(i int) []string // passes once
		again func(i int) []string // the same for the upstream
	}{
		{
			"twice, in both orders",
			func(i int) []string { return turned(i, "X-Api-Key: good", fmt.Sprintf("X-Api-Key: k%d", i)) },
			func(i int) []string { return turned(i, "x-api-key: good", fmt.Sprintf("X-API-KEY: k%d", i)) },
		}, {
			"under an alias",
			func(i int) []string { return []string{fmt.Sprintf("X-Api-Key: real%d", i)} },
			func(i int) []string {
				return []string{fmt.Sprintf("X-Api-Key: real%d", i), "X_Api_Key: a", "X-Api_Key: b"}
			},
		}, {
			"nominated in Connection",
			func(i int) []string { return []string{fmt.Sprintf("X-Api-Key: mine%d", i)} },
			func(i int) []string {
				return []string{fmt.Sprintf("X-Api-Key: mine%d", i), "Connection: X-Api-Key, x-api-key", "Connection: close"}
			},
		},
	}
	tries, bypasses := 0, 0
	for _, trick := range tricks {
		s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: k, key: header.X-Api-Key, missing: reject, limit: 1/h }]\n", nil)
		for i := range 50 {
			tries++
			if r := s.get("/", trick.first(i)...); r.StatusCode != 200 {
				t.Fatalf("%s, %d: %d, want 200", trick.name, i, r.StatusCode)
			}
			if r := s.get("/", trick.again(i)...); r.StatusCode != 429 {
				t.Errorf("%s, %d: %d, want 429", trick.name, i, r.StatusCode)
				bypasses++
			}
		}
		if n := len(s.requests()); n != 50 {
			t.Errorf("%s: %d requests at the upstream, want 50", trick.name, n)
		}
	}
	t.Attr("S04", fmt.Sprintf("%d bypasses of %d", bypasses, tries))
}

// turned returns a and b, in the other order when i is odd.
func turned(i int, a, b string) []string {
	if i%2 == 1 {
		return []string{b, a}
	}
	return []string{a, b}
}
