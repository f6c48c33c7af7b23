package upstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDirectAgainstNetHTTP has a server write any bytes for an answer, in two
// pieces, and close. Whatever they are, both transports make the same of them, and
// direct gives none of them to the next request.
func FuzzDirectAgainstNetHTTP(f *testing.F) {
	for i, answer := range corpus {
		if len(answer.text) < 4096 {
			f.Add([]byte(answer.text), uint8(i), uint16(i))
		}
	}
	type served struct {
		text []byte
		cut  int
	}
	var now atomic.Pointer[served]
	addr := raw(f, func(c net.Conn, r *bufio.Reader) {
		path, err := readRequest(r)
		switch {
		case err != nil:
		case path == "/second":
			io.WriteString(c, second)
		default:
			s := now.Load()
			c.Write(s.text[:s.cut])
			c.Write(s.text[s.cut:])
		}
	})
	ways := bothWays(f, "http://"+addr)
	f.Fuzz(func(t *testing.T, text []byte, which uint8, cut uint16) {
		if len(text) > 64<<10 || strings.Contains(string(text), "second") {
			t.Skip("more than a server may write before it is read")
		}
		s := &served{text, int(cut) % (len(text) + 1)}
		now.Store(s)
		r := requestKinds[int(which)%len(requestKinds)]
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		var got []outcome
		for _, w := range ways {
			// Each from a fresh connection: how soon a closed one is noticed is a matter of time.
			w.RoundTripper.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			got = append(got, exchangeBy(ctx, w, r, addr, "/first"))
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Fatalf("%s, %q cut at %d: (-net/http +direct)\n%s", r, text, s.cut, diff)
		}
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+addr+"/second", nil)
		res, err := ways[1].RoundTrip(req)
		if err == nil {
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if s.cut == len(text) && string(b) != "second" {
				t.Fatalf("%s, %q: the second request got %d %q", r, text, res.StatusCode, b)
			}
		} else if s.cut == len(text) {
			t.Fatalf("%s, %q: the second request got %v", r, text, err)
		}
	})
}
