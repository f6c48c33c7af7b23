package certs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/caddyserver/certmagic"
)

// keeper gets the first certificate of one domain. Renewal is certmagic's.
type keeper struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

// keep looks after the domains of ed, and no longer after those that only old has.
func (m *Manager) keep(ed, old *edition) {
	same := ed != nil && old != nil && ed.acme != nil && old.acme != nil &&
		ed.issuer.IssuerKey() == old.issuer.IssuerKey() && ed.storage.dir == old.storage.dir
	if old != nil {
		for _, d := range old.spec.Domains {
			stays := ed != nil && ed.domains[d]
			if k := m.keepers[d]; k != nil && !(stays && same) {
				k.stop()
				delete(m.keepers, d)
			}
			if !stays {
				m.cache.Load().RemoveManaged([]certmagic.SubjectIssuer{{Subject: d}})
			}
		}
	}
	if ed == nil || ed.acme == nil {
		return
	}
	m.tighten(ed.storage)
	for _, d := range ed.spec.Domains {
		if same && old.domains[d] {
			continue // its keeper goes on, or has done its work
		}
		// What storage has is served at once, and nobody asked anything for it.
		c, err := ed.offline.CacheManagedCertificate(m.ctx, d)
		if err != nil {
			m.keepers[d] = m.start(d, &contentError{err})
			continue
		}
		m.alone(d, c)
	}
	m.wg.Go(func() { m.cache.Load().RenewManagedCertificates(m.ctx) })
}

// tighten takes care of what others may do with the storage folder.
func (m *Manager) tighten(s *storage) {
	changed, loose := s.tighten()
	if changed > 0 {
		m.log.Warn("certificates and keys could be read by others on this machine; not any more", "storage", s.dir, "files", changed)
	}
	if loose {
		m.log.Warn("others on this machine may write to the storage folder: chmod 700 it", "storage", s.dir)
	}
}

// alone makes c the only certificate of a CA for its domain: one of another CA was
// served until now.
func (m *Manager) alone(domain string, c certmagic.Certificate) {
	for _, other := range m.cache.Load().AllMatchingCertificates(domain) {
		if other.Hash() != c.Hash() && !other.HasTag(fromFile) {
			m.cache.Load().Remove([]string{other.Hash()})
		}
	}
}

func (m *Manager) start(domain string, why error) *keeper {
	k := &keeper{done: make(chan struct{})}
	var ctx context.Context
	ctx, k.cancel = context.WithCancel(m.ctx)
	go func() {
		defer close(k.done)
		m.obtain(ctx, domain, why)
	}()
	return k
}

// obtain tries until the domain has a certificate. why says why it has none.
func (m *Manager) obtain(ctx context.Context, domain string, why error) {
	unreachable, nonces, first := 0, 0, true
	ed := m.current.Load()
	at := ed.tries.of(domain, time.Now()).next(first)
	if wait := time.Until(at); wait > 0 {
		m.log.Warn("a certificate was not obtained shortly before this start; the CA is not asked yet", "domain", domain, "next", at)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(at)):
		}
		if ed = m.current.Load(); ed == nil || ed.acme == nil || !ed.domains[domain] {
			return
		}
		c, err := m.attempt(ctx, ed, domain, why)
		if err == nil {
			ed.tries.clear(domain)
			m.alone(domain, c)
			m.log.Info("certificate obtained", "domain", domain, "expires", c.Leaf.NotAfter, "ca", ed.spec.CA)
			return
		}
		if ctx.Err() != nil {
			return
		}
		first = false
		now := time.Now()
		switch _, content := errors.AsType[*contentError](err); {
		case content || errors.Is(err, errNothingAsked) || !reached(err):
			unreachable++
			at = now.Add(nth(unreached, unreachable))
		case isNonce(err) && nonces < mostNonces:
			nonces++
			at = now.Add(time.Second)
		default:
			unreachable, nonces = 0, 0
			at = ed.tries.failed(domain, now).next(first)
		}
		why = err
		if m.said.first(domain, now) {
			m.log.Error("certificate not obtained", "domain", domain, "err", err.Error(), "next", at)
		}
	}
}

// errNothingAsked says that an attempt ended before the CA had to do with it.
var errNothingAsked = errors.New("the CA was not asked")

// attempt asks the CA once for a certificate, and serves it.
func (m *Manager) attempt(ctx context.Context, ed *edition, domain string, why error) (certmagic.Certificate, error) {
	var none certmagic.Certificate
	if isContent(why) {
		ed.setAside(domain, why)
	}
	ed.mendAccount()
	if err := ed.storage.check(); err != nil {
		return none, fmt.Errorf("%w: storage %q cannot be written: %w", errNothingAsked, ed.storage.dir, err)
	}
	trying, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &attempt{cancel: cancel}
	err := ed.acme.ObtainCertAsync(context.WithValue(trying, attemptKey{}, a), domain)
	if a.err != nil {
		return none, a.err
	}
	if err != nil {
		return none, fmt.Errorf("%w: %w", errNothingAsked, err)
	}
	c, err := ed.acme.CacheManagedCertificate(ctx, domain)
	if err != nil {
		return none, &contentError{err}
	}
	return c, nil
}

// contentError says that what storage has of a certificate makes none.
type contentError struct{ err error }

func (e *contentError) Error() string { return "reading from storage: " + e.err.Error() }

// Unwrap returns the reason.
func (e *contentError) Unwrap() error { return e.err }

// isContent reports whether an error of loading a certificate is about what was read,
// and not about reading it.
func isContent(err error) bool {
	_, content := errors.AsType[*contentError](err)
	_, file := errors.AsType[*fs.PathError](err)
	return content && !file && !errors.Is(err, fs.ErrNotExist)
}

// attemptKey is the context key under which what certmagic calls finds the attempt.
type attemptKey struct{}

// attempt is one obtaining that certmagic is about. It ends with its first failure:
// the library would try again by a schedule of its own.
type attempt struct {
	cancel context.CancelFunc
	err    error
}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

func (a *attempt) end(err error) {
	if a.err == nil {
		a.err = err
	}
	a.cancel()
}

// event is what certmagic calls when something happens to a certificate.
func (m *Manager) event(ctx context.Context, name string, data map[string]any) error {
	domain, _ := data["identifier"].(string)
	err, _ := data["error"].(error)
	ed := m.current.Load()
	a := attemptOf(ctx)
	switch {
	case ed == nil || ed.acme == nil || domain == "":
		return nil
	case a != nil:
		if name == "cert_failed" {
			a.end(err)
		}
		return nil
	}
	switch name {
	case "cert_obtaining":
		return m.mayRenew(ed, domain)
	case "cert_failed":
		if reached(err) && !errors.Is(err, errTooSoon) {
			ed.tries.failed(domain, time.Now())
		}
		left, _ := data["remaining"].(time.Duration)
		m.log.Error("certificate not renewed", "domain", domain, "err", err.Error(), "expires", time.Now().Add(left).UTC().Truncate(time.Second))
	case "cert_obtained":
		ed.tries.clear(domain)
		m.log.Info("certificate renewed", "domain", domain, "ca", ed.spec.CA)
	}
	return nil
}

// mayRenew says why the CA must not be asked for a renewal now, or nil.
func (m *Manager) mayRenew(ed *edition, domain string) error {
	if now := time.Now(); ed.tries.of(domain, now).next(false).After(now) {
		return errTooSoon
	}
	ed.mendAccount()
	if err := ed.storage.check(); err != nil {
		m.log.Error("certificate not renewed", "domain", domain, "err", fmt.Sprintf("storage %q cannot be written: %v", ed.storage.dir, err))
		return errTooSoon
	}
	return nil
}
