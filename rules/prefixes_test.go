package rules

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// prefixes returns the set that texts, separated by spaces, stand for.
func prefixes(t testing.TB, texts string) Prefixes {
	t.Helper()
	var all []netip.Prefix
	for text := range strings.FieldsSeq(texts) {
		list, err := ParsePrefix(text)
		if err != nil {
			t.Fatalf("ParsePrefix(%q): %v", text, err)
		}
		all = append(all, list...)
	}
	return NewPrefixes(all)
}

func TestPrefixesContainTheirAddresses(t *testing.T) {
	for _, test := range []struct{ set, in, out string }{
		{"", "", "0.0.0.0 192.0.2.1 :: 2001:db8::1"},
		{"192.0.2.1", "192.0.2.1 ::ffff:192.0.2.1 ::ffff:c000:201", "192.0.2.0 192.0.2.2 ::192.0.2.1 ::"},
		{"10.0.0.0/8", "10.0.0.0 10.255.255.255 ::ffff:10.1.2.3", "9.255.255.255 11.0.0.0 ::a00:0 ::"},
		{"10.1.2.3/8", "10.0.0.0 10.255.255.255", "9.255.255.255 11.0.0.0"},
		{"::ffff:10.0.0.0/104", "10.1.2.3 ::ffff:10.1.2.3", "11.0.0.0 ::"},
		{"::ffff:192.0.2.1", "192.0.2.1", "192.0.2.2"},
		{"2001:db8::/32", "2001:db8:: 2001:db8:ffff::1", "2001:db7:ffff::1 2001:db9:: 32.1.13.184"},
		{"fe80::/10", "fe80::1 fe80::1%eth0", "fec0::1"},
		{"0.0.0.0/0", "0.0.0.0 255.255.255.255 ::ffff:1.2.3.4", ":: ::1 2001:db8::1"},
		{"::/0", ":: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "0.0.0.0 1.2.3.4 ::ffff:1.2.3.4"},
		{"10.0.0.0/9 10.128.0.0/9", "10.0.0.0 10.127.255.255 10.128.0.0", "11.0.0.0"},
		{"10.0.0.0/8 10.1.0.0/16 10.2.3.4", "10.200.0.1 10.1.1.1", "11.0.0.0"},
		{"10.2.3.4 10.0.0.0/8", "10.2.3.5", ""},
		{"255.255.255.255 ::", "255.255.255.255 ::", "::1 255.255.255.254"},
		{"private", "127.0.0.1 127.255.0.1 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.1.1 ::1 fc00::1 fdff::1 fe80::1%lo ::ffff:10.0.0.1",
			"128.0.0.1 172.15.0.1 172.32.0.1 192.169.0.1 100.64.0.1 8.8.8.8 :: ::2 fec0::1 2001:db8::1"},
	} {
		p := prefixes(t, test.set)
		for a := range strings.FieldsSeq(test.in) {
			if !p.Contains(netip.MustParseAddr(a)) {
				t.Errorf("%q does not contain %s", test.set, a)
			}
		}
		for a := range strings.FieldsSeq(test.out) {
			if p.Contains(netip.MustParseAddr(a)) {
				t.Errorf("%q contains %s", test.set, a)
			}
		}
	}
}

func TestNoAddressIsInNoSet(t *testing.T) {
	if prefixes(t, "0.0.0.0/0 ::/0").Contains(netip.Addr{}) {
		t.Error("the zero Addr is in a set")
	}
}

func TestPrefixesKnowWhatTheyCover(t *testing.T) {
	for _, test := range []struct {
		set    string
		v4, v6 bool
	}{
		{"", false, false},
		{"private", false, false},
		{"0.0.0.0/0", true, false},
		{"::/0", false, true},
		{"0.0.0.0/0 ::/0", true, true},
		{"0.0.0.0/1 128.0.0.0/1", true, false},
		{"8000::/1 ::/1 10.0.0.0/8", false, true},
		{"::ffff:0:0/96", true, false},
		{"0.0.0.0/1", false, false},
	} {
		if v4, v6 := prefixes(t, test.set).Covers(); v4 != test.v4 || v6 != test.v6 {
			t.Errorf("%q covers %v, %v; want %v, %v", test.set, v4, v6, test.v4, test.v6)
		}
	}
}

func TestPrefixesCompareAsSets(t *testing.T) {
	for _, test := range []struct {
		a, b       string
		equal, all bool // all: a holds all of b
	}{
		{"", "", true, true},
		{"10.0.0.0/8", "", false, true},
		{"", "10.0.0.0/8", false, false},
		{"10.0.0.0/8", "10.0.0.0/9 10.128.0.0/9", true, true},
		{"10.0.0.0/8", "10.1.0.0/16 10.2.0.1", false, true},
		{"10.0.0.0/8", "10.1.0.0/16 11.2.0.1", false, false},
		{"10.0.0.0/8", "10.0.0.0/7", false, false},
		{"10.0.0.0/8", "::/0", false, false},
		{"::/0", "10.0.0.0/8", false, false},
		{"private", "fd00::/8 192.168.0.0/24", false, true},
	} {
		a, b := prefixes(t, test.a), prefixes(t, test.b)
		if got := a.Equal(b); got != test.equal {
			t.Errorf("%q equals %q: %v", test.a, test.b, got)
		}
		if got := a.ContainsAll(b); got != test.all {
			t.Errorf("%q holds all of %q: %v", test.a, test.b, got)
		}
	}
}

func TestBadPrefixesSayWhatToWrite(t *testing.T) {
	for _, test := range []struct {
		text     string
		off, len int
		want     string
	}{
		{"", 0, 0, "empty"},
		{"10.0.0.0/33", 9, 2, "from 0 to 32"},
		{"10.0.0.0/", 9, 0, "from 0 to 32"},
		{"10.0.0.0/x", 9, 1, "from 0 to 32"},
		{"10.0.0.0/255.0.0.0", 9, 9, "from 0 to 32"},
		{"2001:db8::/129", 11, 3, "from 0 to 128"},
		{"010.0.0.1", 0, 9, "not an address"},
		{"1.2.3", 0, 5, "not an address"},
		{"1.2.3/8", 0, 5, "not an address"},
		{"fe80::1%eth0", 0, 12, "zone"},
		{"fe80::%eth0/10", 0, 11, "zone"},
		{"[2001:db8::1]", 0, 13, "brackets"},
		{"192.0.2.1:80", 0, 12, "leave out the port"},
		{"192.0.2.*", 0, 9, "write a CIDR"},
		{"192.0.2.1-192.0.2.9", 0, 19, "as CIDRs"},
		{"localhost", 0, 9, "127.0.0.1 and ::1"},
		{"Private", 0, 7, `write "private"`},
		{"example.com", 0, 11, "not an address"},
		{"2001:db8:::", 0, 11, "not an address"},
	} {
		list, err := ParsePrefix(test.text)
		if err == nil {
			t.Errorf("ParsePrefix(%q) = %v, want an error", test.text, list)
			continue
		}
		if err.Off != test.off || err.Len != test.len || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParsePrefix(%q): %d+%d %v; want %d+%d %q", test.text, err.Off, err.Len, err, test.off, test.len, test.want)
		}
	}
}

func FuzzPrefixesAgreeWithAList(f *testing.F) {
	f.Add(uint64(1), uint8(3))
	f.Add(uint64(2), uint8(40))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		addr := func() netip.Addr { // near each other, so that ranges meet
			if rnd.IntN(2) == 0 {
				return netip.AddrFrom4([4]byte{byte(rnd.IntN(2)) * 255, 0, byte(rnd.IntN(4)), byte(rnd.Uint32())})
			}
			return netip.AddrFrom16([16]byte{0: byte(rnd.IntN(2)) * 255, 10: 0xff, 11: byte(rnd.IntN(2)) * 255, 14: byte(rnd.IntN(4)), 15: byte(rnd.Uint32())})
		}
		list := make([]netip.Prefix, n)
		for i := range list {
			a := addr().Unmap()
			list[i] = netip.PrefixFrom(a, max(a.BitLen()-rnd.IntN(12), 0))
		}
		set := NewPrefixes(list)
		for range 200 {
			a := addr().Unmap()
			want := false
			for _, p := range list {
				want = want || p.Contains(a)
			}
			if got := set.Contains(a); got != want {
				t.Fatalf("%v contain %v: %v, want %v", list, a, got, want)
			}
		}
		for i := 1; i < len(set.spans); i++ {
			if touches(set.spans[i-1], set.spans[i]) {
				t.Fatalf("%v touch", set.spans[i-1:i+1])
			}
		}
	})
}
