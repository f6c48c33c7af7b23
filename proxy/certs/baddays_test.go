package certs

import (
	"fmt"
	"testing"
	"time"

	"gateway/proxy/certs/acmetest"
)

// Row S37, with three of four nonces refused, so that it is quick; see
// TestCertificateComesThroughTheWorstDays.
func TestCertificateComesThroughBadDays(t *testing.T) {
	t.Parallel()
	t.Attr("S37", badDays(t, 75))
}

// badDays orders a certificate from a CA that refuses so many percent of good nonces
// and is away at the start and again later, and restarts the gateway all the while. It
// waits as long as the CA makes it wait.
func badDays(t *testing.T, nonces int) (figure string) {
	t.Helper()
	apiName := unique("api")
	s := newSite(t)
	ca := acmetest.New(t, acmetest.Options{HTTPPort: s.plain, TLSPort: s.secure, BadNonces: nonces, Reuse: 100, Down: true})
	dir := t.TempDir()
	text := acme(ca, dir, apiName)
	s.mustApply(text)
	eventually(t, "the CA is missed", func() bool { return len(s.log.with("certificate not obtained")) > 0 })
	ca.Start()
	start := time.Now()
	obtained := func() bool { return len(s.log.with("certificate obtained")) > 0 }
	for !obtained() && time.Since(start) < 10*time.Minute {
		time.Sleep(100 * time.Millisecond) // between two looks
	}
	first := s.awaits(apiName, ca.Pool())
	orders, took := ca.Orders(), time.Since(start).Round(time.Second)
	ca.Stop()
	good := 0
	for i := range 200 {
		if i%20 == 10 {
			s.stop()
			s = newSite(t, s.secure, s.plain)
			s.mustApply(text)
		}
		if leaf := s.leaf(apiName); leaf != nil && leaf.Equal(first) {
			good++
		}
	}
	if good != 200 || ca.Orders() != orders {
		t.Errorf("%d of 200 handshakes had the certificate, and %d more orders; want all, and none", good, ca.Orders()-orders)
	}
	if lines := len(s.log.with("certificate not obtained")); lines > int(took/time.Minute)+2 {
		t.Errorf("%d lines in %v about one domain", lines, took)
	}
	return fmt.Sprintf("%d of 200 handshakes; %d %% of nonces refused, the CA away at the start and later, 10 restarts; it came after %v and %d orders", good, nonces, took, orders)
}
