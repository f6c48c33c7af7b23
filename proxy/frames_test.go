package proxy

import (
	"encoding/binary"
	"io"
	"testing"
)

// The header of a frame is enough for a server to take memory for all of it: it
// must be refused by its length, before anything more of it has come.
func TestAFrameOverSixteenKiBIsRefusedByItsHeader(t *testing.T) {
	s := newSite(t, fivePerHour, nil)
	c := s.dial()
	c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + // SETTINGS, empty
		"\x00\x40\x01\x01\x05\x00\x00\x00\x01") // HEADERS of 16,385 bytes, none of which come
	allowed := uint32(0)
	for {
		var head [9]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			t.Fatalf("no GOAWAY: %v", err)
		}
		body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c.in, body); err != nil {
			t.Fatal(err)
		}
		switch head[3] {
		case 4: // SETTINGS
			for ; len(body) >= 6; body = body[6:] {
				if binary.BigEndian.Uint16(body) == 5 { // SETTINGS_MAX_FRAME_SIZE
					allowed = binary.BigEndian.Uint32(body[2:])
				}
			}
		case 7: // GOAWAY
			if code := binary.BigEndian.Uint32(body[4:]); code != 6 || allowed != 16<<10 {
				t.Errorf("error %d, and frames of %d bytes allowed; want FRAME_SIZE_ERROR (6), and 16,384", code, allowed)
			}
			if n := len(s.requests()); n != 0 {
				t.Errorf("%d requests at the upstream", n)
			}
			return
		}
	}
}
