package certs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"gateway/rules"
)

// Manager holds the certificates of the public side. Prepare, Commit and Close must
// not run at the same time; all else may, also beside them.
type Manager struct {
	log     *slog.Logger
	zap     *zap.Logger
	current atomic.Pointer[edition] // nil without tls

	// One cache for the process, from the first Commit on: its options never change.
	cache  atomic.Pointer[certmagic.Cache]
	files  *certmagic.Config // for the certificates of files
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	keepers map[string]*keeper // by domain
	said    *lately

	// Tunables of tests.
	look, renew, ocsp time.Duration
}

// New returns a Manager without certificates. It starts nothing before the first
// Commit.
func New(log *slog.Logger) *Manager {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Manager{log: log, zap: zap.New(newBridge(log)), keepers: map[string]*keeper{}, said: newLately()}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.look, m.renew, m.ocsp = 5*time.Second, 10*time.Minute, 5*time.Minute
	return m
}

// Change is a `tls` that was prepared and is not in force yet.
type Change struct {
	m        *Manager
	ed       *edition // nil without tls
	book     *book    // nil: that of ed is as it should be
	warnings rules.ErrorList
}

// Prepare reads all that the file's tls names, and makes sure that a certificate
// could be kept, before any is ordered. It has no effects but that the storage
// folder is there afterwards. The error is a rules.ErrorList.
func (m *Manager) Prepare(f *rules.File) (*Change, error) {
	c := &Change{m: m}
	if f.TLS == nil {
		return c, nil
	}
	read, err := readAll(f)
	if err != nil {
		return nil, err
	}
	c.warnings = read.warnings
	old := m.current.Load()
	if old != nil && old.spec.Equal(f.TLS) && old.where == placesOf(f) && old.clients == read.clients && old.roots == read.roots {
		c.ed = old
		if b := newBook(read.pairs, old.book.Load()); !slices.Equal(b.entries, old.book.Load().entries) {
			c.book = b
		}
		return c, nil
	}
	c.ed = &edition{
		m: m, spec: f.TLS, domains: map[string]bool{}, where: placesOf(f),
		clients: read.clients, roots: read.roots, caPool: read.caPool,
	}
	var before *book
	if old != nil {
		before = old.book.Load()
	}
	c.book = newBook(read.pairs, before)
	c.ed.book.Store(c.book)
	for _, d := range f.TLS.Domains {
		c.ed.domains[d] = true
	}
	if len(f.TLS.Domains) > 0 {
		if err := c.store(f.TLS); err != nil {
			return nil, rules.ErrorList{err}
		}
	}
	c.ed.makeConfig(read.clientPool)
	return c, nil
}

// store sees to the storage folder. One that cannot be written is an error, unless
// it has all that is needed for the moment: a gateway whose disk is full must be
// able to start again.
func (c *Change) store(t *rules.TLS) *rules.Error {
	fail := func(hint, format string, args ...any) *rules.Error {
		msg := fmt.Sprintf(format, args...)
		if t.Storage.Path != "" {
			return t.Storage.Error(msg, hint)
		}
		return &rules.Error{Pos: t.Pos, Len: 1, Msg: msg, Hint: hint}
	}
	dir, err := storageDir(t, os.Getenv)
	if err != nil {
		return fail("name one: storage: /var/lib/gateway", "tls: %v", err)
	}
	c.ed.storage = newStorage(dir)
	if err = c.ed.storage.check(); err == nil {
		return nil
	}
	const hint = "certificates must be kept, or each start would order new ones"
	if missing := c.ed.missing(); missing != "" {
		return fail(hint, "storage %q cannot be written: %v; a certificate for %s would have to be ordered", dir, err, missing)
	}
	w := fail(hint, "storage %q cannot be written: %v; nothing will be renewed", dir, err)
	w.Warning = true
	c.warnings = append(c.warnings, w)
	return nil
}

// missing returns the first domain without a valid certificate in the storage folder,
// or "".
func (ed *edition) missing() string {
	ca := (&certmagic.ACMEIssuer{CA: ed.spec.CA}).IssuerKey()
	for _, d := range ed.spec.Domains {
		cert, err1 := ed.storage.Load(ed.m.ctx, certmagic.StorageKeys.SiteCert(ca, d))
		key, err2 := ed.storage.Load(ed.m.ctx, certmagic.StorageKeys.SitePrivateKey(ca, d))
		pair, err3 := tls.X509KeyPair(cert, key)
		if err1 != nil || err2 != nil || err3 != nil || time.Now().After(pair.Leaf.NotAfter) {
			return d
		}
	}
	return ""
}

// Config returns what secure addresses are to speak; nil without tls. It is the same
// as before when nothing has changed.
func (c *Change) Config() *tls.Config {
	if c.ed == nil {
		return nil
	}
	return c.ed.config
}

// Renewed reports whether the files of tls have changed, but not what the file says
// of it.
func (c *Change) Renewed() bool {
	old := c.m.current.Load()
	return old != nil && c.ed != nil && old.spec.Equal(c.ed.spec) && c.book != nil
}

// Warnings returns what is odd about the files, and about the storage folder.
func (c *Change) Warnings() rules.ErrorList { return c.warnings }

// Files reads the files that the file's tls names, without any effect, and returns
// what is odd about them. The error is a rules.ErrorList.
func Files(f *rules.File) (rules.ErrorList, error) {
	if f.TLS == nil {
		return nil, nil
	}
	read, err := readAll(f)
	if err != nil {
		return nil, err
	}
	return read.warnings, nil
}

// Commit puts c, prepared on what is in force, in force itself: certificates in
// storage are served from now on, others are ordered in the background. at returns the
// address really listened on for one of the file. It cannot fail.
func (m *Manager) Commit(c *Change, at func(addr string) string) {
	old := m.current.Load()
	if c.ed != old && c.ed != nil {
		c.ed.manage(at)
	}
	var before *book
	if old != nil {
		before = old.book.Load()
	}
	if c.ed != nil && c.book != nil {
		c.ed.book.Store(c.book)
	}
	m.current.Store(c.ed)
	if c.ed != old {
		m.keep(c.ed, old)
	}
	m.staple(c.ed, before)
	if c.ed != nil && m.cache.Load() == nil {
		m.openCache()
	}
}

// openCache returns the cache of the process, and starts what follows the files when
// it is opened.
func (m *Manager) openCache() *certmagic.Cache {
	if c := m.cache.Load(); c != nil {
		return c
	}
	c := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: m.configFor, Logger: m.zap, RenewCheckInterval: m.renew, OCSPCheckInterval: m.ocsp,
	})
	m.cache.Store(c)
	m.files = certmagic.New(c, certmagic.Config{
		Storage: &staples{}, Logger: m.zap, DisableARI: true, Issuers: []certmagic.Issuer{nobody{}},
		OCSP: certmagic.OCSPConfig{HTTPProxy: http.ProxyFromEnvironment},
	})
	m.wg.Go(m.watch)
	return c
}

var errNotManaged = errors.New("its domain is no longer in the file")

// configFor returns by what settings a certificate in the cache is looked after: those
// of the moment.
func (m *Manager) configFor(c certmagic.Certificate) (*certmagic.Config, error) {
	if c.HasTag(fromFile) {
		return m.files, nil
	}
	if ed := m.current.Load(); ed != nil && slices.ContainsFunc(c.Names, func(name string) bool { return ed.domains[name] }) {
		return ed.acme, nil
	}
	return nil, errNotManaged
}

// Stale reports whether a file that tls names holds something else than what is in
// force.
func (m *Manager) Stale() bool {
	ed := m.current.Load()
	if ed == nil {
		return false
	}
	_, clients, err1 := readPool("client_ca", ed.spec.ClientCA)
	_, roots, err2 := readPool("ca_root", ed.spec.CARoot)
	if err1 != nil || err2 != nil || clients != ed.clients || roots != ed.roots {
		return true
	}
	for _, e := range ed.book.Load().entries {
		if p, err := readPair(e.files); err != nil || p.sum != e.sum {
			return true
		}
	}
	return false
}

// Close ends all that runs. Handshakes still get what certificates there are.
func (m *Manager) Close() {
	m.cancel()
	for _, k := range m.keepers {
		k.stop()
	}
	m.wg.Wait()
	if c := m.cache.Load(); c != nil {
		c.Stop()
	}
}

// reading is what the files of tls hold.
type reading struct {
	pairs          []*pair
	warnings       rules.ErrorList
	clients, roots [sha256.Size]byte
	clientPool     *x509.CertPool
	caPool         *x509.CertPool
}

// readAll reads the files of f's tls.
func readAll(f *rules.File) (*reading, error) {
	r := &reading{}
	var errs rules.ErrorList
	keep := func(err error) {
		if list, ok := errors.AsType[rules.ErrorList](err); ok {
			errs = append(errs, list...)
		}
	}
	var err error
	r.clientPool, r.clients, err = readPool("client_ca", f.TLS.ClientCA)
	keep(err)
	r.caPool, r.roots, err = readPool("ca_root", f.TLS.CARoot)
	keep(err)
	for _, files := range f.TLS.Certificates {
		p, err := readPair(files)
		if err != nil {
			keep(err)
			continue
		}
		r.pairs = append(r.pairs, p)
		r.warnings = append(r.warnings, p.doubts(time.Now())...)
	}
	slices.SortStableFunc(errs, func(a, b *rules.Error) int {
		return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Col-b.Pos.Col)
	})
	return r, errs.Err()
}

var errOffline = errors.New("not asked now")

func noProxy(*http.Request) (*url.URL, error) { return nil, errOffline }
