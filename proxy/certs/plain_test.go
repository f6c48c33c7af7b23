package certs

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// raw sends a request and returns the answer.
func raw(t *testing.T, port int, text string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", addrOf(port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, text)
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: strings.Fields(text)[0]})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	io.Copy(io.Discard, res.Body)
	return res
}

// Case T02, and no open redirect.
func TestPlainRequestsAreSentToHTTPS(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	a.write(dir, "api", "api.example.com", "*.example.org")
	s := newSite(t)
	s.mustApply(pairs(dir, "api"))
	for _, c := range []struct {
		line, host string
		status     int
		location   string
	}{
		{"GET /", "api.example.com", 308, "https://api.example.com/"},
		{"POST /a%2Fb//c?x=%41&y", "api.example.com", 308, "https://api.example.com/a%2Fb//c?x=%41&y"},
		{"GET /", "API.Example.com.:80", 308, "https://api.example.com/"},
		{"GET /", "any.example.org:8080", 308, "https://any.example.org/"}, // never an inner port
		{"GET //evil.example/", "api.example.com", 308, "https://api.example.com//evil.example/"},
		{"GET http://api.example.com/x", "evil.example", 308, "https://api.example.com/x"},
		{"GET http://evil.example/x", "api.example.com", 404, ""},
		{"GET /", "evil.example", 404, ""},
		{"GET /", "example.org", 404, ""},
		{"GET /", "127.0.0.1", 404, ""},
		{"GET /", "a b", 400, ""},
		{"OPTIONS *", "api.example.com", 400, ""},
		{"CONNECT api.example.com:443", "api.example.com:443", 405, ""},
		{"GET /.well-known/acme-challenge/token", "api.example.com", 404, ""},
		{"GET /.well-known/acme-challenge/", "api.example.com", 404, ""},
		{"GET /.well-known/other", "api.example.com", 308, "https://api.example.com/.well-known/other"},
	} {
		res := raw(t, s.plain, c.line+" HTTP/1.1\r\nHost: "+c.host+"\r\n\r\n")
		if res.StatusCode != c.status || res.Header.Get("Location") != c.location {
			t.Errorf("%s at %s: %d to %q, want %d to %q", c.line, c.host, res.StatusCode, res.Header.Get("Location"), c.status, c.location)
		}
		if got := res.Header.Get("Content-Type"); c.status == 404 && got != "application/problem+json" {
			t.Errorf("%s at %s: a 404 of type %q", c.line, c.host, got)
		}
	}
}

func TestLiveChallengeIsAnsweredOnThePlainAddress(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	// Pebble asks for the challenge itself; what it gets is what decides.
	s, ca := withCA(t, nil)
	s.mustApply(acme(ca, t.TempDir(), apiName))
	s.awaits(apiName, ca.Pool())
	res := raw(t, s.plain, "GET /.well-known/acme-challenge/over HTTP/1.1\r\nHost: "+apiName+"\r\n\r\n")
	if res.StatusCode != 404 {
		t.Errorf("a challenge that is over: %d, want 404", res.StatusCode)
	}
}
