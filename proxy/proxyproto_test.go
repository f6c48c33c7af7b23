package proxy

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"gateway/rules"
)

// behindBalancer makes the site take connections from trusted only, each with a
// PROXY header.
func behindBalancer(t *testing.T, head string, trusted ...string) *site {
	s := newSite(t, head+"\nupstream: UPSTREAM\nrules: [{ name: all, limit: 2/h }]\n", nil)
	var prefixes []string
	prefixes = append(prefixes, trusted...)
	file, err := rules.Parse("t", []byte("trusted_proxies: ["+strings.Join(prefixes, ", ")+"]\nupstream: http://a\nrules: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.letIn(Entry{Proxies: &file.TrustedProxies, PerAddress: 50, IPv6Prefix: 64})
	return s
}

// v2 is a header of version 2: command and family as given, then the addresses.
func v2(command, family byte, block string) string {
	var b bytes.Buffer
	b.WriteString("\r\n\r\n\x00\r\nQUIT\n")
	b.WriteByte(0x20 | command)
	b.WriteByte(family)
	binary.Write(&b, binary.BigEndian, uint16(len(block)))
	return b.String() + block
}

const (
	hello = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	v4    = "\xc0\x00\x02\x07\xc0\x00\x02\x01\x30\x39\x01\xbb" // 192.0.2.7:12345 to 192.0.2.1:443
)

var v6 = string(net.ParseIP("2001:db8::7").To16()) + string(net.ParseIP("2001:db8::1").To16()) + "\x30\x39\x01\xbb"

func TestTheSourceOfAPROXYHeaderIsThePeer(t *testing.T) {
	for _, row := range []struct{ name, head, client string }{
		{"v1", "PROXY TCP4 192.0.2.7 192.0.2.1 12345 443\r\n", "192.0.2.7"},
		{"v1 IPv6", "PROXY TCP6 2001:db8::7 2001:db8::1 12345 443\r\n", "2001:db8::7"},
		{"v1 mapped", "PROXY TCP6 ::ffff:192.0.2.7 ::1 1 443\r\n", "192.0.2.7"},
		{"v1 unknown", "PROXY UNKNOWN\r\n", "127.0.0.1"},
		{"v1 unknown, long", "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "127.0.0.1"},
		{"v2", v2(1, 0x11, v4), "192.0.2.7"},
		{"v2 with TLVs", v2(1, 0x11, v4+"\x04\x00\x03abc"), "192.0.2.7"},
		{"v2 IPv6", v2(1, 0x21, v6), "2001:db8::7"},
		{"v2 local", v2(0, 0, ""), "127.0.0.1"},
		{"v2 local with addresses", v2(0, 0x11, v4), "127.0.0.1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := behindBalancer(t, "", "127.0.0.1")
			for i, want := range []int{200, 200, 429} { // one client, however it comes
				w := s.from("127.0.0.1")
				w.send(row.head + hello)
				if r := w.mustAnswer("GET"); r.StatusCode != want {
					t.Errorf("request %d: %d, want %d", i, r.StatusCode, want)
				}
				w.Close()
			}
			if got := s.requests()[0].Header.Get("X-Forwarded-For"); got != row.client {
				t.Errorf("X-Forwarded-For %q, want %q", got, row.client)
			}
		})
	}
}

func TestXForwardedForIsBelievedOfATrustedSource(t *testing.T) {
	// 10.0.0.0/8 is a proxy in front of the balancer.
	s := behindBalancer(t, "trusted_proxies: [127.0.0.1, 10.0.0.0/8]", "127.0.0.1", "10.0.0.0/8")
	for _, row := range []struct{ source, want string }{{"10.0.0.9", "198.51.100.3"}, {"192.0.2.9", "192.0.2.9"}} {
		w := s.from("127.0.0.1")
		w.send("PROXY TCP4 " + row.source + " 192.0.2.1 1 443\r\nGET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.3\r\n\r\n")
		w.mustAnswer("GET")
		all := s.requests()
		if got := all[len(all)-1].Header.Get("X-Real-Ip"); got != row.want {
			t.Errorf("from %s: X-Real-Ip %q, want %q", row.source, got, row.want)
		}
	}
}

func TestAConnectionWithoutAGoodPROXYHeaderIsClosed(t *testing.T) {
	s := behindBalancer(t, "timeouts: { read_header: 300ms }", "127.0.0.1")
	for name, head := range map[string]string{
		"none":                    "",
		"TLS":                     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"another word":            "PROXX TCP4 192.0.2.7 192.0.2.1 1 443\r\n",
		"lower case":              "proxy TCP4 192.0.2.7 192.0.2.1 1 443\r\n",
		"v1 line feed":            "PROXY TCP4 192.0.2.7 192.0.2.1 1 443\n",
		"v1 two spaces":           "PROXY  TCP4 192.0.2.7 192.0.2.1 1 443\r\n",
		"v1 a port too many":      "PROXY TCP4 192.0.2.7 192.0.2.1 1 443 9\r\n",
		"v1 no port":              "PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n",
		"v1 port 65536":           "PROXY TCP4 192.0.2.7 192.0.2.1 65536 443\r\n",
		"v1 port -1":              "PROXY TCP4 192.0.2.7 192.0.2.1 -1 443\r\n",
		"v1 octal":                "PROXY TCP4 192.0.02.7 192.0.2.1 1 443\r\n",
		"v1 wrong family":         "PROXY TCP4 2001:db8::7 2001:db8::1 1 443\r\n",
		"v1 zone":                 "PROXY TCP6 fe80::1%eth0 fe80::2 1 443\r\n",
		"v1 name":                 "PROXY TCP4 localhost 192.0.2.1 1 443\r\n",
		"v1 UDP":                  "PROXY UDP4 192.0.2.7 192.0.2.1 1 443\r\n",
		"v1 108 bytes":            "PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n",
		"v1 without an end":       "PROXY TCP4 " + strings.Repeat("1", 5000),
		"v1 cut":                  "PROXY TCP4 192.0.2.7",
		"v2 cut signature":        "\r\n\r\n\x00\r\nQU",
		"v2 cut":                  v2(1, 0x11, v4)[:20],
		"v2 version 3":            strings.Replace(v2(1, 0x11, v4), "\x21", "\x31", 1),
		"v2 command 2":            v2(2, 0x11, v4),
		"v2 family 3":             v2(1, 0x41, v4),
		"v2 UDP":                  v2(1, 0x12, v4),
		"v2 unix":                 v2(1, 0x31, strings.Repeat("/", 216)),
		"v2 unspec":               v2(1, 0, v4),
		"v2 block too short":      v2(1, 0x11, v4[:11]),
		"v2 IPv6 too short":       v2(1, 0x21, v4),
		"v2 longer than it says":  v2(1, 0x11, v4+strings.Repeat("x", 5000)),
		"v2 says 64 KiB, no more": strings.Replace(v2(1, 0x11, v4), "\x00\x0c", "\xff\xff", 1),
		"twice":                   "PROXY TCP4 192.0.2.7 192.0.2.1 1 443\r\nPROXY TCP4 192.0.2.8 192.0.2.1 1 443\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := s.from("127.0.0.1")
			if name != "v2 cut" { // whose address would be the beginning of it
				head += hello
			}
			w.send(head)
			if r, ok := w.answer("GET"); ok && !(name == "twice" && r.StatusCode == 400) {
				t.Errorf("it is answered with %d", r.StatusCode)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(s.requests()); n != 0 {
			t.Errorf("%d requests reached the upstream", n)
		}
		if n := s.gateway.Current().rules.Rules[0].Base.Live.Table.Stats().Keys; n != 0 {
			t.Errorf("%d keys were taken", n)
		}
		if n := s.refused(badProxyHeader); n != 30 {
			t.Errorf("%d refused for their header, want 30", n)
		}
	})
}

func TestAPROXYHeaderThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	s := behindBalancer(t, "timeouts: { read_header: 200ms }", "127.0.0.1")
	w := s.from("127.0.0.1")
	if _, ok := w.answer("GET"); ok {
		t.Error("silence is answered")
	}
	eventually(t, "nobody is in", func() bool { return s.doors.Connections().Open == 0 })
}

func TestAnUntrustedPeerIsClosedWhateverItSays(t *testing.T) {
	s := behindBalancer(t, "", "127.0.0.2")
	for _, head := range []string{"", "PROXY TCP4 192.0.2.7 192.0.2.1 1 443\r\n", v2(1, 0x11, v4)} {
		w := s.from("127.0.0.1")
		w.send(head + hello)
		if _, ok := w.answer("GET"); ok {
			t.Errorf("%q is answered", head)
		}
	}
	if n := s.refused(untrustedProxy); n != 3 || len(s.requests()) != 0 {
		t.Errorf("%d refused, %d requests at the upstream", n, len(s.requests()))
	}
	w := s.from("127.0.0.2")
	w.send("PROXY TCP4 192.0.2.7 192.0.2.1 1 443\r\n" + hello)
	if r := w.mustAnswer("GET"); r.StatusCode != 200 {
		t.Errorf("%d of the trusted one", r.StatusCode)
	}
}

func TestTheClientBehindABalancerHasItsOwnConnections(t *testing.T) {
	s := behindBalancer(t, "", "127.0.0.1")
	e := *s.doors.entry.Load()
	e.PerAddress = 1
	s.letIn(e)
	open := func(source string, want bool) *wire {
		w := s.from("127.0.0.1")
		w.send("PROXY TCP4 " + source + " 192.0.2.1 1 443\r\n" + hello)
		if _, ok := w.answer("GET"); ok != want {
			t.Errorf("%s is let in: %v, want %v", source, ok, want)
		}
		return w
	}
	a := open("192.0.2.7", true)
	open("192.0.2.7", false)
	open("192.0.2.8", true)
	a.Close()
	eventually(t, "its place is free", func() bool { return s.doors.Connections().Open == 1 })
	open("192.0.2.7", true)
}

func TestATunnelBehindAPROXYHeader(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: []\n", echo)
	trusted := s.gateway.Current().rules.File.TrustedProxies
	if prefixes, err := rules.ParsePrefix("127.0.0.1"); err == nil {
		trusted = rules.NewPrefixes(prefixes)
	}
	s.letIn(Entry{Proxies: &trusted})
	w := s.from("127.0.0.1")
	w.send(v2(1, 0x11, v4))
	if r := w.handshake("/ws", "early"); r.StatusCode != 101 {
		t.Fatal(r.StatusCode)
	}
	w.expect("early")
	w.CloseWrite()
	w.SetReadDeadline(time.Now().Add(patience))
	if _, err := w.in.ReadByte(); err == nil {
		t.Error("the tunnel goes on when both ends have closed")
	}
}
