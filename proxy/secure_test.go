package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// testTLS returns a tls.Config with a certificate for anything.
func testTLS(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"api.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos:   []string{"h2", "http/1.1", challengeProtocol},
	}
}

// uses puts another use of the site's address in force.
func (s *site) uses(settings DoorSettings, addrs ...Address) {
	s.t.Helper()
	for i := range addrs {
		if addrs[i].Addr == "" {
			addrs[i].Addr = "127.0.0.1:0" // as newSite gave it
		}
	}
	o, err := s.doors.Prepare(addrs)
	if err != nil {
		s.t.Fatal(err)
	}
	o.Commit(settings)
}

func secured(t testing.TB) DoorSettings {
	return DoorSettings{ReadHeader: 20 * time.Second, Write: 20 * time.Second, HeaderBytes: 80 << 10, TLS: testTLS(t)}
}

// secureDial makes a handshake with the site that offers the protocols.
func (s *site) secureDial(protocols ...string) *tls.Conn {
	s.t.Helper()
	c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, ServerName: "api.example.com"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func secureClient(t testing.TB, h2 bool) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func TestUpstreamHearsThatTheClientCameByHTTPS(t *testing.T) {
	s := newSite(t, fivePerHour, nil)
	s.uses(secured(t), Address{Secure: true})
	for i, h2 := range []bool{false, true} {
		res, err := secureClient(t, h2).Get("https://" + s.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 || res.ProtoMajor != 1+i {
			t.Errorf("%d by %s", res.StatusCode, res.Proto)
		}
		seen := s.requests()[i]
		if got := seen.Header.Get("X-Forwarded-Proto"); got != "https" {
			t.Errorf("X-Forwarded-Proto %q, want https", got)
		}
		if got := seen.Header.Get("X-Forwarded-For"); got != "127.0.0.1" {
			t.Errorf("X-Forwarded-For %q, want the client", got)
		}
	}
	if r := s.raw("GET / HTTP/1.1\nHost: a\n\n"); r.StatusCode != 400 {
		t.Errorf("a plain request on a secure address: %d, want 400", r.StatusCode)
	}
	if n := len(s.requests()); n != 2 {
		t.Errorf("%d requests reached the upstream, want 2", n)
	}
	eventually(t, "all connections are counted out", func() bool {
		secureClient(t, false).CloseIdleConnections()
		return s.doors.Connections().Open <= 2
	})
}

// The handshake of a challenge asks for no client certificate, so no request may
// follow it.
func TestNothingFollowsAChallengesHandshake(t *testing.T) {
	s := newSite(t, fivePerHour, nil)
	s.uses(secured(t), Address{Secure: true})
	c := s.secureDial(challengeProtocol)
	if got := c.ConnectionState().NegotiatedProtocol; got != challengeProtocol {
		t.Fatalf("negotiated %q", got)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
	if answer, _ := io.ReadAll(c); len(answer) > 0 {
		t.Errorf("answered %q", answer)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

func TestWebSocketOverTLS(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: per-ip, limit: 5/h }]\n", echo)
	s.uses(secured(t), Address{Secure: true})
	c := s.secureDial("http/1.1")
	in := bufio.NewReader(c)
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nearly")
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%v, %v; want 101", res, err)
	}
	io.WriteString(c, "more")
	got := make([]byte, len("earlymore"))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "earlymore" {
		t.Errorf("came back: %q, %v", got, err)
	}
	c.CloseWrite()
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("at its end: %q, %v", rest, err)
	}
}

// An address turns from plain to secure and back, and another handler has its turn,
// without its socket: who comes meanwhile is answered, by the one or the other.
func TestAddressChangesItsUseWhileOpen(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: []\n", nil)
	plain := secured(t)
	plain.TLS = nil
	other := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "other") })
	secure := secured(t)
	held := s.secureless()
	for range 3 {
		s.uses(secure, Address{Secure: true})
		if got := held.body(t); got != "ok" {
			t.Errorf("a connection of before says %q", got)
		}
		res, err := secureClient(t, true).Get("https://" + s.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		s.uses(secure, Address{Handler: other})
		if r := s.get("/"); r.body != "other" {
			t.Errorf("the other handler's address says %q", r.body)
		}
		s.uses(plain, Address{})
		if r := s.get("/"); r.body != "ok" {
			t.Errorf("the plain address says %q", r.body)
		}
	}
	if addrs := s.doors.Addrs(); len(addrs) != 1 || addrs[0] != s.addr {
		t.Errorf("listens on %v, want %s all the time", addrs, s.addr)
	}
}

// kept is a plain connection that is kept open.
type kept struct {
	c  net.Conn
	in *bufio.Reader
}

func (s *site) secureless() *kept {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	k := &kept{c, bufio.NewReader(c)}
	k.body(s.t)
	return k
}

func (k *kept) body(t testing.TB) string {
	t.Helper()
	io.WriteString(k.c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(k.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

func TestSilentHandshakeIsCutWithinTheTimeForAHead(t *testing.T) {
	t.Parallel()
	s := newSite(t, fivePerHour, nil)
	settings := secured(t)
	settings.ReadHeader = 200 * time.Millisecond
	s.uses(settings, Address{Secure: true})
	for _, say := range []string{"", "\x16\x03\x01\x02\x00"} { // nothing; the beginning of a ClientHello
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, say)
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("after %q: %v, want the end of the connection", say, err)
		}
	}
}

// A client that takes an answer slowly but steadily gets all of it.
func TestSlowHonestClientOverTLSGetsAll(t *testing.T) {
	t.Parallel()
	const size = 16 << 20 // more than all buffers hold
	s := newSite(t, "timeouts: { write: 3s }\nupstream: UPSTREAM\nrules: []\n", func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, size))
	})
	settings := secured(t)
	settings.Write = 3 * time.Second
	s.uses(settings, Address{Secure: true})
	var both sync.WaitGroup
	defer both.Wait()
	for _, h2 := range []bool{false, true} {
		client := secureClient(t, h2)
		client.Timeout = 0
		res, err := client.Get("https://" + s.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		both.Go(func() {
			defer res.Body.Close()
			n := 0
			for buf, err := make([]byte, 256<<10), error(nil); err == nil; {
				var m int
				m, err = io.ReadFull(res.Body, buf)
				n += m
				time.Sleep(120 * time.Millisecond) // the slowness of the client is what is tested
			}
			if n != size {
				t.Errorf("%s: %d bytes, want %d", res.Proto, n, size)
			}
		})
	}
}

// throttled lets a client take 2 KiB at a time.
type throttled struct{ net.Conn }

func (c throttled) Read(p []byte) (int, error) {
	time.Sleep(50 * time.Millisecond) // of the bubble's time
	return c.Conn.Read(p[:min(len(p), 2<<10)])
}

// A record of TLS is up to 16 KiB and must go out whole, however long that takes.
func TestRecordMayTakeLongerThanTheSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		out := tls.Server(&conn{Conn: server, span: 200 * time.Millisecond}, testTLS(t))
		in := tls.Client(throttled{client}, &tls.Config{InsecureSkipVerify: true, Time: time.Now})
		sent := make([]byte, 64<<10)
		failed := make(chan error, 1)
		go func() {
			_, err := out.Write(sent)
			if err != nil {
				server.Close()
			}
			failed <- err
		}()
		start := time.Now()
		if n, err := io.ReadFull(in, make([]byte, len(sent))); err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if err := <-failed; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 64/2*50*time.Millisecond {
			t.Errorf("took %v; the client was not slow", took)
		}
		client.Close()
		server.Close()
	})
}

// Clients that take nothing any more do not hold up a stop: TLS's last words are
// bounded.
func TestStalledClientsDoNotHoldUpAStop(t *testing.T) {
	t.Parallel()
	s := newSite(t, "upstream: UPSTREAM\nrules: []\n", func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, 64<<20))
	})
	settings := secured(t)
	settings.Write = time.Hour
	s.uses(settings, Address{Secure: true})
	for range 5 {
		c := s.secureDial("http/1.1")
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	eventually(t, "all are in progress", func() bool { return s.gateway.InFlight() == 5 })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() { s.doors.Shutdown(ctx, func() bool { return s.gateway.InFlight() == 0 }); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("still stopping after a minute")
	}
}

func TestLastDeadlineOfAWriteIsHeeded(t *testing.T) {
	client, server := net.Pipe() // nobody reads
	defer client.Close()
	c := &conn{Conn: server, span: time.Hour}
	c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := c.Write([]byte("x")); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("write ended with %v, want a timeout", err)
	}
	c.SetDeadline(time.Time{})
	if n := c.until.Load(); n != 0 {
		t.Errorf("a deadline that was taken back is still %d", n)
	}
}
