package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"gateway/limit"
	"gateway/limit/redis"
	"gateway/proxy"
	"gateway/proxy/admin"
	"gateway/proxy/certs"
	"gateway/reload"
	"gateway/rules"
)

// server is a gateway that runs: the front door, its listeners, the admin
// listener and the loop that follows the file.
type server struct {
	name    string // of the file, in messages
	outside rules.Outside
	log     *logger
	access  *proxy.AccessLog
	out     io.Writer
	clock   *proxy.Clock
	loop    *reload.Loop // nil without a file to follow

	inherited map[string][]*os.File // sockets that systemd has bound, by name

	dryRun bool // every rule is a dry run, whatever the file says

	// applying is held by whoever changes what is in force.
	applying sync.Mutex
	parsed   parsed
	gateway  *proxy.Gateway // nil before the first file
	public   *proxy.Doors
	admin    *proxy.Doors
	certs    *certs.Manager
	store    *redis.Store  // nil: all counters are in this process
	history  admin.History // what came to pass in the last minutes
	levels   levels        // that outlive the process
	loaded   time.Time
	draining atomic.Bool
}

func newServer(name string, out, errs io.Writer, color string) *server {
	s := &server{
		name: name, outside: outside(), out: out, log: newLogger(errs, color), clock: proxy.NewClock(), inherited: inheritedSockets(),
	}
	s.access = proxy.NewAccessLog(out, "off")
	s.certs = certs.New(s.log.Logger)
	return s
}

// follow makes the server follow the file at path.
func (s *server) follow(path string) {
	s.loop = &reload.Loop{
		Path: path, Logger: s.log.Logger, Apply: s.apply, Beside: s.groupFiles, BesideWhole: s.secretFiles, Stale: s.stale,
		Include: func(data []byte) []string { return s.outside.Includes(s.name, data) },
	}
	s.outside.Include = including(s.loop.ReadIncluded)
}

// stale reports whether what the file has taken from outside is something else by
// now.
func (s *server) stale() bool {
	for _, secret := range s.gateway.Current().Rules().File.Secrets() {
		if secret.Stale(s.outside) {
			return true
		}
	}
	set := s.gateway.Current().Rules()
	return s.gateway.Stale() || s.certs.Stale() || !s.dryRun && set.Switched()
}

// parsed is the file that was read last, so that it is parsed once.
type parsed struct {
	data []byte
	file *rules.File
	err  error
}

// parse parses a version of the file, unless it was the last one. It is parsed anew
// all the same if it was not good, since what it wants from outside may be there by
// now, or includes others, which may have changed.
func (s *server) parse(data []byte) (*rules.File, error) {
	if p := &s.parsed; p.file == nil || p.file.Includes() || !bytes.Equal(data, p.data) {
		p.file, p.err = s.outside.Parse(s.name, data)
		p.data = data
	}
	return s.parsed.file, s.parsed.err
}

// groupFiles returns the files to follow beside the configuration that are lists.
func (s *server) groupFiles(data []byte) []string {
	file, err := s.parse(data)
	if err != nil {
		return nil // which apply says
	}
	return file.GroupFiles()
}

// secretFiles returns the files to follow that hold secrets; also when it is one of
// these that keeps the configuration from being good.
func (s *server) secretFiles(data []byte) []string {
	file, err := s.parse(data)
	if err != nil {
		return s.outside.SecretFiles(s.name, data)
	}
	return file.SecretFiles()
}

// apply puts a new version of the file in force, as a whole or not at all.
func (s *server) apply(_ context.Context, data []byte) (reload.Change, error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	file, err := s.parse(data)
	if err == nil && len(file.Secrets()) > 0 { // which may have changed while data has not
		s.parsed = parsed{}
		file, err = s.parse(data)
	}
	if err != nil {
		return reload.Change{}, err
	}
	var before *proxy.Snapshot
	var running *rules.Set
	if s.gateway != nil {
		before = s.gateway.Current()
		running = before.Rules()
	}
	read := reload.ReadFile
	if s.loop != nil {
		read = s.loop.ReadFile
	}
	if file, err = file.ReadGroups(running, read); err != nil {
		return reload.Change{}, err
	}
	if running != nil {
		if err := restartNeeded(running.File, file); err != nil {
			return reload.Change{}, err
		}
	}
	store, err := s.openStore(file, running)
	if err != nil {
		return reload.Change{}, err
	}
	snap, err := proxy.Build(file, before, s.log.Logger)
	if err == nil && s.dryRun {
		snap = snap.WithRules(snap.Rules().AllDryRun())
	}
	secure, err := s.secure(file, err)
	if err != nil {
		return reload.Change{}, err
	}
	first := s.gateway == nil
	if first {
		s.gateway = proxy.New(gatewayConfig(s, store), snap)
		s.public = proxy.NewDoors(s.gateway, s.log.Logger)
		s.public.Inherited = s.inherited
		s.admin = proxy.NewDoors(s.adminHandler(), s.log.Logger)
		s.admin.SocketMode = 0o660 // the owner and the group
		s.public.First = s.admin
	}
	public, private, err := s.bind(file)
	if err == nil && first {
		if err = s.keepLevels(file, snap); err != nil {
			public.Abort()
			private.Abort()
		}
	}
	if err != nil {
		if first {
			s.gateway.Close()
			s.gateway = nil
		}
		return reload.Change{}, err
	}
	if !first {
		s.gateway.Swap(snap)
	}
	if first {
		s.store = store // it is the same one ever after
	}
	names := renewed(before, snap, secure)
	s.certs.Commit(secure, public.At)
	settings := doorSettings(file)
	settings.TLS = secure.Config()
	public.Commit(settings)
	private.Commit(adminSettings)
	s.log.configure(file.Log.Level, file.Log.Format)
	s.access.SetFormat(accessFormat(file.Log.Access, s.out))
	s.loaded = time.Now()
	if running == nil || running.Hash != file.Hash { // said once: with another group file they are the same
		for _, w := range slices.Concat(file.Warnings, secure.Warnings()) {
			s.log.Warn("configuration", "warning", w.Error())
		}
	}
	return s.changed(before, snap, names), nil
}

// keepLevels takes over what the last process has kept, before anything is served.
func (s *server) keepLevels(file *rules.File, snap *proxy.Snapshot) error {
	g := s.gateway
	s.levels = levels{
		path: file.State.Path, log: s.log.Logger, now: s.clock.Now,
		set: func() *rules.Set { return g.Current().Rules() },
	}
	if err := s.levels.check(); err != nil && file.State.Pos.Line > 0 { // else a warning comes when they are to be written
		return stateProblem(file, err)
	}
	s.levels.load(snap.Rules())
	return nil
}

// bind binds what the file wants to listen on and is not bound yet.
func (s *server) bind(file *rules.File) (public, private *proxy.Opening, err error) {
	if public, err = s.public.Prepare(s.addresses(file)); err != nil {
		return nil, nil, bindProblem(file, err)
	}
	var adminAddrs []proxy.Address
	if !file.Admin.Off {
		adminAddrs = []proxy.Address{{Addr: file.Admin.Addr}}
	}
	if private, err = s.admin.Prepare(adminAddrs); err != nil {
		public.Abort()
		return nil, nil, bindProblem(file, err)
	}
	return public, private, nil
}

// bindProblem places the error of binding in the file.
func bindProblem(file *rules.File, err error) error {
	b, ok := errors.AsType[*proxy.BindError](err)
	if !ok {
		return err
	}
	pos := file.Admin.Pos
	listen := file.Listen
	if file.TLS != nil && file.TLS.Redirect != nil {
		listen = append(slices.Clip(listen), *file.TLS.Redirect)
	}
	for _, l := range listen {
		if l.Addr == b.Addr {
			pos = l.Pos
		}
	}
	if pos.Line == 0 {
		err = fmt.Errorf("cannot listen on %s: %v", b.Addr, b.Err)
		if b.Addr == file.Admin.Addr {
			return &hintError{err, "it is the address of the admin listener, where the file gives none: write admin: and another one, or admin: off"}
		}
		return err
	}
	return fmt.Errorf("%v: cannot listen on %s: %v", pos, b.Addr, b.Err)
}

func (s *server) changed(before, now *proxy.Snapshot, renewed string) reload.Change {
	if before == nil {
		return reload.Change{Hash: now.Rules().Hash, Attrs: []slog.Attr{
			slog.Int("rules", len(now.Rules().Rules)), slog.String("hash", now.Rules().Hash),
		}}
	}
	change := now.Rules().Change(before.Rules())
	diff := change.String()
	if renewed != "" && now.Rules().Hash == before.Rules().Hash {
		diff = renewed
		if !change.Empty() {
			diff += "; " + change.String()
		}
	}
	return reload.Change{Text: "changed: " + diff, Hash: now.Rules().Hash, Attrs: []slog.Attr{slog.String("changed", diff)}}
}

// renewed names what of now has read other files, or the same ones anew, than
// before although the configuration file is the same. It is "" if nothing has.
func renewed(before, now *proxy.Snapshot, secure *certs.Change) string {
	if before == nil {
		return ""
	}
	var pools, secrets, parts []string
	for name, p := range now.Pools() {
		if before.Pools()[name] != p {
			pools = append(pools, strconv.Quote(name))
		}
	}
	old := before.Rules().File.Secrets()
	for name, secret := range now.Rules().File.Secrets() {
		switch {
		case secret.Is(old[name].Reveal()):
		case name == "jwt.jwks_file" || name == "jwt.public_key_file":
			parts = append(parts, "keys of jwt")
		default:
			secrets = append(secrets, name)
		}
	}
	slices.Sort(pools)
	slices.Sort(secrets)
	if len(pools) > 0 {
		parts = append(parts, "files of upstream "+strings.Join(pools, ", "))
	}
	if len(secrets) > 0 {
		parts = append(parts, "secret of "+strings.Join(secrets, ", "))
	}
	if secure.Renewed() {
		parts = append(parts, "files of tls")
	}
	return strings.Join(parts, "; ")
}

func doorSettings(f *rules.File) proxy.DoorSettings {
	return proxy.DoorSettings{
		ReadHeader: f.Timeouts.ReadHeader, Idle: f.Timeouts.Idle, Write: f.Timeouts.Write,
		HeaderBytes: int(f.Limits.HeaderBytes + f.Limits.URL),
		Entry:       entry(f),
	}
}

func entry(f *rules.File) proxy.Entry {
	e := proxy.Entry{Connections: f.Limits.Connections, PerAddress: f.Limits.ConnectionsPerIP, IPv6Prefix: f.IPv6Prefix}
	if f.ProxyProtocol {
		e.Proxies = &f.TrustedProxies
	}
	if e.Connections == 0 {
		e.Connections = proxy.AutoConnections()
	}
	return e
}

// adminSettings are those of the admin listener, whatever the file says.
var adminSettings = proxy.DoorSettings{
	ReadHeader: 10 * time.Second, Idle: 2 * time.Minute, Write: 30 * time.Second, HeaderBytes: 64 << 10,
	Entry: proxy.Entry{Connections: 64, Spare: 8},
}

func accessFormat(access string, out io.Writer) string {
	switch {
	case access != "auto":
		return access
	case isTerminal(out):
		return "text"
	}
	return "json"
}

// serve runs until a signal or ctx ends it, and drains. ready is called once
// everything listens.
func (s *server) serve(ctx context.Context, ready func()) error {
	signal.Ignore(syscall.SIGPIPE) // a reader of our logs that goes away must not take us along
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(stop)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	defer s.gateway.Close()
	defer s.certs.Close()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	sweeper := limit.Sweeper{Now: s.clock.Now, Tables: s.tables}
	wg.Go(func() { sweeper.Run(work) })
	wg.Go(func() { newMemory(s.tables).run(work) })
	if s.store != nil {
		s.store.Start(ctx)
		wg.Go(func() { s.store.Run(work) })
	}
	wg.Go(func() { s.history.Run(work, s.gateway) })
	keep, stopKeeping := context.WithCancel(work)
	defer stopKeeping()
	var keeping sync.WaitGroup
	keeping.Go(func() { s.levels.run(keep) })
	logs, stopLogs := context.WithCancel(context.WithoutCancel(ctx))
	logged := make(chan struct{})
	go func() { s.access.Run(logs); close(logged) }()

	s.log.Info("serving", "listen", s.public.Addrs(), "admin", s.admin.Addrs(), "file", s.name,
		"rules", len(s.gateway.Current().Rules().Rules), "counters", s.counters())
	if s.dryRun {
		s.log.Warn("dry run: no rule refuses anything, since the gateway was started with --dry-run")
	}
	if ready != nil {
		ready()
	}
	daemon.SdNotify(false, daemon.SdNotifyReady)
	wg.Go(func() { pat(work) })
	s.warnUnused()
	// From here until it has ended the loop alone changes what is open.
	follow, unfollow := context.WithCancel(work)
	defer unfollow()
	var following sync.WaitGroup
	if s.loop != nil {
		following.Go(func() { s.loop.Run(follow) })
	}
	following.Go(func() { s.reloadOn(follow, hup) })
	select {
	case <-ctx.Done():
	case sig := <-stop:
		s.log.Info("stopping", "signal", sig.String())
	}
	unfollow()
	following.Wait()
	err := s.drain(stop)
	stopKeeping()
	keeping.Wait()
	if err == nil {
		s.levels.save() // now that all has been given back
	}
	stopLogs()
	select {
	case <-logged:
	case <-time.After(2 * time.Second): // whoever reads the log has stopped reading
	}
	return err
}

// reloadOn reloads on each signal.
func (s *server) reloadOn(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		if s.loop == nil {
			s.log.Warn("SIGHUP without a file to reload")
			continue
		}
		s.loop.Trigger(ctx) // which logs the outcome
	}
}

// drain stops: not ready, then no new connections, then what is in progress
// ends, at most shutdown_timeout; a second signal ends it at once.
func (s *server) drain(stop <-chan os.Signal) error {
	daemon.SdNotify(false, daemon.SdNotifyStopping)
	s.draining.Store(true)
	file := s.gateway.Current().Rules().File
	over := time.After(file.ShutdownDelay)
	select {
	case <-over:
	case <-stop:
		return s.cut()
	}
	ctx, cancel := context.WithTimeout(context.Background(), file.ShutdownTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.public.Shutdown(ctx, func() bool { return s.gateway.InFlight() == 0 }) }()
	select {
	case err := <-done:
		if err != nil {
			s.log.Warn("requests were cut off at the end of shutdown_timeout", "timeout", file.ShutdownTimeout)
		}
	case <-stop:
		return s.cut()
	}
	s.log.Info("stopped")
	s.admin.Shutdown(ctx, nil)
	return nil
}

// cut ends a drain. Its word goes the way of the log, which never blocks.
func (s *server) cut() error {
	s.log.Warn("stopped at once by a second signal", "in_flight", s.gateway.InFlight())
	return errSaid
}

func (s *server) tables() []*limit.Table { return s.gateway.Current().Rules().Tables() }

func (s *server) adminHandler() http.Handler {
	return admin.NewHandler(admin.Config{
		Gateway:     s.gateway,
		Ready:       func() bool { return !s.draining.Load() },
		Reload:      s.reload,
		Reloads:     s.reloads,
		History:     &s.history,
		Logger:      s.log.Logger,
		Settings:    s.settings,
		DryRun:      s.switchRule,
		AllDryRun:   s.dryRun,
		Build:       build(),
		Dropped:     s.log.queue.dropped.Load,
		Connections: s.public.Connections,
		Token:       func() rules.Secret { return s.gateway.Current().Rules().File.Admin.Token },
		Expiries:    s.certs.Expiries,
		Store:       s.storeStatus,
	})
}

// reload is what POST /reload does.
func (s *server) reload(ctx context.Context) (string, error) {
	if s.loop == nil {
		return "", errors.New("there is no file to reload: the rules are from the command line")
	}
	out, err := s.loop.Trigger(ctx)
	if list, ok := errors.AsType[rules.ErrorList](err); ok {
		var b strings.Builder
		printErrors(&b, list, "; the running settings are unchanged.")
		return "", errors.New(b.String())
	}
	if err != nil {
		return "", fmt.Errorf("%w\nthe running settings are unchanged", err)
	}
	return out.String(), nil
}

func (s *server) reloads() admin.Reloads {
	if s.loop == nil {
		return admin.Reloads{OK: true, Since: float64(s.loaded.UnixNano()) / 1e9, Counts: map[string]uint64{}}
	}
	st := s.loop.Status()
	r := admin.Reloads{OK: st.OK, Since: float64(st.Since.UnixNano()) / 1e9, Counts: map[string]uint64{}}
	for result, n := range st.Reloads {
		r.Counts[string(result)] = n
	}
	if list, ok := errors.AsType[rules.ErrorList](st.Err); ok {
		r.Error = list.Error()
	} else if st.Err != nil {
		r.Error = st.Err.Error()
	}
	return r
}
