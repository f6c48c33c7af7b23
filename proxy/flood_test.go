package proxy

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"gateway/limit"
)

// eighth is an eighth of the block a connection is judged by.
var eighth = make([]byte, 256<<10)

func TestWhatIsReceivedMustBelongToRequests(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name   string
		first  string // what the connection begins with
		start  int    // requests at the start
		worth  int64  // of bodies and answers, in each turn
		begun  int    // requests in each turn
		turn   int    // bytes received in a turn
		turns  int
		during time.Duration // of a turn
		flood  bool
	}{
		{"nothing but frames", "PRI * HTTP/2.0", 0, 0, 0, 2 * mib, 1, 0, true},
		{"less than a block of frames", "PRI * HTTP/2.0", 0, 0, 0, 2*mib - 256<<10, 1, 0, false},
		{"a request in 2 MiB", "PRI", 0, 0, 1, 2 * mib, 32, 0, false},
		{"a request in 4 MiB", "PRI", 0, 0, 1, 4 * mib, 32, 0, true},
		{"an eighth in bodies and answers", "PRI", 0, 256 << 10, 0, 2 * mib, 32, 0, false},
		{"a byte less", "PRI", 0, 256<<10 - 1, 0, 2 * mib, 32, 0, true},
		{"in no hurry", "PRI", 0, 0, 0, 2 * mib, 32, 2 * time.Minute, false},
		{"in some hurry", "PRI", 0, 0, 0, 2 * mib, 32, 119 * time.Second, true},
		{"four requests are worth 8 MiB", "PRI", 4, 0, 0, 8 * mib, 1, 0, false},
		{"and no more", "PRI", 4, 0, 0, 10 * mib, 1, 0, true},
		{"many requests are worth as much, beyond a block", "PRI", 1000, 0, 0, 10 * mib, 1, 0, false},
		{"and no more than that", "PRI", 1000, 0, 0, 12 * mib, 1, 0, true},
		{"HTTP/1", "PUT /film HTTP/1.1", 0, 0, 0, 2 * mib, 32, 0, false},
		{"HTTP/2 within TLS, no request", "\x16\x03\x01", 0, 0, 0, 2 * mib, 32, 0, false},
		{"HTTP/2 within TLS", "\x16\x03\x01", 1, 0, 0, 4 * mib, 1, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var c traffic
			flood := c.floods([]byte(tt.first))
			for range tt.start {
				c.begun()
			}
			for range tt.turns {
				for range tt.begun {
					c.begun()
				}
				c.worth.Add(tt.worth)
				pieces := tt.turn / len(eighth)
				for range pieces {
					time.Sleep(tt.during / time.Duration(pieces))
					flood = flood || c.floods(eighth)
				}
			}
			if flood != tt.flood {
				t.Errorf("%s: taken for a flood: %v, want %v", tt.name, flood, tt.flood)
			}
		})
	}
}

func TestRequestsMustNotMostlyBeReset(t *testing.T) {
	for _, tt := range []struct {
		name          string
		resets, whole int           // in turns
		each          time.Duration // from one turn to the next
		bad           bool
	}{
		{"all are", 1, 0, 0, true},
		{"more than half", 4, 3, 0, true},
		{"a third", 1, 2, 0, false},
		{"few", 1, 20, 0, false},
		{"all, 20 a second", 1, 0, 50 * time.Millisecond, true},
		{"all, 10 a second", 1, 0, 100 * time.Millisecond, false},
	} {
		var c traffic
		now, bad := limit.Instant(1), false
		for range 3 * resetBlock {
			for range tt.whole {
				c.ended(now, false)
			}
			for range tt.resets {
				bad = c.ended(now, true) || bad
			}
			now += limit.Instant(tt.each)
		}
		if bad != tt.bad {
			t.Errorf("%s: too many: %v, want %v", tt.name, bad, tt.bad)
		}
	}
}

// frames speaks HTTP/2 frame by frame.
type frames struct {
	*wire
	*http2.Framer
	out bytes.Buffer
	enc *hpack.Encoder
	hdr bytes.Buffer
}

func (s *site) frames(ip string) *frames {
	s.t.Helper()
	f := &frames{wire: s.from(ip)}
	f.Framer = http2.NewFramer(&f.out, f.in)
	f.enc = hpack.NewEncoder(&f.hdr)
	f.out.WriteString(http2.ClientPreface)
	f.WriteSettings()
	return f
}

// get opens a stream with a request for path.
func (f *frames) get(stream uint32, path string) {
	f.hdr.Reset()
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", path}} {
		f.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.hdr.Bytes(), EndStream: true, EndHeaders: true})
}

// flush sends what was written and reports whether the connection took it.
func (f *frames) flush() bool {
	_, err := f.TCPConn.Write(f.out.Bytes())
	f.out.Reset()
	return err == nil
}

// floods sends what write writes again and again until the connection is closed,
// reading all that comes, and fails if it takes over most bytes.
func (f *frames) floods(most int, write func()) {
	f.t.Helper()
	f.flush()
	go io.Copy(io.Discard, f.in)
	for f.out.Len() < 64<<10 {
		write()
	}
	for sent := 0; sent < most; sent += f.out.Len() {
		if _, err := f.TCPConn.Write(f.out.Bytes()); err != nil {
			return
		}
	}
	f.t.Errorf("the connection is open after %d MiB", most>>20)
}

// The small ones, PING and an empty CONTINUATION, have their turn with the built
// binary.
func TestFloodsOfFramesEndTheirConnectionAndNoOther(t *testing.T) {
	var many []http2.Setting // as many as net/http takes at a time
	for id := range 100 {
		many = append(many, http2.Setting{ID: http2.SettingID(1000 + id)})
	}
	for what, flood := range map[string]func(f *frames) func(){
		"SETTINGS": func(f *frames) func() {
			return func() { f.WriteSettings(many...) }
		},
		"unknown frames": func(f *frames) func() {
			f.get(1, "/")
			return func() { f.WriteRawFrame(200, 0, 1, make([]byte, 16<<10)) }
		},
	} {
		s := newSite(t, openRules, nil)
		good := s.stays("127.0.0.2", true)
		f := s.frames("127.0.0.1")
		f.floods(64<<20, flood(f)) // the kernel's buffers hold some of it
		eventually(t, what+" is counted", func() bool { return s.refused(flooding) == 1 })
		if !good.asks() {
			t.Errorf("%s: another connection is harmed", what)
		}
	}
}

func TestRapidResetsEndTheirConnectionAndNoOther(t *testing.T) {
	s := newSite(t, openRules, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
	})
	good := s.stays("127.0.0.2", true)
	f := s.frames("127.0.0.1")
	go io.Copy(io.Discard, f.in)
	stream, sent := uint32(1), 0
	for ; f.flush() && sent < 1_000_000; sent += 20 {
		for range 20 {
			f.get(stream, "/slow")
			f.WriteRSTStream(stream, http2.ErrCodeCancel)
			stream += 2
		}
	}
	if sent == 1_000_000 {
		t.Error("the connection is open after a million resets")
	}
	s.idle()
	if !good.asks() {
		t.Error("another connection is harmed")
	}
	// net/http may have ended it for its queue of requests; ours alone counts.
	t.Logf("closed after %d requests, of which %d reached the upstream; by our bound: %d", sent, len(s.requests()), s.refused(tooManyResets))
}

func TestATrustedPeerSpeaksForManyWhoLeave(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		text := "timeouts: { idle: 1m }\n" + openRules
		if trusted {
			text = "trusted_proxies: [127.0.0.1]\n" + text
		}
		s := newSite(t, text, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		f := s.frames("127.0.0.1")
		go io.Copy(io.Discard, f.in)
		sent := 0
		for open := true; open && sent < 2*resetBlock; sent += 50 {
			for i := range 50 {
				f.get(uint32(2*(sent+i)+1), "/slow")
			}
			f.flush()
			eventually(t, "the requests are at the upstream", func() bool {
				return s.gateway.Current().pools["default"].Stats()[0].InFlight == 50 || s.refused(tooManyResets) > 0
			})
			for i := range 50 {
				f.WriteRSTStream(uint32(2*(sent+i)+1), http2.ErrCodeCancel)
			}
			f.flush()
			s.idle()
			open = s.refused(tooManyResets) == 0
		}
		if closed := s.refused(tooManyResets) == 1; closed == trusted || closed && sent != resetBlock {
			t.Errorf("trusted: %v; closed: %v after %d resets, want that of others after %d", trusted, closed, sent, resetBlock)
		}
	}
}
