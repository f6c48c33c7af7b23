package certs

import (
	"crypto/x509"
	"time"
)

// Expiries returns when the certificate of each name ends, the earliest if there are
// several; the zero time for a domain that has none yet.
func (m *Manager) Expiries() map[string]time.Time {
	ed := m.current.Load()
	if ed == nil {
		return nil
	}
	all := map[string]time.Time{}
	for _, e := range ed.book.Load().entries {
		for _, name := range names(e.cert.Leaf) {
			if at, ok := all[name]; !ok || e.cert.Leaf.NotAfter.Before(at) {
				all[name] = e.cert.Leaf.NotAfter
			}
		}
	}
	for _, d := range ed.spec.Domains {
		if c := ed.newest(d); c != nil {
			all[d] = c.Leaf.NotAfter
		} else if _, ok := all[d]; !ok {
			all[d] = time.Time{}
		}
	}
	return all
}

// warnOfExpiry warns once a day of certificates that end soon: those of a CA that it
// was not possible to renew, and those of files that somebody has forgotten.
func (m *Manager) warnOfExpiry(w *watcher) {
	ed := m.current.Load()
	if ed == nil {
		return
	}
	now := time.Now()
	check := func(what, which string, leaf *x509.Certificate) {
		left := leaf.NotAfter.Sub(now)
		if left > soon(leaf) || now.Sub(w.said[which]) < 24*time.Hour {
			return
		}
		w.said[which] = now
		if left <= 0 {
			m.log.Error("certificate has expired", what, which, "expired", leaf.NotAfter)
			return
		}
		m.log.Warn("certificate expires soon", what, which, "expires", leaf.NotAfter)
	}
	for _, d := range ed.spec.Domains {
		if c := ed.newest(d); c != nil {
			check("domain", d, c.Leaf)
		}
	}
	for _, e := range ed.book.Load().entries {
		check("cert", e.files.Cert.Path, e.cert.Leaf)
	}
}

// soon is how long before its end a certificate is warned of: a fifth of its life,
// when renewal should have been long ago, at most two weeks.
func soon(leaf *x509.Certificate) time.Duration {
	return min(14*24*time.Hour, leaf.NotAfter.Sub(leaf.NotBefore)/5)
}
