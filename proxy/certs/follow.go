package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"github.com/caddyserver/certmagic"

	"gateway/rules"
)

// fromFile is the tag of certificates in the cache that are of files.
const fromFile = "file"

// nobody issues the certificates of files.
type nobody struct{}

// Issue implements certmagic.Issuer.
func (nobody) Issue(context.Context, *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	return nil, errors.New("certificates of files are not ordered")
}

// IssuerKey implements certmagic.Issuer.
func (nobody) IssuerKey() string { return "nobody" }

// watch looks at the files of certificates, and at how long all certificates last,
// until the Manager is closed.
func (m *Manager) watch() {
	look := time.NewTicker(m.look)
	defer look.Stop()
	w := watcher{said: map[string]time.Time{}}
	for {
		m.warnOfExpiry(&w)
		select {
		case <-m.ctx.Done():
			return
		case <-look.C:
			m.follow(&w)
		}
	}
}

// watcher is what a Manager remembers from one look to the next.
type watcher struct {
	ed      *edition
	seen    [][32]byte // what each pair of files held at the last look
	refused [][32]byte // what of it was no pair, and said so
	said    map[string]time.Time
}

// follow puts a pair of files in force that holds something else than before and
// fits. Two files do not change at once, so one that does not fit is an error only
// when it is found so again.
func (m *Manager) follow(w *watcher) {
	ed := m.current.Load()
	if ed == nil {
		return
	}
	b := ed.book.Load()
	if w.ed != ed || len(w.seen) != len(b.entries) {
		*w = watcher{ed: ed, seen: make([][32]byte, len(b.entries)), refused: make([][32]byte, len(b.entries)), said: w.said}
	}
	pairs := make([]*pair, len(b.entries))
	changed := false
	for i, e := range b.entries {
		pairs[i] = e.pair
		p, err := readPair(e.files)
		settled := w.seen[i] == p.sum
		w.seen[i] = p.sum
		switch {
		case p.sum == e.sum:
		case err == nil:
			pairs[i], changed = p, true
			m.log.Info("certificate replaced", "cert", e.files.Cert.Path, "names", names(p.cert.Leaf), "expires", p.cert.Leaf.NotAfter)
		case settled && w.refused[i] != p.sum:
			w.refused[i] = p.sum
			m.log.Error("certificate not replaced; the one before is kept", "cert", e.files.Cert.Path, "err", firstOf(err))
		}
	}
	if !changed {
		return
	}
	next := newBook(pairs, b)
	if !ed.book.CompareAndSwap(b, next) || m.current.Load() != ed {
		return // a reload was quicker; the next look compares with that
	}
	m.staple(ed, b)
}

// firstOf returns the first error of a list, without the place in the file, which
// was right when the file was loaded.
func firstOf(err error) string {
	if list, ok := errors.AsType[rules.ErrorList](err); ok && len(list) > 0 {
		return list[0].Msg
	}
	return err.Error()
}

// staple has certmagic fetch OCSP staples for the certificates of files that have a
// responder, and forget those that only before had. A responder may take its time,
// so nobody waits for it.
func (m *Manager) staple(ed *edition, before *book) {
	var now *book
	if ed != nil {
		now = ed.book.Load()
	}
	if before != nil {
		for _, e := range before.entries {
			if hash := e.staple.Load(); hash != nil && (now == nil || !slices.Contains(now.entries, e)) {
				m.cache.Load().Remove([]string{*hash})
			}
		}
	}
	if now == nil {
		return
	}
	for _, e := range now.entries {
		if len(e.cert.Leaf.OCSPServer) == 0 || e.staple.Load() != nil {
			continue
		}
		m.openCache()
		go func() {
			hash, err := m.files.CacheUnmanagedTLSCertificate(m.ctx, e.cert, []string{fromFile})
			if err != nil {
				return
			}
			e.staple.Store(&hash)
			if ed := m.current.Load(); ed == nil || !slices.Contains(ed.book.Load().entries, e) {
				m.cache.Load().Remove([]string{hash}) // removed from the file meanwhile
			}
		}()
	}
}

// stapled returns the certificate of e, with an OCSP staple if there is one.
func (m *Manager) stapled(e *entry) *tls.Certificate {
	if hash := e.staple.Load(); hash != nil {
		if all := names(e.cert.Leaf); len(all) > 0 {
			for _, c := range m.cache.Load().AllMatchingCertificates(all[0]) {
				if c.Hash() == *hash {
					return &c.Certificate
				}
			}
		}
	}
	return &e.cert
}
