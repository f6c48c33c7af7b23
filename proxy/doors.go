package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DoorSettings are what connections are accepted with. A change holds for new
// connections.
type DoorSettings struct {
	// ReadHeader bounds the time for a request's head, Idle that between two
	// requests; 0 is none.
	ReadHeader, Idle time.Duration
	// Write is the span in which a client must take something of an answer.
	Write time.Duration
	// HeaderBytes is the most a request's head may have before net/http itself
	// refuses it.
	HeaderBytes int
	// TLS is what secure addresses speak; nil if there are none. It must not be
	// changed afterwards: another configuration is another pointer.
	TLS *tls.Config
	// Entry says which connections are let in.
	Entry Entry
}

// Address is where to listen, and what for.
type Address struct {
	// Addr is "host:port", where an empty host is every address, "unix:" and a path,
	// or "systemd:" and a name.
	Addr string
	// Secure says that connections begin with a TLS handshake.
	Secure bool
	// Handler serves what comes in here; nil is the handler of the Doors.
	Handler http.Handler
}

// Doors are the listening sockets of one handler: HTTP/1.1, and HTTP/2, on plain
// addresses with prior knowledge. Addresses change while they are open: Prepare binds what is
// new and may fail; Commit begins to serve there and closes what is old. It
// starts nothing before the first Commit. Prepare, Commit, Abort, Configure and
// Shutdown must not run at the same time.
type Doors struct {
	// Inherited are the sockets that were bound before the process began, by the
	// name of their systemd: address. They stay open and are never served twice.
	// To be set before the first Prepare.
	Inherited map[string][]*os.File
	// SocketMode says who may connect to unix sockets; 0 is everybody who may enter
	// their folder. To be set before the first Prepare.
	SocketMode fs.FileMode
	// First are the Doors that come first when file descriptors run out: a connection
	// here that has taken one of those which they hold back, or have just given up for
	// a connection of theirs, is closed again. Nil is none. To be set before the first
	// Prepare.
	First *Doors

	handler http.Handler
	log     *slog.Logger
	base    context.Context // of all requests; ends when time is up
	cancel  context.CancelFunc

	open    map[string]*door
	current atomic.Pointer[serving]
	old     []*serving // replaced by other settings, with connections left
	wg      sync.WaitGroup

	entry    atomic.Pointer[Entry]
	visitors visitors
	spare    spare

	newcomers atomic.Int64 // connections whose first request has not come yet
}

// door is one socket.
type door struct {
	ln   socket
	use  atomic.Pointer[Address] // changes without the socket
	done chan struct{}           // closed when nothing more will be accepted; nil before serving
}

// serving is an http.Server with the settings of its time. Connections reach it
// through a channel, so that a change of settings closes no socket.
type serving struct {
	settings DoorSettings
	server   *http.Server
	conns    chan *conn
	closed   chan struct{}
	served   chan struct{} // closed when the server knows every connection it got
	once     sync.Once
	alive    atomic.Int64 // connections
}

// NewDoors returns Doors for handler without any address yet.
func NewDoors(handler http.Handler, log *slog.Logger) *Doors {
	base, cancel := context.WithCancel(context.Background())
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Doors{handler: handler, log: log, base: base, cancel: cancel, open: map[string]*door{}}
}

// BindError says that an address could not be listened on.
type BindError struct {
	Addr string
	Err  error
}

func (e *BindError) Error() string { return fmt.Sprintf("listen %q: %v", e.Addr, e.Err) }

// Unwrap returns the error of the system.
func (e *BindError) Unwrap() error { return e.Err }

// Opening is a change of addresses that is bound but not yet served. Commit or
// Abort it.
type Opening struct {
	doors *Doors
	fresh map[string]*door
	keep  []Address
}

// Prepare binds those of addrs that are not open yet. When one cannot be bound
// the error is a *BindError and everything is as it was.
func (d *Doors) Prepare(addrs []Address) (*Opening, error) {
	all := d.sockets(addrs)
	o := &Opening{doors: d, fresh: map[string]*door{}, keep: all}
	for _, a := range all {
		addr := a.Addr
		if d.open[addr] != nil || o.fresh[addr] != nil {
			continue
		}
		ln, err := d.bind(addr)
		if err != nil {
			o.Abort()
			if strings.HasPrefix(addr, systemdScheme) {
				addr, _, _ = strings.Cut(addr, "#")
			}
			return nil, &BindError{Addr: addr, Err: cause(err)}
		}
		o.fresh[addr] = &door{ln: ln}
	}
	return o, nil
}

// Abort closes what Prepare bound.
func (o *Opening) Abort() {
	for _, n := range o.fresh {
		n.ln.Close()
	}
}

// At returns the address really listened on for one that was given to Prepare: with
// port 0, and for a systemd: address, it is another.
func (o *Opening) At(addr string) string {
	for _, a := range o.doors.sockets([]Address{{Addr: addr}}) {
		if n := cmp.Or(o.fresh[a.Addr], o.doors.open[a.Addr]); n != nil {
			return n.ln.Addr().String()
		}
	}
	return addr
}

// Commit serves on the new addresses with the given settings and closes the
// others. What is in progress there ends in its own time.
func (o *Opening) Commit(s DoorSettings) {
	d := o.doors
	d.Configure(s)
	for addr, n := range o.fresh {
		d.open[addr] = n
	}
	for i := range o.keep {
		d.open[o.keep[i].Addr].use.Store(&o.keep[i])
	}
	for _, n := range o.fresh {
		d.serve(n)
	}
	for addr, n := range d.open {
		if slices.ContainsFunc(o.keep, func(a Address) bool { return a.Addr == addr }) {
			continue
		}
		if wide := d.covering(n, o.keep); wide != nil {
			n.use.Store(wide)
			continue
		}
		n.close()
		delete(d.open, addr)
	}
}

// covering returns the one of the addresses in keep that takes in that of n, or
// nil. The kernel gives n its connections as long as it is open, and resets those
// that wait in its queue when it closes; left open, it loses none.
func (d *Doors) covering(n *door, keep []Address) *Address {
	for i := range keep {
		if wide, ok := d.open[keep[i].Addr].ln.Addr().(*net.TCPAddr); ok && wide.IP.IsUnspecified() && wide.Port == n.port() {
			return &keep[i]
		}
	}
	return nil
}

// Addrs returns the addresses really listened on, sorted: with port 0 in the
// file, the port that was given; for a systemd: address, what was bound for it.
func (d *Doors) Addrs() []string {
	var list []string
	for _, n := range d.open {
		addr := n.ln.Addr().String()
		if n.port() < 0 {
			addr = unixScheme + addr
		}
		list = append(list, addr)
	}
	slices.Sort(list)
	return list
}

// Configure changes the settings of new connections.
func (d *Doors) Configure(s DoorSettings) {
	entry := s.Entry
	d.entry.Store(&entry)
	d.spare.keep(entry.Spare)
	s.Entry = Entry{} // nothing to a server
	now := d.current.Load()
	if now != nil && now.settings == s {
		return
	}
	next := d.newServing(s)
	d.current.Store(next)
	d.wg.Go(func() { next.server.Serve(next); close(next.served) })
	if now != nil {
		now.Close() // no more connections; those it has go on
		d.old = append(slices.DeleteFunc(d.old, func(s *serving) bool { return s.alive.Load() == 0 }), now)
	}
}

func (d *Doors) newServing(s DoorSettings) *serving {
	v := &serving{settings: s, conns: make(chan *conn), closed: make(chan struct{}), served: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	v.server = &http.Server{
		Handler:                      http.HandlerFunc(d.serveHTTP),
		ReadHeaderTimeout:            s.ReadHeader,
		IdleTimeout:                  s.Idle,
		MaxHeaderBytes:               s.HeaderBytes,
		DisableGeneralOptionsHandler: true, // else OPTIONS * never reaches the rules
		Protocols:                    &protocols,
		TLSNextProto:                 map[string]func(*http.Server, *tls.Conn, http.Handler){challengeProtocol: closeChallenge},
		// No WriteByteTimeout: conn sees to it, and a TLS connection does not outlive one.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100,
			MaxReadFrameSize:     frameBytes,
			SendPingTimeout:      time.Minute,
		},
		BaseContext: func(net.Listener) context.Context { return d.base },
		ConnContext: connContext,
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				v.alive.Add(1)
			case http.StateClosed, http.StateHijacked:
				v.alive.Add(-1)
				if c := connOf(c); c != nil {
					c.hear()
					c.attended.Store(false)
				}
			case http.StateActive:
				noteProtocol(c)
				if c, ok := c.(*conn); ok {
					c.active()
				}
			case http.StateIdle:
				if c, ok := c.(*conn); ok {
					c.idle()
				}
			}
		},
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	return v
}

// frameBytes is the most that a frame of HTTP/2 may have, and the least that may
// be asked for. Memory for a frame is taken as soon as its nine bytes of header
// are there, so the 1 MiB that net/http allows by itself is a gift to idle clients.
const frameBytes = 16 << 10

// serve accepts on n until it is closed.
func (d *Doors) serve(n *door) {
	n.done = make(chan struct{})
	d.wg.Go(func() {
		defer close(n.done)
		var pause time.Duration
		for {
			c, err := n.ln.Accept()
			if err == nil {
				pause = 0
				d.receive(c, n)
				d.spare.fill()
				continue
			}
			if isTimeout(err) {
				d.takeRest(n)
				return
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if d.spare.lend(err) {
				continue
			}
			// Out of file descriptors, mostly: it passes as connections end.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			d.log.Warn("accepting a connection", "err", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-d.base.Done():
				return
			}
			d.spare.fill()
		}
	})
}

// takeRest accepts what waits in the queue of a closing socket. On a busy machine
// the deadline may have passed before anybody looked, and Accept looks no more then.
func (d *Doors) takeRest(n *door) {
	for over := time.Now().Add(10 * lastCall); time.Now().Before(over); { // some may still come
		n.ln.SetDeadline(time.Now().Add(lastCall))
		c, err := n.ln.Accept()
		if err != nil {
			return
		}
		d.receive(c, n)
	}
}

// hand gives a connection to the server of the present settings.
func (d *Doors) hand(n *conn) {
	d.newcomers.Add(1)
	n.peerName = nameOf(n.peer)
	for {
		s := d.current.Load()
		n.span = s.settings.Write
		select {
		case s.conns <- n:
			return
		case <-s.closed:
			if d.current.Load() == s { // shut down
				n.hear()
				n.Close()
				return
			}
		}
	}
}

// port returns the TCP port, or -1 for a unix socket.
func (n *door) port() int {
	if a, ok := n.ln.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return -1
}

// close stops accepting. Connections that have come already are still taken.
func (n *door) close() {
	if n.done != nil {
		n.ln.SetDeadline(time.Now().Add(lastCall))
		<-n.done
	}
	n.ln.Close()
}

// lastCall is how long a closing socket still accepts what waits in its queue.
const lastCall = 20 * time.Millisecond

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// Accept implements net.Listener.
func (s *serving) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return s.secure(c), nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *serving) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *serving) Addr() net.Addr { return &net.TCPAddr{} }

// Shutdown closes all doors and waits for what is in progress, idle, until ctx
// ends; then it cuts what is left. HTTP/2 clients are told to go away. idle says
// that no request is in progress, tunnels included; nil is true at once.
func (d *Doors) Shutdown(ctx context.Context, idle func() bool) error {
	for addr, n := range d.open {
		n.close()
		delete(d.open, addr)
	}
	all := d.old
	if now := d.current.Load(); now != nil {
		all = append(all, now)
	}
	for _, s := range all {
		s.Close()
		<-s.served
	}
	if idle != nil {
		// A server that shuts down drops a first request that is just being read.
		soon, cancel := context.WithTimeout(ctx, firstRequest)
		waitIdle(soon, func() bool { return d.newcomers.Load() == 0 })
		cancel()
	}
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { s.server.Shutdown(ctx) })
	}
	wg.Wait()
	err := waitIdle(ctx, idle) // Shutdown knows nothing of tunnels
	d.cancel()
	for _, s := range all {
		s.server.Close()
	}
	d.wg.Wait()
	d.spare.keep(0)
	return err
}

// firstRequest is how long a stop waits for the first request of connections
// that were accepted just before it.
const firstRequest = 500 * time.Millisecond

func waitIdle(ctx context.Context, idle func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for idle != nil && !idle() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
