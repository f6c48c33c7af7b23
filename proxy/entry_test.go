package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// letIn changes who is let in, from now on.
func (s *site) letIn(e Entry) {
	f := s.gateway.Current().rules.File
	s.doors.Configure(DoorSettings{
		ReadHeader: f.Timeouts.ReadHeader, Idle: f.Timeouts.Idle, Write: f.Timeouts.Write, HeaderBytes: 80 << 10, Entry: e,
	})
}

// from dials the gateway from an address of this machine's.
func (s *site) from(ip string) *wire {
	s.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &wire{s.t, c.(*net.TCPConn), bufio.NewReader(c)}
}

// asks sends a request and reports whether it was answered.
func (w *wire) asks() bool {
	w.t.Helper()
	w.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	r, ok := w.answer("GET")
	return ok && r.StatusCode == 200
}

// stays opens a connection and fails unless it is let in, or closed, as wanted.
func (s *site) stays(ip string, want bool) *wire {
	s.t.Helper()
	w := s.from(ip)
	if got := w.asks(); got != want {
		s.t.Errorf("a connection of %s is let in: %v, want %v", ip, got, want)
	}
	return w
}

func (s *site) refused(reason string) int64 { return s.doors.Connections().Refused[reason] }

func TestNoMoreConnectionsThanTheLimit(t *testing.T) {
	s := newSite(t, openRules, echo)
	s.letIn(Entry{Connections: 3})
	a, b, c := s.stays("127.0.0.1", true), s.stays("127.0.0.2", true), s.stays("127.0.0.1", true)
	for range 5 {
		s.stays("127.0.0.1", false)
	}
	for _, w := range []*wire{a, b, c} {
		if !w.asks() {
			t.Error("a connection that was in is harmed")
		}
	}
	if n := s.refused(tooMany); n != 5 {
		t.Errorf("%d refused, want 5", n)
	}
	b.Close()
	eventually(t, "a place is free", func() bool { return s.doors.Connections().Open == 2 })
	w := s.dial() // a tunnel holds its place
	if got := w.handshake("/ws", "hi").StatusCode; got != 101 {
		t.Fatal(got)
	}
	w.expect("hi")
	s.stays("127.0.0.1", false)
	w.Close()
	eventually(t, "the tunnel's place is free", func() bool { return s.doors.Connections().Open == 2 })
	s.stays("127.0.0.1", true)
}

func TestAConnectionLimitHoldsAtOnceForNewConnections(t *testing.T) {
	s := newSite(t, openRules, nil)
	var open []*wire
	for range 4 {
		open = append(open, s.stays("127.0.0.1", true))
	}
	s.letIn(Entry{Connections: 2})
	s.stays("127.0.0.1", false)
	s.letIn(Entry{Connections: 5})
	open = append(open, s.stays("127.0.0.1", true))
	s.letIn(Entry{PerAddress: 1, IPv6Prefix: 64}) // those that are in were not counted by address
	s.stays("127.0.0.1", true)
	s.stays("127.0.0.1", false)
	s.letIn(Entry{})
	s.stays("127.0.0.1", true)
	for _, w := range open {
		if !w.asks() {
			t.Error("a connection that was in is harmed")
		}
	}
}

func TestConnectionsAreCountedByAddress(t *testing.T) {
	s := newSite(t, openRules, nil)
	s.letIn(Entry{PerAddress: 2, IPv6Prefix: 64})
	a := s.stays("127.0.0.1", true)
	s.stays("127.0.0.1", true)
	s.stays("127.0.0.1", false)
	s.stays("127.0.0.2", true)
	a.Close()
	eventually(t, "a place is free", func() bool { return s.doors.Connections().Open == 2 })
	s.stays("127.0.0.1", true)
	if n := s.refused(tooManyByIP); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

func TestOneClientOnIPv6IsItsPrefix(t *testing.T) {
	d := NewDoors(http.NotFoundHandler(), nil)
	in := map[string]*conn{}
	for _, row := range []struct {
		peer string
		want bool
	}{
		{"2001:db8:0:1::1", true}, {"2001:db8:0:1:ffff::2", false}, {"2001:db8:0:2::1", true},
		{"192.0.2.1", true}, {"::ffff:192.0.2.1", false}, {"192.0.2.2", true}, {"fe80::1%eth0", true}, {"fe80::2%eth1", false},
	} {
		client, server := net.Pipe()
		client.Close()
		c := &conn{Conn: server, peer: netip.AddrPortFrom(netip.MustParseAddr(row.peer), 1), doors: d}
		d.visitors.in.Add(1)
		if got := d.count(c, &Entry{PerAddress: 1, IPv6Prefix: 64}); got != row.want {
			t.Errorf("%s: %v, want %v", row.peer, got, row.want)
		}
		in[row.peer] = c
	}
	if n := len(d.visitors.byAddress); n != 5 {
		t.Errorf("%d addresses are remembered, want 5", n)
	}
	for _, c := range in {
		c.Close()
		c.Close() // once is what counts
	}
	if n := len(d.visitors.byAddress); n != 0 || d.Connections().Open != 0 {
		t.Errorf("%d addresses and %d connections are remembered when all have gone", n, d.Connections().Open)
	}
}

func TestRefusedConnectionsLeaveNothingBehind(t *testing.T) {
	s := newSite(t, openRules, nil)
	s.letIn(Entry{Connections: 10, PerAddress: 1, IPv6Prefix: 64})
	for i := range 300 {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.0.1.%d", 1+i%100))}}).Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	eventually(t, "all but ten are refused", func() bool {
		return s.refused(tooMany)+s.refused(tooManyByIP) == 290 && s.doors.Connections().Open == 10
	})
	s.doors.visitors.mu.Lock()
	defer s.doors.visitors.mu.Unlock()
	if n := len(s.doors.visitors.byAddress); n != 10 {
		t.Errorf("%d addresses remembered, want 10", n)
	}
}

func TestSpareDescriptorsAreLentAndTakenBack(t *testing.T) {
	var s spare
	s.keep(3)
	for i := range 4 {
		if got := s.lend(fmt.Errorf("accept: %w", net.ErrClosed)); got {
			t.Error("lent for no want of descriptors")
		}
		if got, want := s.lend(&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}), i < 3; got != want {
			t.Errorf("time %d: lent %v, want %v", i+1, got, want)
		}
	}
	s.fill()
	if len(s.files) != 3 {
		t.Errorf("%d held, want 3", len(s.files))
	}
	s.keep(1)
	s.keep(0)
	if len(s.files) != 0 {
		t.Errorf("%d held at the end", len(s.files))
	}
}

// A descriptor that is given up for a connection of the admin listener may go to the
// public one, which asks at the same time: it must not keep it.
func TestAConnectionThatTakesALentDescriptorGivesItBack(t *testing.T) {
	none := errors.New("no descriptor left")
	var left atomic.Int64
	first := NewDoors(http.NotFoundHandler(), nil)
	first.spare.open = func() (*os.File, error) {
		if left.Add(-1) < 0 {
			return nil, none
		}
		return os.Open(os.DevNull)
	}
	left.Store(2)
	first.spare.keep(2)
	d := NewDoors(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), nil)
	d.First = first
	o, err := d.Prepare([]Address{{Addr: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	o.Commit(DoorSettings{ReadHeader: patience, HeaderBytes: 8 << 10})
	t.Cleanup(func() {
		d.Shutdown(context.Background(), nil)
		first.Shutdown(context.Background(), nil)
	})
	ask := func() error {
		c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := c.Get("http://" + d.Addrs()[0])
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	if err := ask(); err != nil {
		t.Errorf("with all that is held back there: %v", err)
	}
	emfile := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	first.spare.lend(emfile)
	if err := ask(); err == nil {
		t.Error("a connection got in on a descriptor that was lent")
	}
	if n := d.Connections().Refused[tooFewFiles]; n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
	left.Store(1) // as when a connection ends
	if err := ask(); err != nil {
		t.Errorf("once what was lent is back: %v", err)
	}
	first.spare.mu.Lock()
	defer first.spare.mu.Unlock()
	if n := len(first.spare.files); n != 2 {
		t.Errorf("%d held back, want 2", n)
	}
}

func TestTheNumberOfConnectionsFollowsFromTheDescriptors(t *testing.T) {
	if n := AutoConnections(); n < 1 || n > 3<<19 {
		t.Errorf("%d connections", n)
	}
}
