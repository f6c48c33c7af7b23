package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// badServer is the side of a connection of HTTP/2 that answers a request wrongly.
type badServer struct {
	*http2.Framer
	conn   net.Conn
	stream uint32 // of the request
}

// headers sends a header block, of names and values in turn.
func (s badServer) headers(end bool, fields ...string) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
}

// ok begins an answer that may be whole.
func (s badServer) ok(fields ...string) {
	s.headers(false, append([]string{":status", "200"}, fields...)...)
}

// badHTTP2 starts a server that answers each request by answer, and then reads on.
func badHTTP2(t *testing.T, answer func(badServer)) string {
	return raw(t, func(c net.Conn, in *bufio.Reader) {
		if _, err := io.ReadFull(in, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, in)
		f.AllowIllegalWrites = true
		f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := frame.(*http2.HeadersFrame); ok {
				answer(badServer{f, c, h.StreamID})
			}
		}
	})
}

// A server of HTTP/2 that breaks the rules is a bad gateway, and what it broke off
// is never whole.
func TestFaultsOfHTTP2ServersAreToldApart(t *testing.T) {
	const (
		broken  = 0 // an answer that must not end well
		refused = 1 // sent again, until it has taken too long
	)
	tests := []struct {
		name   string
		answer func(s badServer)
		want   int
	}{
		{"goes away", func(s badServer) { s.WriteGoAway(0, http2.ErrCodeNo, nil) }, refused},
		{"goes away in anger", func(s badServer) { s.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }, 502},
		{"refuses the stream", func(s badServer) { s.WriteRSTStream(s.stream, http2.ErrCodeRefusedStream) }, refused},
		{"resets the stream", func(s badServer) { s.WriteRSTStream(s.stream, http2.ErrCodeInternal) }, 502},
		{"closes", func(s badServer) { s.conn.Close() }, 502},
		{"frames of no size", func(s badServer) {
			s.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 0})
			s.conn.Close()
		}, 502},
		{"a window too large", func(s badServer) { s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}) }, 502},
		{"a window update of nothing", func(s badServer) { s.WriteWindowUpdate(0, 0) }, 502},
		{"a frame too large", func(s badServer) { io.WriteString(s.conn, "\xff\xff\xff\x01\x04\x00\x00\x00\x01") }, 502},
		{"a push", func(s badServer) {
			s.WritePushPromise(http2.PushPromiseParam{StreamID: s.stream, PromiseID: 2, BlockFragment: []byte{0x88}, EndHeaders: true})
		}, 502},
		{"garbage for fields", func(s badServer) {
			s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
		}, 502},
		{"a header block without an end", func(s badServer) {
			s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.stream, BlockFragment: []byte{0x88}})
			s.WriteData(s.stream, true, []byte("evil"))
		}, 502},
		{"a body without a head", func(s badServer) { s.WriteData(s.stream, true, []byte("evil")) }, 502},
		{"no status", func(s badServer) { s.headers(true, "x-a", "b") }, 502},
		{"status of letters", func(s badServer) { s.headers(true, ":status", "abc") }, 502},
		{"status 099", func(s badServer) { s.headers(true, ":status", "099") }, 502},
		{"status 101", func(s badServer) { s.headers(false, ":status", "101") }, 502},
		{"status twice", func(s badServer) { s.headers(true, ":status", "200", ":status", "404") }, 502},
		{"a name in capitals", func(s badServer) { s.headers(true, ":status", "200", "X-A", "b") }, 502},
		{"a NUL in a value", func(s badServer) { s.headers(true, ":status", "200", "x-a", "a\x00b") }, 502},
		{"interim answers without an end", func(s badServer) {
			for range 200 {
				s.headers(false, ":status", "103", "link", "</x>")
			}
		}, 502},
		{"closes behind its head", func(s badServer) { s.ok(); s.conn.Close() }, broken},
		{"closes in its body", func(s badServer) { s.ok(); s.WriteData(s.stream, false, []byte("half")); s.conn.Close() }, broken},
		{"resets in its body", func(s badServer) {
			s.ok()
			s.WriteData(s.stream, false, []byte("half"))
			s.WriteRSTStream(s.stream, http2.ErrCodeInternal)
		}, broken},
		{"less than its length", func(s badServer) { s.ok("content-length", "10"); s.WriteData(s.stream, true, []byte("half")) }, broken},
		{"more than its length", func(s badServer) { s.ok("content-length", "2"); s.WriteData(s.stream, true, []byte("half")) }, broken},
		{"a pseudo-field in its trailers", func(s badServer) {
			s.ok()
			s.WriteData(s.stream, false, []byte("half"))
			s.headers(true, ":status", "200")
		}, broken},
	}
	right := 0
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			u := spec(t, "h2c://"+badHTTP2(t, test.answer))
			if test.want == refused { // the others end by themselves, on a machine that stands still for a moment, too
				u.Timeout = time.Second
			}
			d, p := &door{}, newPool(t, u)
			gw := gateway(t, p, d)
			for proto, c := range map[string]*http.Client{"HTTP/1.1": client(t), "HTTP/2": h2cClient(t)} {
				res, err := c.Get(gw.URL)
				if err != nil {
					if test.want != broken {
						t.Fatalf("%s: %v", proto, err)
					}
					continue
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				switch {
				case test.want == broken && res.StatusCode != 502 && err == nil:
					t.Errorf("%s: %d %q ends well", proto, res.StatusCode, body)
				case test.want == refused && (res.StatusCode == 502 || res.StatusCode == 504):
				case test.want != broken && (res.StatusCode != test.want || err != nil):
					t.Errorf("%s: %d %q, %v, want %d; failed with %v", proto, res.StatusCode, body, err, test.want, d.failures())
				}
			}
			eventually(t, "nothing in flight", func() bool { return p.Stats()[0].InFlight == 0 })
			right++
		})
	}
	t.Attr("S17", fmt.Sprintf("%d of %d faults of HTTP/2 told apart", right, len(tests)))
}
