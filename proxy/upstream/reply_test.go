package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// taker is a client that takes its time over each piece.
type taker struct {
	*httptest.ResponseRecorder
	pause  time.Duration
	pieces []int
	err    error
}

func (w *taker) Write(p []byte) (int, error) {
	w.pieces = append(w.pieces, len(p))
	time.Sleep(w.pause)
	if w.err != nil && len(w.pieces) > 2 {
		return 0, w.err
	}
	return w.ResponseRecorder.Write(p)
}

func TestALargeAnswerIsPassedOnInLargePiecesToWhoTakesThem(t *testing.T) {
	const size = 4*largeSize + bufferSize
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7 / 5)
	}
	gone := errors.New("gone")
	for name, row := range map[string]struct {
		most  []int // of each read
		pause time.Duration
		err   error
		begin []int // the first pieces
		last  int
	}{
		"fast": {most: []int{largeSize}, begin: []int{bufferSize, largeSize, largeSize, largeSize, largeSize}},
		// One large piece shows that the client is slow.
		"slow client":   {most: []int{largeSize}, pause: time.Second, begin: []int{bufferSize, largeSize, bufferSize, bufferSize, bufferSize}},
		"slow server":   {most: []int{bufferSize - 1}, begin: []int{bufferSize - 1, bufferSize - 1, bufferSize - 1}},
		"slow midway":   {most: []int{bufferSize, largeSize, 10, largeSize}, begin: []int{bufferSize, largeSize, 10, bufferSize, largeSize}},
		"it goes away":  {most: []int{largeSize}, err: gone, begin: []int{bufferSize, largeSize, largeSize}},
		"none is free":  {most: []int{largeSize}, last: largeMost, begin: []int{bufferSize, bufferSize, bufferSize, bufferSize}},
		"one too small": {most: []int{bufferSize, 5, bufferSize}, begin: []int{bufferSize, 5, bufferSize, bufferSize}},
	} {
		t.Run(name, func(t *testing.T) {
			for range row.last {
				defer largeBuffers.put(largeBuffers.get())
			}
			synctest.Test(t, func(t *testing.T) {
				body := &steps{data: data, most: row.most, err: io.EOF}
				w := &taker{ResponseRecorder: httptest.NewRecorder(), pause: row.pause, err: row.err}
				y := &reply{ResponseWriter: w, over: true} // nothing is flushed: a bubble cannot wait for a lock
				y.answered(&http.Response{ContentLength: size, Body: io.NopCloser(body), Request: httptest.NewRequest("GET", "/", nil)})
				y.WriteHeader(200)
				buf := make([]byte, bufferSize)
				for { // as ReverseProxy does
					n, readErr := body.Read(buf)
					if n > 0 {
						if m, err := y.Write(buf[:n]); err != row.err || err == nil && m != n {
							t.Errorf("wrote %d of %d, %v", m, n, err)
						} else if err != nil {
							break
						}
					}
					if readErr != nil {
						break
					}
				}
				y.end()
				if row.err == nil && !bytes.Equal(w.Body.Bytes(), data) {
					t.Errorf("%d bytes of %d arrived, or others", w.Body.Len(), size)
				}
				if len(w.pieces) < len(row.begin) || !slices.Equal(w.pieces[:len(row.begin)], row.begin) {
					t.Errorf("pieces %v, want %v first", w.pieces[:min(len(w.pieces), 8)], row.begin)
				}
			})
		})
	}
	if n := largeBuffers.used.Load(); n != 0 {
		t.Errorf("%d buffers are in use at the end", n)
	}
}

// Behind a burst, which goes by a large buffer, each small piece arrives before the
// next is sent; and an answer that breaks off there is none that is complete.
func TestPiecesBehindABurstArriveAsTheyAreSent(t *testing.T) {
	const burst = 3 * largeSize
	next := make(chan struct{})
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(burst+3*8+1))
		w.Write(bytes.Repeat([]byte("burst..\n"), burst/8))
		w.(http.Flusher).Flush()
		for range 3 {
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
			io.WriteString(w, "piece..\n")
			w.(http.Flusher).Flush()
		}
		select {
		case <-next:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}))
	for proto, c := range map[string]*http.Client{"HTTP/1.1": client(t), "HTTP/2": h2cClient(t)} {
		gw, _, _ := front(t, up.URL)
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", gw.URL, nil)
		res, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", proto, err)
		}
		got := make([]byte, burst)
		if _, err := io.ReadFull(res.Body, got); err != nil || strings.Trim(string(got), "burst.\n") != "" {
			t.Fatalf("%s: the burst: %v", proto, err)
		}
		for i := range 3 {
			next <- struct{}{}
			if _, err := io.ReadFull(res.Body, got[:8]); err != nil || string(got[:8]) != "piece..\n" {
				t.Fatalf("%s: piece %d: %q, %v", proto, i, got[:8], err)
			}
		}
		next <- struct{}{}
		if n, err := io.Copy(io.Discard, res.Body); n > 0 || err == nil {
			t.Errorf("%s: at the end got %d bytes, %v", proto, n, err)
		}
		res.Body.Close()
	}
}

// lone is a client whose ResponseWriter is used by one at a time, as net/http wants.
type lone struct {
	*httptest.ResponseRecorder
	inUse    atomic.Int32
	together atomic.Bool
	flushing chan struct{}
}

func (w *lone) FlushError() error {
	if w.inUse.Add(1) > 1 {
		w.together.Store(true)
	}
	select {
	case w.flushing <- struct{}{}:
	default:
	}
	time.Sleep(flushAfter) // for another to come
	w.inUse.Add(-1)
	return nil
}

// TestOneAtATimeFlushes has ReverseProxy flush while a flush of the reply's own is on.
func TestOneAtATimeFlushes(t *testing.T) {
	w := &lone{ResponseRecorder: httptest.NewRecorder(), flushing: make(chan struct{}, 1)}
	y := &reply{ResponseWriter: w}
	y.answered(&http.Response{ContentLength: 9, Body: io.NopCloser(strings.NewReader("")), Request: httptest.NewRequest("GET", "/", nil)})
	y.Write([]byte("abc"))
	receive(t, "a flush", w.flushing)
	if err := http.NewResponseController(y).Flush(); err != nil {
		t.Error(err)
	}
	y.end()
	if w.together.Load() {
		t.Error("two flushes at the same time")
	}
}

// TestNothingIsFlushedBehindHEAD has the answer of a server of HTTP/2, whose empty body
// is not that of HTTP/1.
func TestNothingIsFlushedBehindHEAD(t *testing.T) {
	y := &reply{ResponseWriter: httptest.NewRecorder()}
	y.answered(&http.Response{ContentLength: 9, Body: io.NopCloser(strings.NewReader("")), Request: httptest.NewRequest("HEAD", "/", nil)})
	if y.WriteHeader(200); y.timer != nil {
		t.Error("a flush is due")
	}
}
