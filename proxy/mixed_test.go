package proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNoAnswerIsMixedUp has clients of all kinds at once, whose exchanges use the
// same memory one after another: those that leave in the middle, that send several
// requests at once, that send bodies, that get long or late answers.
func TestNoAnswerIsMixedUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: all, limit: 1000000/h }, { name: other, key: header.X-Key, limit: 1000000/h }]\n",
		func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			size, _ := strconv.Atoi(r.URL.Query().Get("size"))
			if r.URL.Query().Get("late") != "" {
				time.Sleep(60 * time.Millisecond) // until the client is watched
			}
			text := r.URL.Path + string(body) + r.Header.Get("X-Key") + "/"
			w.Header().Set("X-Path", r.URL.Path)
			if size%2 == 0 {
				w.Header().Set("Content-Length", strconv.Itoa(len(text)*size))
			}
			for range size {
				io.WriteString(w, text)
			}
		})
	var wg sync.WaitGroup
	for client := range 12 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			w := s.dial()
			for i := range 60 {
				var asked []string
				for n := range 1 + random.IntN(3)/2 {
					id, size := fmt.Sprintf("/%d-%d-%d", client, i, n), random.IntN(5)
					if random.IntN(10) == 0 {
						size *= 2000
					}
					late, method, body := "", "GET", ""
					if random.IntN(20) == 0 {
						late = "1"
					}
					if random.IntN(4) == 0 {
						method, body = "POST", "body"+id
					}
					w.send(fmt.Sprintf("%s %s?size=%d&late=%s HTTP/1.1\r\nHost: a\r\nX-Key: k%s\r\nContent-Length: %d\r\n\r\n%s",
						method, id, size, late, id, len(body), body))
					asked = append(asked, id, strings.Repeat(id+body+"k"+id+"/", size))
				}
				if random.IntN(10) == 0 {
					w.Close()
					w = s.dial()
					continue
				}
				for ; len(asked) > 0; asked = asked[2:] {
					got := w.mustAnswer("GET")
					if got.StatusCode != 200 || got.Header.Get("X-Path") != asked[0] || got.body != asked[1] {
						t.Errorf("%s was answered with %d of %s, %d bytes where %d are right", asked[0], got.StatusCode, got.Header.Get("X-Path"), len(got.body), len(asked[1]))
						return
					}
				}
			}
			w.Close()
		})
	}
	wg.Wait()
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
}
