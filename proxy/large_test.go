package proxy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// pattern is a stream of n bytes that differ from place to place.
type pattern struct{ at, n int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.n {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.n-p.at))
	for i := range n {
		b[i] = byte((p.at + int64(i)) * 2654435761 >> 13)
	}
	p.at += int64(n)
	return n, nil
}

func TestLargeBodiesFlowBothWaysInFlatMemory(t *testing.T) {
	const size = 32 << 20
	want := sha256.New()
	io.Copy(want, &pattern{n: size})
	sum := fmt.Sprintf("%x", want.Sum(nil))
	s := newSite(t, openRules, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, _ := io.Copy(h, r.Body)
		w.Header().Set("X-Got", fmt.Sprintf("%d %x %d %v", n, h.Sum(nil), r.ContentLength, r.TransferEncoding))
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		io.Copy(w, &pattern{n: size})
	})
	var peak atomic.Uint64
	stop := make(chan struct{})
	watched := make(chan struct{})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	go func() {
		defer close(watched)
		for {
			var m runtime.MemStats
			runtime.GC() // else there is as much garbage as others have in use
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	for _, path := range []string{"/known", "/chunked"} {
		both(t, func(t *testing.T, c *http.Client) {
			if path == "/known" && c.Transport.(*http.Transport).Protocols != nil {
				return // HTTP/2 frames both alike
			}
			req, _ := http.NewRequest("POST", "http://"+s.addr+path, &pattern{n: size})
			framed, back := "-1 [chunked]", int64(-1)
			if path == "/known" {
				req.ContentLength = size
				framed, back = fmt.Sprintf("%d []", size), size
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, want := res.Header.Get("X-Got"), fmt.Sprintf("%d %s %s", size, sum, framed); got != want {
				t.Errorf("%s: the upstream got %s, want %s", path, got, want)
			}
			h := sha256.New()
			n, err := io.Copy(h, res.Body)
			if err != nil || n != size || fmt.Sprintf("%x", h.Sum(nil)) != sum || res.ContentLength != back {
				t.Errorf("%s: %d bytes of Content-Length %d, %v, or others than were sent", path, n, res.ContentLength, err)
			}
		})
	}
	close(stop)
	<-watched
	if grown := int64(peak.Load()) - int64(before.HeapAlloc); grown > 24<<20 {
		t.Errorf("the heap grew by %d MiB while 6 bodies of 32 MiB passed", grown>>20)
	}
}
