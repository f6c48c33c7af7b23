package rules

import (
	"net/http"
	"net/netip"
)

// ClientAddr returns the address of the client.
func ClientAddr(peer netip.AddrPort, h http.Header, trusted Prefixes) (client netip.Addr, trustedPeer bool) {
	return peer.Addr(), false
}
