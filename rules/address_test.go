package rules

import (
	"strings"
	"testing"
)

func TestAddressesToListenOnHaveOneSpelling(t *testing.T) {
	for text, want := range map[string]string{
		":8080": ":8080", "127.0.0.1:80": "127.0.0.1:80", "[::]:443": "[::]:443", "[0:0::1]:443": "[::1]:443", "LocalHost:1": "localhost:1",
		"[::ffff:127.0.0.1]:80": "127.0.0.1:80", ":0": ":0", "a-b.example:65535": "a-b.example:65535", "[fe80::1%eth0]:80": "[fe80::1%eth0]:80",
		"unix:/run/gw.sock": "unix:/run/gw.sock", "unix:///run//gw.sock": "unix:/run/gw.sock", "unix:/run/../gw": "unix:/gw",
		"systemd:http": "systemd:http", "systemd:gateway.socket": "systemd:gateway.socket",
		"unix:": "", "unix:/": "", "unix:gw.sock": "", "unix:/run/": "", "unix:/\x01": "", "unix:/" + strings.Repeat("a", 107): "",
		"unix:/" + strings.Repeat("a", 106): "unix:/" + strings.Repeat("a", 106),
		"systemd:":                          "", "systemd:a b": "", "systemd:a#0": "", "systemd:a:b": "",
		"": "", "8080": "", ":": "", ":x": "", ":65536": "", ":-1": "", ":080": "", "::1:80": "", "[::1]": "", "a b:80": "", "http://a:80": "",
		"[localhost]:80": "", "256.0.0.1.:x": "",
	} {
		got, err := parseAddress(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("parseAddress(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestServersAreURLsWithoutExtras(t *testing.T) {
	for text, want := range map[string]string{
		"http://localhost:3000": "http://localhost:3000", "https://API.Example.com/": "https://api.example.com",
		"h2c://10.0.0.1": "h2c://10.0.0.1", "http://[::1]:80/v1/": "http://[::1]:80/v1", "http://a/a%2Fb/": "http://a/a%2Fb",
		"http://a/v1/..": "", "http://a/%2e%2e/b": "", "http://a//b": "", "http://a?": "", "http://a#b": "", "http://a#": "", "http://": "",
		"http://:80": "", "http://a:0": "", "http://a:": "", "http://a:65536": "", "http://a b": "", "HTTP://a": "", "unix:a": "", "unix:": "", "unix:/": "", "unix://a/b": "", "unix:/a:/b/../c": "", "unix:/a:/b?c": "", "//a": "",
		"a:80": "", "http:a": "", "http://u@a": "", "http://a_b": "http://a_b", "http://[fe80::1%25eth0]": "http://[fe80::1%25eth0]", "http://a/\x01": "",
		"http://-a": "", "http://a,b": "",
	} {
		got, err := parseServer(text)
		if err == nil && got.String() != want || err != nil && want != "" {
			t.Errorf("parseServer(%q) = %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestUpstreamsAreEqualWhereverTheyStand(t *testing.T) {
	a := parse(t, "upstreams: {a: http://a, b: http://b}\nroutes: [{upstream: a}, {upstream: b}]\nrules: []\n")
	b := parse(t, "rules: []\nupstreams:\n  b: {servers: ['http://b/'], timeout: 60s}\n  a: {servers: [http://a], timeout: 1s}\nroutes: [{upstream: a}, {upstream: b}]\n")
	if !a.Upstreams[1].Equal(&b.Upstreams[0]) {
		t.Error("b is not equal to itself")
	}
	if a.Upstreams[0].Equal(&b.Upstreams[1]) || a.Upstreams[0].Equal(&a.Upstreams[1]) {
		t.Error("different upstreams are equal")
	}
}
