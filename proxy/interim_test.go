package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestClientsThatResetWhileHintsAreWritten has clients of HTTP/2 leave at every moment
// of a long interim answer. What they must not do is end the program.
func TestClientsThatResetWhileHintsAreWritten(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: []\n", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for i := range 5_000 {
			h[fmt.Sprint("X-Hint-", i)] = []string{"</style.css>"}
		}
		w.WriteHeader(http.StatusEarlyHints)
		clear(h)
		fmt.Fprint(w, "ok")
	})
	c := h2c(t)
	for i := range 40 {
		ctx, leave := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+"/", nil)
		arrived := len(s.requests())
		go func() {
			if res, err := c.Do(r); err == nil {
				res.Body.Close()
			}
		}()
		eventually(t, "the request to arrive", func() bool { return len(s.requests()) > arrived })
		time.Sleep(time.Duration(i) * time.Millisecond / 2) // any moment will do
		leave()
	}
	eventually(t, "all requests to end", func() bool { return s.gateway.InFlight() == 0 })
}

// TestInterimAnswersAreNoPartOfTheAnswer looks at what an HTTP/2 client gets.
func TestInterimAnswersAreNoPartOfTheAnswer(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{name: all, limit: 5/h}]\n", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		fmt.Fprint(w, "ok")
	})
	res, err := h2c(t).Get("http://" + s.addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b strings.Builder
	res.Header.Write(&b)
	if got := res.Header.Get("Content-Length"); got != "2" || res.Header.Get("Link") != "" || res.Header.Get("RateLimit") == "" {
		t.Errorf("got %q", b.String())
	}
}
