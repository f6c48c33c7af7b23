//go:build long

package certs

import "testing"

// Row S37 with nine of ten nonces refused. The library gives up a request after ten of
// them, which a third of all requests meet, so it takes some ten attempts, and minutes.
func TestCertificateComesThroughTheWorstDays(t *testing.T) { t.Attr("S37", badDays(t, 90)) }
