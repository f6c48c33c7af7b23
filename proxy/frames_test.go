package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framer returns what writes frames to a buffer and reads those that the gateway
// sends, with their fields.
func (w *wire) framer(out *bytes.Buffer) *http2.Framer {
	out.WriteString(http2.ClientPreface)
	f := http2.NewFramer(out, w.in)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	f.WriteSettings()
	return f
}

// The header of a frame is enough for a server to take memory for all of it: it
// must be refused by its length, before anything more of it has come.
func TestAFrameOverSixteenKiBIsRefusedByItsHeader(t *testing.T) {
	s := newSite(t, fivePerHour, nil)
	w := s.dial()
	var out bytes.Buffer
	f := w.framer(&out)
	w.send(out.String() + "\x00\x40\x01\x01\x05\x00\x00\x00\x01") // HEADERS of 16,385 bytes, none of which come
	allowed := uint32(0)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("no GOAWAY: %v", err)
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if n, ok := frame.Value(http2.SettingMaxFrameSize); ok {
				allowed = n
			}
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeFrameSize || allowed != 16<<10 {
				t.Errorf("%v, and frames of %d bytes allowed; want FRAME_SIZE_ERROR, and 16,384", frame.ErrCode, allowed)
			}
			if n := len(s.requests()); n != 0 {
				t.Errorf("%d requests at the upstream", n)
			}
			return
		}
	}
}

// odd2 is a request of HTTP/2 that is malformed or looks like it.
type odd2 struct {
	name     string
	fields   []string // names and values in turn
	body     string
	trailers []string
	want     []int // statuses, or what else came of it
}

// What came of a stream when it was not answered.
const (
	wasReset  = 1
	wasClosed = 2 // the whole connection
)

// more are the fields of a GET, and further ones; posted those of a POST.
func more(further ...string) []string {
	return append([]string{":method", "GET", ":scheme", "http", ":authority", "api.example.com", ":path", "/first"}, further...)
}

func posted(further ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":authority", "api.example.com", ":path", "/first"}, further...)
}

var oddRequests = []odd2{
	{"name in capitals", more("X-A", "a"), "", nil, []int{400, wasReset, wasClosed}},
	{"name empty", more("", "a"), "", nil, []int{400, wasReset, wasClosed}},
	{"name with a space", more("x a", "a"), "", nil, []int{400, wasReset, wasClosed}},
	{"name with a colon", more("x:a", "a"), "", nil, []int{400, wasReset, wasClosed}},
	{"name with a NUL", more("x\x00a", "a"), "", nil, []int{400, wasReset, wasClosed}},
	{"name with an end of line", more("x\r\na", "a"), "", nil, []int{400, wasReset, wasClosed}},
	{"value with a NUL", more("x-a", "a\x00b"), "", nil, []int{400, wasReset, wasClosed}},
	{"value with a CR", more("x-a", "a\rb"), "", nil, []int{400, wasReset, wasClosed}},
	{"value with a line feed", more("x-a", "a\nb: c"), "", nil, []int{400, wasReset, wasClosed}},
	{"value with a request in it", more("x-a", "a\r\n\r\n"+hidden), "", nil, []int{400, wasReset, wasClosed}},
	{"value behind a space", more("x-a", " a"), "", nil, []int{200, 400, wasReset}},
	{"value before a tab", more("x-a", "a\t"), "", nil, []int{200, 400, wasReset}},
	{"connection", more("connection", "close"), "", nil, []int{400, wasReset}},
	{"connection that nominates", more("connection", "x-api-key", "x-api-key", "k"), "", nil, []int{400, wasReset}},
	{"keep-alive", more("keep-alive", "timeout=5"), "", nil, []int{400, wasReset}},
	{"proxy-connection", more("proxy-connection", "close"), "", nil, []int{400, wasReset}},
	{"upgrade", more("upgrade", "h2c"), "", nil, []int{400, wasReset}},
	{"coding", more("transfer-encoding", "chunked"), "", nil, []int{400, wasReset}},
	{"te of gzip", more("te", "gzip"), "", nil, []int{400, wasReset}},
	{"te of trailers", more("te", "trailers"), "", nil, []int{200}},
	{"two paths", more(":path", "/hidden"), "", nil, []int{400, wasReset}},
	{"two methods", more(":method", "POST"), "", nil, []int{400, wasReset}},
	{"two authorities", more(":authority", "other"), "", nil, []int{400, wasReset}},
	{"a pseudo-field behind others", []string{":method", "GET", ":scheme", "http", "x-a", "a", ":authority", "a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"a pseudo-field that is none", more(":foo", "a"), "", nil, []int{400, wasReset}},
	{"a pseudo-field of answers", more(":status", "200"), "", nil, []int{400, wasReset}},
	{"no path", []string{":method", "GET", ":scheme", "http", ":authority", "a"}, "", nil, []int{400, wasReset}},
	{"no method", []string{":scheme", "http", ":authority", "a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"no scheme", []string{":method", "GET", ":authority", "a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"no fields", nil, "", nil, []int{400, wasReset}},
	{"no host", []string{":method", "GET", ":scheme", "http", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"path empty", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", ""}, "", nil, []int{400, wasReset}},
	{"path without a slash", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "first"}, "", nil, []int{400, wasReset}},
	{"path of a star", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "*"}, "", nil, []int{400, wasReset}},
	{"path of a star, OPTIONS", []string{":method", "OPTIONS", ":scheme", "http", ":authority", "a", ":path", "*"}, "", nil, []int{400, wasReset}},
	{"path with a version", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/first HTTP/1.1"}, "", nil, []int{400, wasReset}},
	{"path with a request in it", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/first HTTP/1.1\r\nHost: a\r\n\r\n" + hidden}, "", nil, []int{400, wasReset}},
	{"path with another version, behind a query", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/first?a HTTP/1.0"}, "", nil, []int{400, wasReset}},
	{"path with a fragment", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/first#x"}, "", nil, []int{400}},
	{"query with a fragment", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/first?a#x"}, "", nil, []int{400}},
	{"path of an absolute target", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "http://other/first"}, "", nil, []int{200, 400, wasReset}},
	{"path with a NUL", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/\x00"}, "", nil, []int{400, wasReset}},
	{"method with a space", []string{":method", "GET /hidden", ":scheme", "http", ":authority", "a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"method with a bracket", []string{":method", "GE(T", ":scheme", "http", ":authority", "a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"method with an end of line", []string{":method", "GET / HTTP/1.1\r\nX: y\r\n\r\n", ":scheme", "http", ":authority", "a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"method empty", []string{":method", "", ":scheme", "http", ":authority", "a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"authority with a path", []string{":method", "GET", ":scheme", "http", ":authority", "a/b", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"authority with a user", []string{":method", "GET", ":scheme", "http", ":authority", "u@a", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"authority with an end of line", []string{":method", "GET", ":scheme", "http", ":authority", "a\r\nx-a: b", ":path", "/first"}, "", nil, []int{400, wasReset}},
	{"another host beside the authority", more("host", "other.example.com"), "", nil, []int{200, 400, wasReset}},
	{"two hosts", more("host", "a", "host", "b"), "", nil, []int{200, 400, wasReset}},
	{"a length that nothing follows", more("content-length", "5"), "", nil, []int{200, 400, wasReset}}, // it is not passed on
	{"CONNECT", []string{":method", "CONNECT", ":authority", "a:22"}, "", nil, []int{405}},
	{"CONNECT with a path", []string{":method", "CONNECT", ":scheme", "http", ":authority", "a:22", ":path", "/first"}, "", nil, []int{400, 405, wasReset}},
	{"CONNECT for a WebSocket", []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "a", ":path", "/first"}, "", nil, []int{400, 405, wasReset}},
	{"an Expect that is none", more("expect", "nonsense"), "", nil, []int{417}},

	// With a body.
	{"a request in the body", posted(), hidden, nil, []int{200}},
	{"length short", posted("content-length", "3"), "hello", nil, []int{400, wasReset}},
	{"length long", posted("content-length", "9"), "hello", nil, []int{400, wasReset}},
	{"length of zero", posted("content-length", "0"), hidden, nil, []int{200, 400, wasReset}},
	{"length with a plus", posted("content-length", "+5"), "hello", nil, []int{200, 400, wasReset}},
	{"length list", posted("content-length", "5, 5"), "hello", nil, []int{200, 400, wasReset}},
	{"two lengths", posted("content-length", "5", "content-length", "6"), "hello", nil, []int{200, 400, wasReset}},
	{"length negative", posted("content-length", "-5"), "hello", nil, []int{200, 400, wasReset}},
	{"coding and a body in chunks", posted("transfer-encoding", "chunked"), "0\r\n\r\n" + hidden, nil, []int{400, wasReset}},
	{"trailers with a pseudo-field", posted(), "hello", []string{":path", "/hidden"}, []int{400, wasReset, wasClosed}},
	{"trailers that frame", posted(), "hello", []string{"content-length", "50", "transfer-encoding", "chunked"}, []int{200, 400, wasReset}},
	{"trailers with an end of line", posted(), "hello", []string{"x-a", "a\r\nb"}, []int{200, 400, wasReset, wasClosed}},
	{"CONNECT with a request in its body", []string{":method", "CONNECT", ":authority", "a:22"}, hidden, nil, []int{405}},
}

func TestOddRequestsOfHTTP2AreTheClientsFault(t *testing.T) {
	s, up := oddSite(t, "") // none waits for a deadline
	t.Run("inputs", func(t *testing.T) {
		for _, c := range oddRequests {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				(&site{t: t, addr: s.addr}).odd2(c)
			})
		}
	})
	n := s.allPaid(up)
	t.Attr("S08", fmt.Sprintf("HTTP/2: %d inputs, 0 unmetered of %d requests at the upstream, 0 units given back", len(oddRequests), n))
}

// odd2 sends an odd request as stream 1, and then one that is answered as long as
// the connection lives.
func (s *site) odd2(c odd2) {
	t := s.t
	w := s.dial()
	var out, block bytes.Buffer
	f, enc := w.framer(&out), hpack.NewEncoder(&block)
	headers := func(stream uint32, end bool, fields []string) {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	}
	headers(1, c.body == "", c.fields)
	if c.body != "" {
		f.WriteData(1, c.trailers == nil, []byte(c.body))
	}
	if c.trailers != nil {
		headers(1, true, c.trailers)
	}
	headers(3, true, []string{":method", "GET", ":scheme", "http", ":authority", "api.example.com", ":path", "/after"})
	w.send(out.String())
	got := map[uint32]int{}
	for got[1] == 0 || got[3] == 0 {
		stream, outcome := uint32(0), 0
		frame, err := f.ReadFrame()
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			stream = frame.StreamID
			outcome, _ = strconv.Atoi(frame.PseudoValue("status"))
		case *http2.RSTStreamFrame:
			stream, outcome = frame.StreamID, wasReset
		case *http2.GoAwayFrame:
			err = errors.New("it ends")
		}
		if err != nil {
			got[1], got[3] = max(got[1], wasClosed), max(got[3], wasClosed)
		} else if got[stream] == 0 && outcome != 0 {
			got[stream] = outcome
		}
	}
	if !slices.Contains(c.want, got[1]) {
		t.Errorf("%q: %d, want one of %d", c.fields, got[1], c.want)
	}
	if got[3] != 200 && !(got[3] == wasClosed && slices.Contains(c.want, wasClosed)) {
		t.Errorf("%q: the stream behind it: %d", c.fields, got[3])
	}
}
