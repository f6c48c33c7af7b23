package certs

import (
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// book holds the certificates of files, by name. It is immutable but for the
// staples that are found later.
type book struct {
	entries []*entry
	byName  map[string][]*entry
}

// entry is a certificate in a book.
type entry struct {
	*pair
	// staple is the hash under which certmagic has the certificate with an OCSP
	// staple; nil as long as it has not.
	staple atomic.Pointer[string]
}

// newBook returns a book of pairs. A pair that old has too keeps its entry, and so its
// staple.
func newBook(pairs []*pair, old *book) *book {
	b := &book{byName: map[string][]*entry{}}
	for _, p := range pairs {
		e := &entry{pair: p}
		if old != nil {
			for _, o := range old.entries {
				if o.sum == p.sum && o.files.Cert.Path == p.files.Cert.Path && o.files.Key.Path == p.files.Key.Path {
					e = o
				}
			}
		}
		b.entries = append(b.entries, e)
		for _, name := range names(e.cert.Leaf) {
			b.byName[name] = append(b.byName[name], e)
		}
	}
	return b
}

// named returns the certificates for a name, or for its wildcard.
func (b *book) named(name string) []*entry {
	if found := b.byName[name]; found != nil {
		return found
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		return b.byName["*."+parent]
	}
	return nil
}

// unnamed returns the certificates for a client that names nothing: those for the
// address it came to, else the first.
func (b *book) unnamed(hello *tls.ClientHelloInfo) []*entry {
	if hello.Conn != nil {
		if addr, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok {
			if found := b.byName[addr.IP.String()]; found != nil {
				return found
			}
		}
	}
	return b.entries[:min(1, len(b.entries))]
}

// choose returns the one of several certificates of a name that the client can use
// and that is valid, as far as there is one; nil if there are none.
func choose(from []*entry, hello *tls.ClientHelloInfo, now time.Time) *entry {
	var best *entry
	rank := -1
	for _, e := range from {
		r := 0
		if hello.SupportsCertificate(&e.cert) == nil {
			r += 2
		}
		if leaf := e.cert.Leaf; !now.After(leaf.NotAfter) && !now.Before(leaf.NotBefore) {
			r++
		}
		if r > rank {
			best, rank = e, r
		}
	}
	return best
}
