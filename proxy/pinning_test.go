package proxy

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"
	"weak"

	"gateway/rules"
)

func TestOpenTunnelsPinNoSnapshot(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 1000/h }]\n", echo)
	var open []*wire
	var old []weak.Pointer[Snapshot]
	var sets []weak.Pointer[rules.Set]
	version := 0
	next := func() {
		version++
		s.reload(fmt.Sprintf("upstream: UPSTREAM\nexempt: /v%d\nrules: [{ name: all, limit: %d/h }, { name: r%d, limit: 5/h, match: /x }]\n", version, 1000+version, version))
	}
	for range 20 { // each on a version of its own
		snap := s.gateway.Current()
		old, sets = append(old, weak.Make(snap)), append(sets, weak.Make(snap.rules))
		w := s.dial()
		if got := w.handshake("/ws", "hi").StatusCode; got != 101 {
			t.Fatalf("%d", got)
		}
		w.expect("hi")
		open = append(open, w)
		next()
	}
	eventually(t, "all old versions are collected while their tunnels are open", func() bool {
		runtime.GC()
		for i := range old {
			if old[i].Value() != nil || sets[i].Value() != nil {
				return false
			}
		}
		return true
	})
	for i, w := range open {
		w.send("still")
		w.expect("still")
		if n := s.gateway.InFlight(); n != int64(len(open)-i) {
			t.Errorf("%d in flight, want %d", n, len(open)-i)
		}
		w.Close()
		eventually(t, "the tunnel ends", func() bool { return s.gateway.InFlight() == int64(len(open)-i-1) })
	}
}

func TestManyReloadsLeaveNothingBehind(t *testing.T) {
	s := newSite(t, openRules, echo)
	w := s.dial()
	w.handshake("/ws", "")
	c := h1(t)
	round := func(from int) {
		for i := range 100 {
			n := from + i
			s.reload(fmt.Sprintf("timeouts: { write: %dms }\nupstreams: { u%d: { servers: [UPSTREAM], timeout: %dms } }\nroutes: [{ upstream: u%d }]\nrules: [{ name: r%d, limit: %d/h }]\n",
				5000+n, n, 10_000+n, n, n, 100+n))
			f := s.gateway.Current().rules.File
			s.doors.Configure(DoorSettings{ReadHeader: f.Timeouts.ReadHeader, Idle: f.Timeouts.Idle, Write: f.Timeouts.Write, HeaderBytes: 80 << 10})
			res, err := c.Get("http://" + s.addr)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Fatalf("reload %d: %d", n, res.StatusCode)
			}
			c.CloseIdleConnections() // so that the next one gets the new settings
		}
	}
	measure := func() (goroutines int, heap uint64) {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	round(0) // pools, buffers and caches as they will be
	before, heap := measure()
	round(1000)
	var after int
	var grown uint64
	deadline := time.Now().Add(patience)
	for {
		after, grown = measure()
		if after <= before+5 && grown < heap+1<<20 || time.Now().After(deadline) {
			break
		}
		time.Sleep(20 * time.Millisecond) // closed connections end one by one
	}
	if after > before+5 {
		t.Errorf("%d goroutines after 100 reloads, %d before", after, before)
	}
	if grown >= heap+1<<20 {
		t.Errorf("the heap grew from %d to %d KiB", heap>>10, grown>>10)
	}
	w.send("still")
	w.expect("still")
}
