package rules

import (
	"strings"
	"testing"
)

func TestEverySpellingOfAHostIsTheHostOrIsRefused(t *testing.T) {
	for _, test := range []struct{ sent, want, err string }{
		{sent: "example.com", want: "example.com"},
		{sent: "EXAMPLE.com", want: "example.com"},
		{sent: "example.com.", want: "example.com"},
		{sent: "example.com:80", want: "example.com"},
		{sent: "example.com:443", want: "example.com"},
		{sent: "example.com:", want: "example.com"},
		{sent: "Example.COM.:8080", want: "example.com"},
		{sent: "xn--bcher-kva.example", want: "xn--bcher-kva.example"},
		{sent: "my_service", want: "my_service"},
		{sent: "localhost:3000", want: "localhost"},
		{sent: "192.0.2.1:80", want: "192.0.2.1"},
		{sent: "[2001:db8::1]", want: "[2001:db8::1]"},
		{sent: "[2001:DB8:0:0::1]:443", want: "[2001:db8::1]"},
		{sent: "[::1]:", want: "[::1]"},
		{sent: "", err: "no host"},
		{sent: ".", err: "no host"},
		{sent: ":80", err: "no host"},
		{sent: "a,b", err: "something else"},
		{sent: "example.com, example.com", err: "something else"},
		{sent: "exa%6dple.com", err: "something else"},
		{sent: "exa mple.com", err: "something else"},
		{sent: " example.com", err: "something else"},
		{sent: "user@example.com", err: "something else"},
		{sent: "example.com/x", err: "something else"},
		{sent: `example.com\x`, err: "something else"},
		{sent: "example.com#x", err: "something else"},
		{sent: "exämple.com", err: "something else"},
		{sent: "example.com\x00", err: "something else"},
		{sent: "example..com", err: "empty label"},
		{sent: ".example.com", err: "empty label"},
		{sent: "example.com..", err: "empty label"},
		{sent: "example.com:http", err: "port"},
		{sent: "example.com:65536", err: "port"},
		{sent: "example.com:-1", err: "port"},
		{sent: "example.com:80:80", err: "port"},
		{sent: "2001:db8::1", err: "port"},
		{sent: "[2001:db8::1", err: "brackets"},
		{sent: "[2001:db8::1]x", err: "brackets"},
		{sent: "[2001:db8::1]80", err: "brackets"},
		{sent: "[2001:db8::1]:x", err: "port"},
		{sent: "[fe80::1%25eth0]", err: "brackets"},
		{sent: "[192.0.2.1]", err: "brackets"},
		{sent: "[]", err: "brackets"},
		{sent: "]", err: "something else"},
		{sent: strings.Repeat("a.", 127), want: strings.Repeat("a.", 126) + "a"},
		{sent: strings.Repeat("a.", 127) + "aa", err: "longer"},
	} {
		got, err := NormalHost(test.sent)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("NormalHost(%q) = %q, %v; want an error with %q", test.sent, got, err, test.err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("NormalHost(%q) = %q, %v; want %q", test.sent, got, err, test.want)
		}
		if again, err := NormalHost(got); err != nil || again != got {
			t.Errorf("NormalHost(%q) = %q, and of that %q, %v", test.sent, got, again, err)
		}
	}
}

func TestNormalHostsTakeNoMemory(t *testing.T) {
	for _, host := range []string{"api.example.com", "api.example.com:8443", "api.example.com."} {
		if n := testing.AllocsPerRun(100, func() { _, _ = NormalHost(host) }); n != 0 {
			t.Errorf("NormalHost(%q) allocates %v times", host, n)
		}
	}
}
