package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slowModes are the attacks of slowhttptest.
var slowModes = []struct{ name, args string }{
	{"headers", "-H -i 1 -l 30"},
	{"body", "-B -i 1 -s 8192 -x 10 -l 30"},
	{"ranges", "-R -t HEAD -a 10 -b 3000 -l 30"},
	// This one notices the end only behind all that it has not read, so that it
	// goes on to its end.
	{"read", "-X -w 256 -y 512 -n 1 -z 8 -k 3 -l 10"},
}

// Of 200 connections of each attack none may be left when it ends, and meanwhile
// another client is served as ever.
func TestSlowhttptest(t *testing.T) {
	large := strings.Repeat("x", 8<<20)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		http.ServeContent(w, r, "large.txt", time.Time{}, strings.NewReader(large))
	}))
	t.Cleanup(up.Close)
	g := serve(t, "timeouts: { read_header: 2s, read: 2s, write: 2s, idle: 2s }\nupstream: "+up.URL+
		"\nrules: [{ name: all, key: global, limit: 1000000/s }]\n")
	var said []string
	for _, mode := range slowModes {
		t.Run(mode.name, func(t *testing.T) {
			good, crowd := ask(t, "http://"+g.addr), count(t, "http://"+g.admin)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			args := append(strings.Fields(mode.args), "-c", "200", "-r", "200", "-p", "10", "-v", "1", "-u", "http://"+g.addr+"/")
			out, err := exec.CommandContext(ctx, "slowhttptest", args...).CombinedOutput()
			most, left, span := crowd()
			asked, served := good()
			// Left may be the connections of the other client and of the tool's probe.
			// Where the machine is slow the first are gone when the last come.
			if err != nil || most < 20 && mode.name != "ranges" || left > 3 {
				t.Errorf("%v; at most %d connections and %d at its end:\n%s", err, most, left, out[max(0, len(out)-2000):])
			}
			if asked == 0 || served != asked || strings.Contains(string(out), "NO") {
				t.Errorf("another client got %d of its %d answers:\n%s", served, asked, out[max(0, len(out)-2000):])
			}
			said = append(said, fmt.Sprintf("%s %.1f s", mode.name, span.Seconds()))
		})
	}
	t.Attr("S13", "slowhttptest, 200 connections each, gone after: "+strings.Join(said, ", "))
}

// count watches how many connections are open until the function is called that
// it returns, which says the most there were, how many there are, and for how long
// there were more than a few.
func count(t *testing.T, admin string) (stop func() (most, left int, span time.Duration)) {
	open := regexp.MustCompile(`(?m)^gateway_connections (\d+)`)
	look := func() int {
		res, err := http.Get(admin + "/metrics")
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		m := open.FindSubmatch(text)
		if m == nil {
			t.Errorf("no figure of connections in\n%s", text)
			return 0
		}
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	done, finished := make(chan struct{}), make(chan struct{})
	most, span, began := 0, time.Duration(0), time.Now()
	go func() {
		defer close(finished)
		for {
			n := look()
			if most = max(most, n); n > 3 {
				span = time.Since(began)
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond): // between two looks
			}
		}
	}()
	return func() (int, int, time.Duration) {
		close(done)
		<-finished
		return most, look(), span
	}
}

// ask sends requests one after another until the function is called that it
// returns, which says how many there were, and how many got 200.
func ask(t *testing.T, url string) (stop func() (asked, served int)) {
	done, finished := make(chan struct{}), make(chan struct{})
	asked, served := 0, 0
	go func() {
		defer close(finished)
		for {
			asked++
			req, _ := http.NewRequest("GET", url, nil)
			req.Header.Set("Range", "bytes=0-9")
			if res, err := http.DefaultClient.Do(req); err != nil {
				t.Log(err)
			} else {
				if body, err := io.ReadAll(res.Body); err == nil && res.StatusCode == http.StatusPartialContent && len(body) == 10 {
					served++
				}
				res.Body.Close()
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond): // between two requests
			}
		}
	}()
	return func() (int, int) {
		close(done)
		<-finished
		return asked, served
	}
}
