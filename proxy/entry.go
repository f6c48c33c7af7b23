package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gateway/rules"
)

// Entry says which connections are let in. A change holds for those that come
// from then on.
type Entry struct {
	// Connections is the most at one time, PerAddress the most of one client's
	// address; 0 is no bound.
	Connections, PerAddress int64
	// IPv6Prefix is the number of bits of an IPv6 address that make one client.
	IPv6Prefix int
	// Proxies, unless nil, are the only peers that get in, and each of their
	// connections must begin with a PROXY header.
	Proxies *rules.Prefixes
	// Spare is how many file descriptors are held back, for these connections
	// alone, when others have taken all there are.
	Spare int
}

// AutoConnections is the most connections when the file says nothing: three
// quarters of the file descriptors, of which each connection takes two, one of
// them to an upstream.
func AutoConnections() int64 {
	const most = 1 << 20
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return most
	}
	return max(1, int64(min(files.Cur, 4*most)*3/4/2))
}

// Reasons why a connection is closed as soon as it has come.
const (
	tooMany     = "connections"
	tooManyByIP = "connections_per_ip"
	tooFewFiles = "file_descriptors"

	untrustedProxy = "untrusted_peer"
	badProxyHeader = "proxy_header"
)

// Reasons why one is closed later on.
const (
	flooding      = "http2_flood"
	tooManyResets = "http2_resets"
)

var reasons = [...]string{tooMany, tooManyByIP, tooFewFiles, untrustedProxy, badProxyHeader, flooding, tooManyResets}

// visitors are the connections that are in.
type visitors struct {
	in      atomic.Int64
	refused [len(reasons)]atomic.Int64
	said    atomic.Int64 // when a refusal was last logged, as a Unix time

	mu        sync.Mutex
	byAddress map[netip.Prefix]int64 // only those of clients with a connection
}

// ConnectionStats are a reading of the counters of connections.
type ConnectionStats struct {
	// Open is how many there are, tunnels included.
	Open int64
	// Refused counts those that were closed as soon as they had come, or for a
	// flood, by reason.
	Refused map[string]int64
}

// Connections reads the counters of connections.
func (d *Doors) Connections() ConnectionStats {
	s := ConnectionStats{Open: d.visitors.in.Load(), Refused: map[string]int64{}}
	for i, reason := range reasons {
		s.Refused[reason] = d.visitors.refused[i].Load()
	}
	return s
}

// receive lets a connection in, or closes it.
func (d *Doors) receive(c net.Conn, at *door) {
	e := d.entry.Load()
	boundUnsent(c)
	n := &conn{Conn: lazy(c), doors: d, use: at.use.Load()}
	n.peer, n.local = otherEnd(c)
	if in := d.visitors.in.Add(1); e.Connections > 0 && in > e.Connections {
		d.refuse(n, tooMany)
		return
	}
	if d.First != nil && !d.First.spare.fill() {
		d.refuse(n, tooFewFiles) // whose descriptor goes back to them: see leave
		return
	}
	if e.Proxies != nil {
		d.introduce(n, e)
		return
	}
	d.welcome(n, e)
}

// welcome hands a connection whose client is known to the server, unless that
// client has enough of them.
func (d *Doors) welcome(n *conn, e *Entry) {
	if !d.count(n, e) {
		d.refuse(n, tooManyByIP)
		return
	}
	d.hand(n)
}

// count counts the connection with the others of its client, and reports whether
// that one may have another.
func (d *Doors) count(c *conn, e *Entry) bool {
	if e.PerAddress == 0 || c.local {
		return true
	}
	addr := c.peer.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = e.IPv6Prefix
	}
	home, err := addr.Prefix(bits)
	if err != nil {
		return true
	}
	v := &d.visitors
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byAddress[home] >= e.PerAddress {
		return false
	}
	if v.byAddress == nil {
		v.byAddress = map[netip.Prefix]int64{}
	}
	v.byAddress[home]++
	c.home = home
	return true
}

// refuse closes a connection that is not let in.
func (d *Doors) refuse(c *conn, why string) {
	d.turnAway(c, why, "connections are refused")
}

// turnAway closes a connection for what it is or does, counts it, and says so.
func (d *Doors) turnAway(c *conn, why, said string) {
	defer c.Close()
	for i, reason := range reasons {
		if reason == why {
			d.visitors.refused[i].Add(1)
		}
	}
	// Once a minute is enough for an operator, whatever comes.
	if now, last := time.Now().Unix(), d.visitors.said.Load(); now-last >= 60 && d.visitors.said.CompareAndSwap(last, now) {
		d.log.LogAttrs(context.Background(), slog.LevelWarn, said, slog.String("reason", why),
			slog.String("peer", c.peer.Addr().Unmap().String()), slog.Int64("open", d.visitors.in.Load()))
	}
}

// leave is called once for each connection, when it is closed.
func (d *Doors) leave(c *conn) {
	v := &d.visitors
	v.in.Add(-1)
	d.spare.fill()
	if d.First != nil {
		d.First.spare.fill()
	}
	if !c.home.IsValid() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byAddress[c.home]--; v.byAddress[c.home] == 0 {
		delete(v.byAddress, c.home)
	}
}
