package proxy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"gateway/rules"
)

// 50 WebSockets and 50 requests in progress, each begun under a version of its
// own, while 1,000 versions come and go.
func TestAThousandReloadsWithOpenSocketsLeaveTheHeapFlat(t *testing.T) {
	release := make(chan struct{})
	s := newSite(t, openRules, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/held" {
			echo(w, r)
			return
		}
		w.(http.Flusher).Flush()
		<-release
		io.WriteString(w, "done")
	})
	const open, reloads = 50, 1000
	var tunnels, held []*wire
	var snaps []weak.Pointer[Snapshot]
	var sets []weak.Pointer[rules.Set]
	measure := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var early uint64
	for n := range reloads {
		// The pool stays, most else changes.
		s.reload(fmt.Sprintf("upstream: UPSTREAM\nexempt: /v%d\nblock: { header.X-Version: v%d }\nrules: [{ name: all, limit: %d/h }, { name: r%d, limit: 5/h, match: /x%d }, { name: slots, concurrency: %d }]\n",
			n, n, 1000+n, n, n, 1000+n))
		snap := s.gateway.Current()
		snaps, sets = append(snaps, weak.Make(snap)), append(sets, weak.Make(snap.rules))
		if n < open {
			w := s.dial()
			w.SetDeadline(time.Now().Add(5 * patience))
			if got := w.handshake("/ws", "hi").StatusCode; got != 101 {
				t.Fatalf("%d", got)
			}
			w.expect("hi")
			r := s.dial()
			r.SetDeadline(time.Now().Add(5 * patience))
			r.send("GET /held HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if _, err := r.in.Peek(1); err != nil { // its answer has begun
				t.Fatal(err)
			}
			tunnels, held = append(tunnels, w), append(held, r)
		}
		if n == reloads/10 {
			early = measure()
		}
	}
	var late uint64
	eventually(t, "the versions that are gone are collected, and the heap is as it was", func() bool {
		late = measure()
		left := 0
		for i := range reloads - 1 {
			if snaps[i].Value() != nil || sets[i].Value() != nil {
				left++
			}
		}
		return left == 0 && late < early+1<<20
	})
	t.Attr("S32", fmt.Sprintf("heap %d KiB after 100 reloads, %d KiB after 1,000, with 100 open sockets", early>>10, late>>10))
	if n := s.gateway.InFlight(); n != 2*open {
		t.Errorf("%d in flight, want %d", n, 2*open)
	}
	close(release)
	for i := range open {
		if r := held[i].mustAnswer("GET"); r.StatusCode != 200 || r.body != "done" {
			t.Errorf("request %d: %d %q", i, r.StatusCode, r.body)
		}
		tunnels[i].send("still")
		tunnels[i].expect("still")
		tunnels[i].Close()
	}
	s.idle()
}

// Case K07: what is remembered of a key has one size.
func TestLongKeysCostNoMoreMemoryThanShortOnes(t *testing.T) {
	keys := 2000
	if os.Getenv("GATEWAY_LONG") == "1" {
		keys = 10_000
	}
	grown := func(pad string) uint64 {
		s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: keys, key: header.Authorization, limit: 5/m }, { name: all, limit: 1000000/h }]\n", nil)
		s.gateway.access.SetFormat("off")
		w := s.dial()
		w.SetDeadline(time.Now().Add(5 * patience))
		ask := func(key string) {
			w.send("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: " + key + "\r\n\r\n")
			if r := w.mustAnswer("GET"); r.StatusCode != 200 {
				t.Fatalf("%d", r.StatusCode)
			}
		}
		measure := func() uint64 {
			s.mu.Lock()
			s.seen = nil // which the recording upstream keeps
			s.mu.Unlock()
			var m runtime.MemStats
			for range 3 {
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		ask("first")
		before := measure()
		for i := range keys {
			ask(fmt.Sprintf("%08d%s", i, pad))
			if i%1000 == 0 {
				measure()
			}
		}
		after := measure()
		table := s.gateway.Current().rules.Rules[0].Base.Live.Table
		if n := table.Stats().Keys; n != int64(keys)+1 {
			t.Fatalf("%d keys are remembered, want %d", n, keys+1)
		}
		return max(after, before) - before
	}
	short := grown("")
	long := grown(strings.Repeat("x", 8<<10-8))
	t.Attr("K07", fmt.Sprintf("%d keys of 8 bytes take %d KiB, of 8 KiB %d KiB", keys, short>>10, long>>10))
	if long > short+1<<20 {
		t.Errorf("%d keys of 8 bytes take %d KiB, of 8 KiB %d KiB: want as much", keys, short>>10, long>>10)
	}
}
