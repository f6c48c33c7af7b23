package rules

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

const (
	trustedPeer = "127.0.0.1:40000"
	trustedNets = "127.0.0.0/8 10.0.0.0/8 2001:db8:ffff::/48"
)

// clientOf returns the client of a request with those header lines.
func clientOf(t testing.TB, peer, trusted, name string, lines ...string) string {
	t.Helper()
	h := http.Header{}
	for _, line := range lines {
		h.Add(name, line)
	}
	addr, _ := ClientAddr(netip.MustParseAddrPort(peer), h, prefixes(t, trusted))
	return addr.String()
}

func TestClientBehindTrustedProxies(t *testing.T) {
	const peer = "127.0.0.1"
	long := strings.Repeat("10.0.0.9, ", 10_000)
	inputs, good := 0, 0
	for _, test := range []struct {
		xff  string // lines, separated by "\n"
		want string
	}{
		// The walk.
		{"203.0.113.9", "203.0.113.9"},
		{"6.6.6.6, 203.0.113.9, 10.1.1.1", "203.0.113.9"},
		{"6.6.6.6, 203.0.113.7", "203.0.113.7"},
		{"6.6.6.6\n203.0.113.9", "203.0.113.9"},
		{"6.6.6.6, 203.0.113.9\n10.1.1.1", "203.0.113.9"},
		{"203.0.113.9\n10.1.1.1\n10.2.2.2, 10.3.3.3", "203.0.113.9"},
		{"10.1.1.1", "10.1.1.1"},
		{"10.3.3.3, 10.2.2.2, 10.1.1.1", "10.3.3.3"},
		{"127.0.0.9", "127.0.0.9"},
		{"203.0.113.9,10.1.1.1", "203.0.113.9"},
		{"203.0.113.9 ,\t10.1.1.1 ", "203.0.113.9"},
		{"6.6.6.6, 127.0.0.1", "6.6.6.6"},
		{"2001:db8:1::1, 2001:db8:ffff::9", "2001:db8:1::1"},
		// What cannot be read ends it.
		{"203.0.113.9, unknown, 10.1.1.1", "10.1.1.1"},
		{"203.0.113.9, garbage", peer},
		{"unknown", peer},
		{"_hidden", peer},
		{"-", peer},
		{"", peer},
		{" ", peer},
		{",", peer},
		{", ,", peer},
		{"203.0.113.9,", peer},
		{"203.0.113.9, , 10.1.1.1", "10.1.1.1"},
		{"203.0.113.9\n", peer},
		{"\n203.0.113.9", "203.0.113.9"},
		{"\n10.1.1.1", "10.1.1.1"},
		{"unknown\n203.0.113.9", "203.0.113.9"},
		{"010.0.0.1", peer},
		{"1.2.3", peer},
		{"1.2.3.4.5", peer},
		{"0x7f.0.0.1", peer},
		{"2130706433", peer},
		{"256.1.1.1", peer},
		{"203.0.113.9/32", peer},
		{"203.0.113.9 10.1.1.1", peer},
		{"203.0.113.9;10.1.1.1", peer},
		{`"203.0.113.9"`, peer},
		{"example.com", peer},
		{"http://203.0.113.9", peer},
		{"203.0.113.9\x00", peer},
		{"２03.0.113.9", peer},
		{"2001:db8:::1", peer},
		{"12345::1", peer},
		// Ports, brackets, zones, mapped addresses.
		{"203.0.113.9:51234", "203.0.113.9"},
		{"203.0.113.9:1", "203.0.113.9"},
		{"203.0.113.9:", peer},
		{"203.0.113.9:65536", peer},
		{"203.0.113.9:x", peer},
		{":80", peer},
		{"[2001:db8::1]:443", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"2001:db8::1", "2001:db8::1"},
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
		{"[2001:db8::1", peer},
		{"2001:db8::1]", peer},
		{"[2001:db8::1]443", peer},
		{"[2001:db8::1]:", peer},
		{"[203.0.113.9]", peer},
		{"[]", peer},
		{"::ffff:203.0.113.9", "203.0.113.9"},
		{"::ffff:cb00:7109", "203.0.113.9"},
		{"0:0:0:0:0:ffff:203.0.113.9", "203.0.113.9"},
		{"[::ffff:203.0.113.9]:80", "203.0.113.9"},
		{"6.6.6.6, 203.0.113.9, ::ffff:10.1.2.3", "203.0.113.9"},
		{"2001:db8:1:2::1.2.3.4", "2001:db8:1:2::102:304"},
		{"fe80::1%a", "fe80::1"},
		{"[fe80::1%b]:80", "fe80::1"},
		{"fe80::1%", peer},
		{"203.0.113.9%a", peer},
		{"::ffff:203.0.113.9%a", "203.0.113.9"},
		{"::1", "::1"},
		// At most 64 hops.
		{"6.6.6.6, " + long[:64*10-2], "10.0.0.9"},
		{"6.6.6.6, " + long[:63*10-2], "6.6.6.6"},
		{long + "6.6.6.6", "6.6.6.6"},
		{"6.6.6.6, " + long[:len(long)-2], "10.0.0.9"},
	} {
		lines := strings.Split(test.xff, "\n")
		inputs++
		if got := clientOf(t, trustedPeer, trustedNets, "X-Forwarded-For", lines...); got != test.want {
			t.Errorf("X-Forwarded-For %.80q: client %s, want %s", test.xff, got, test.want)
		} else {
			good++
		}
		// The word of a peer that is not trusted is worth nothing.
		if got := clientOf(t, "198.51.100.7:9", trustedNets, "X-Forwarded-For", lines...); got != "198.51.100.7" {
			t.Errorf("X-Forwarded-For %.80q from an untrusted peer: client %s", test.xff, got)
		}
	}
	t.Attr("S02", fmt.Sprintf("%d of %d X-Forwarded-For", good, inputs))
}

func TestForwardedIsParsedOrIgnoredButNeverHalfParsed(t *testing.T) {
	const peer = "127.0.0.1"
	inputs, good := 0, 0
	for _, test := range []struct{ forwarded, want string }{
		{"for=203.0.113.9", "203.0.113.9"},
		{"For=203.0.113.9;proto=https;by=10.0.0.1", "203.0.113.9"},
		{"proto=https;FOR=203.0.113.9", "203.0.113.9"},
		{`for="203.0.113.9"`, "203.0.113.9"},
		{`for="203.0.113.9:51234"`, "203.0.113.9"},
		{`for="203.0.113.9:_port"`, "203.0.113.9"},
		{`for="[2001:db8::1]:443";proto=https`, "2001:db8::1"},
		{`for="[2001:db8::1]"`, "2001:db8::1"},
		{`for="[2001:db8::1]:_p.1-x"`, "2001:db8::1"},
		{`for="[::ffff:203.0.113.9]"`, "203.0.113.9"},
		{"for=6.6.6.6, for=203.0.113.9, for=10.1.1.1", "203.0.113.9"},
		{"for=6.6.6.6\nfor=203.0.113.9;proto=http", "203.0.113.9"},
		{"for=10.2.2.2,for=10.1.1.1", "10.2.2.2"},
		{"for=203.0.113.9 ; proto=https", "203.0.113.9"},
		{";for=203.0.113.9;;", "203.0.113.9"},
		{`for=203.0.113.9;ext="a, b;c=\"d"`, "203.0.113.9"},
		{`for=203.0.113.9;ext="\\"`, "203.0.113.9"},
		// A client cannot reach into what the proxy appended.
		{`for="6.6.6.6, for="[2001:db8::9]:1"`, "2001:db8::9"},
		{`for=6.6.6.6;by=", for="203.0.113.9:1"`, "203.0.113.9"},
		{`for=6.6.6.6;by="\, for="203.0.113.9:1";by="x"`, "203.0.113.9"},
		{`for=6.6.6.6;by="x` + "\n" + `for=203.0.113.9`, "203.0.113.9"},
		// Nothing to read.
		{`for="[2001:db8::1]:443";proto=https, for=_hid, for=unknown`, peer},
		{"for=203.0.113.9, for=_hid, for=10.1.1.1", "10.1.1.1"},
		{"for=unknown", peer},
		{`for="unknown:80"`, peer},
		{"for=_hid", peer},
		{"proto=https", peer},
		{"for=", peer},
		{"for", peer},
		{"for=203.0.113.9;for=6.6.6.6", peer},
		{"for=203.0.113.9;proto", peer},
		{"for=203.0.113.9;=x", peer},
		{"for=203.0.113.9;proto=", peer},
		{"for=203.0.113.9 proto=https", peer},
		{"for = 203.0.113.9", peer},
		{"for=203.0.113.9:51234", peer}, // a colon has to be quoted
		{"for=[2001:db8::1]", peer},
		{"for=2001:db8::1", peer},
		{`for="2001:db8::1"`, peer},
		{`for="[2001:db8::1]:_"`, peer},
		{`for="[2001:db8::1]:_a b"`, peer},
		{`for="203.0.113.9`, peer},
		{`for=203.0.113.9"`, peer},
		{`for="203.0.113.9"x`, peer},
		{`for="203.0\.113.9"`, peer},
		{"203.0.113.9", peer},
		{"", peer},
		{",", peer},
		{"for=203.0.113.9,", peer},
	} {
		lines := strings.Split(test.forwarded, "\n")
		inputs++
		if got := clientOf(t, trustedPeer, trustedNets, "Forwarded", lines...); got != test.want {
			t.Errorf("Forwarded %q: client %s, want %s", test.forwarded, got, test.want)
		} else {
			good++
		}
		if got := clientOf(t, "198.51.100.7:9", trustedNets, "Forwarded", lines...); got != "198.51.100.7" {
			t.Errorf("Forwarded %q from an untrusted peer: client %s", test.forwarded, got)
		}
	}
	t.Attr("S02", fmt.Sprintf("%d of %d Forwarded", good, inputs))
}

func TestForwardedCountsOnlyWithoutXForwardedFor(t *testing.T) {
	for _, xff := range []string{"203.0.113.9", "garbage", ""} {
		h := http.Header{"Forwarded": {"for=6.6.6.6"}, "X-Forwarded-For": {xff}}
		want := "127.0.0.1"
		if xff == "203.0.113.9" {
			want = xff
		}
		if got, _ := ClientAddr(netip.MustParseAddrPort(trustedPeer), h, prefixes(t, trustedNets)); got.String() != want {
			t.Errorf("X-Forwarded-For %q beside a Forwarded: client %v, want %s", xff, got, want)
		}
	}
}

func TestNoOtherHeaderNamesTheClient(t *testing.T) {
	for _, name := range []string{"X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-Forwarded", "X_forwarded_for"} {
		if got := clientOf(t, trustedPeer, trustedNets, name, "6.6.6.6"); got != "127.0.0.1" {
			t.Errorf("%s: client %s", name, got)
		}
	}
}

func TestThePeerIsTrustedByItsPlainAddress(t *testing.T) {
	for _, test := range []struct {
		peer, trusted, want string
		ok                  bool
	}{
		{"[::ffff:10.1.2.3]:9", "10.0.0.0/8", "203.0.113.9", true},
		{"[::ffff:10.1.2.3]:9", "", "10.1.2.3", false},
		{"[fe80::1%eth0]:9", "fe80::/10", "203.0.113.9", true},
		{"[fe80::1%eth0]:9", "10.0.0.0/8", "fe80::1", false},
		{"10.1.2.3:9", "::/0", "10.1.2.3", false},
		{"10.1.2.3:9", "private", "203.0.113.9", true},
		{"[::1]:9", "127.0.0.1", "::1", false},
	} {
		h := http.Header{"X-Forwarded-For": {"203.0.113.9"}}
		got, ok := ClientAddr(netip.MustParseAddrPort(test.peer), h, prefixes(t, test.trusted))
		if got.String() != test.want || ok != test.ok {
			t.Errorf("peer %s, trusted %q: %v, %v; want %s, %v", test.peer, test.trusted, got, ok, test.want, test.ok)
		}
	}
	if got, ok := ClientAddr(netip.AddrPort{}, http.Header{"X-Forwarded-For": {"203.0.113.9"}}, prefixes(t, "0.0.0.0/0 ::/0")); got.IsValid() || ok {
		t.Errorf("a peer without an address: %v, %v", got, ok)
	}
}

func TestClientAddrTakesNoMemory(t *testing.T) {
	trusted := prefixes(t, trustedNets)
	peer := netip.MustParseAddrPort(trustedPeer)
	for _, h := range []http.Header{
		{},
		{"X-Forwarded-For": {"6.6.6.6, [2001:db8::1]:443, 10.1.1.1:80"}},
		{"Forwarded": {`for="[2001:db8::1]:443";proto=https, for=10.1.1.1`}},
	} {
		if n := testing.AllocsPerRun(100, func() { ClientAddr(peer, h, trusted) }); n != 0 {
			t.Errorf("ClientAddr with %v allocates %v times", h, n)
		}
	}
}

func FuzzClientAddr(f *testing.F) {
	f.Add("6.6.6.6, 203.0.113.9", "for=6.6.6.6", uint8(0))
	f.Add("[2001:db8::1]:443,10.1.1.1", `for="[2001:db8::1]:443", for=10.1.1.1`, uint8(1))
	f.Add("fe80::1%a", `for="\", for=10.1.1.1`, uint8(2))
	f.Add(", ,", `";,=`, uint8(3))
	f.Fuzz(func(t *testing.T, xff, forwarded string, mode uint8) {
		h, name := http.Header{}, "X-Forwarded-For"
		if mode&1 == 0 {
			h.Add(name, xff)
		} else {
			name = "Forwarded"
			h.Add(name, forwarded)
		}
		trusted := prefixes(t, trustedNets)
		peer := netip.MustParseAddrPort(trustedPeer)
		got, ok := ClientAddr(peer, h, trusted)
		if !ok || !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%v: %v, %v", h, got, ok)
		}
		// Whatever the client has sent, the entry that the proxy appends counts.
		entry, want := "203.0.113.9", "203.0.113.9"
		if name == "Forwarded" {
			entry, want = `for="[2001:db8::9]:1";proto=https`, "2001:db8::9"
		}
		if mode&2 == 0 {
			h[name][0] += ", " + entry
		} else {
			h.Add(name, entry)
		}
		if got, _ := ClientAddr(peer, h, trusted); got.String() != want {
			t.Fatalf("%v: %v, want %s", h, got, want)
		}
		if got, ok := ClientAddr(netip.MustParseAddrPort("198.51.100.7:9"), h, trusted); ok || got.String() != "198.51.100.7" {
			t.Fatalf("%v from an untrusted peer: %v, %v", h, got, ok)
		}
	})
}
