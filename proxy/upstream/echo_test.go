package upstream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// TestAnAnswerIsReadWhileTheServerTakesNoMoreOfTheBody has a server that answers as
// soon as it has the header, at more length than the buffers between hold, and reads
// the body when that is read. On one processor what sends the body nearly always has
// to wait for the server before whoever reads the answer gets to run.
func TestAnAnswerIsReadWhileTheServerTakesNoMoreOfTheBody(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const size = 16 << 20
	addr := raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
			if _, err := io.Copy(c, strings.NewReader(strings.Repeat("a", size))); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, r, size); err != nil {
				return
			}
		}
	})
	d := newDirect(t, "http://"+addr)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for range 5 {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr, io.NopCloser(bytes.NewReader(make([]byte, size))))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = size
		res, err := d.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if n != size || err != nil {
			t.Errorf("got %d bytes of the answer, %v", n, err)
		}
	}
}
