package rules

import (
	"slices"
	"strings"
)

// ProxyHeaders are the headers, beside those that begin with ProxyPrefix, by which a
// client could pass itself off as another or reach another resource than the one the
// rules saw. From a peer that is not in trusted_proxies they are dropped before any
// rule.
var ProxyHeaders = []string{
	"Forwarded", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip",
	"X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override",
}

// ProxyPrefix is what the other headers begin with that only a trusted peer may set.
const ProxyPrefix = "X-Forwarded"

// ofProxy reports whether a is a header that only a trusted peer may set.
func (a Attribute) ofProxy() bool {
	return a.kind == kindHeader && (strings.HasPrefix(a.name, ProxyPrefix) || slices.Contains(ProxyHeaders, a.name))
}

// unseen are the headers that say how a message is framed on its connection. They are
// gone before any rule looks.
var unseen = []string{"Http2-Settings", "Trailer", "Transfer-Encoding"}
