package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

const smallSite = "upstreams: { api: UPSTREAM }\nroutes: [{ max_body: 10B }]\nrules: [{ name: all, key: global, limit: 100/h }]\n"

// taken returns the units that the site's one rule has taken.
func (s *site) taken() int64 { return s.gateway.Current().rules.Rules[0].Live.Units.Load() }

func TestABodyOverTheBoundIsRefusedByItsLengthAndCostsNothing(t *testing.T) {
	up := record(t)
	s := newSite(t, strings.ReplaceAll(smallSite, "UPSTREAM", up.url), nil)
	const head = "POST / HTTP/1.1\nHost: a\nConnection: close\n"
	early, cut := 0, 0
	for _, row := range []struct {
		name, text  string
		want, units int
	}{
		{"just fits", head + "Content-Length: 10\n\n0123456789", 200, 1},
		{"a byte more", head + "Content-Length: 11\n\n01234567890", 413, 0},
		{"a byte more, not sent", head + "Content-Length: 11\n\n", 413, 0},
		{"far more", head + "Content-Length: 9223372036854775807\n\n0", 413, 0},
		{"waiting for 100", head + "Content-Length: 11\nExpect: 100-continue\n\n", 413, 0},
		{"none", head + "\n", 200, 1},
		{"empty chunks", head + "Transfer-Encoding: chunked\n\n0\n\n", 200, 1},
		{"chunks that fit", head + "Transfer-Encoding: chunked\n\n5\n01234\n5\n56789\n0\n\n", 200, 1},
		{"one chunk too long", head + "Transfer-Encoding: chunked\n\nb\n01234567890\n0\n\n", 413, 1},
		{"a chunk too many", head + "Transfer-Encoding: chunked\n\na\n0123456789\n1\n0\n0\n\n", 413, 1},
		{"chunks without an end", head + "Transfer-Encoding: chunked\n\nffff\n" + strings.Repeat("x", 1000), 413, 1},
		{"two lengths", head + "Content-Length: 5\nTransfer-Encoding: chunked\n\nb\n01234567890\n0\n\n", 400, 0},
	} {
		before, heard := s.taken(), len(up.targets())
		r := s.raw(row.text)
		if r.StatusCode != row.want && !(row.want == 400 && r.StatusCode < 500) {
			t.Errorf("%s: %d, want %d", row.name, r.StatusCode, row.want)
		}
		if row.want == 413 && problemOf(t, r)["detail"] != bodyTooLarge.detail {
			t.Errorf("%s: %s", row.name, r.body)
		}
		if row.want == 413 && row.units == 0 {
			early++
			if n := len(up.targets()); n != heard {
				t.Errorf("%s: the upstream heard of it", row.name)
			}
		} else if row.want == 413 {
			cut++
		}
		eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
		if got := s.taken() - before; row.want != 400 && got != int64(row.units) {
			t.Errorf("%s: %d units, want %d", row.name, got, row.units)
		}
	}
	t.Attr("S12", fmt.Sprintf("%d × 413 by length, free and unknown to the upstream; %d × 413 for chunks", early, cut))
}

func TestTheUpstreamNeverTakesACutBodyForWhole(t *testing.T) {
	ends := make(chan error, 10)
	s := newSite(t, smallSite, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ends <- err
	})
	both(t, func(t *testing.T, c *http.Client) {
		req, _ := http.NewRequest("POST", "http://"+s.addr, io.MultiReader(strings.NewReader("0123456789"), strings.NewReader("01234")))
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("%d, want 413", res.StatusCode)
		}
		if err := <-ends; err == nil {
			t.Error("the upstream saw a body that ends well")
		}
	})
}

func TestABodyThatGrowsTooLongBehindAnAnswerBreaksOff(t *testing.T) {
	s := newSite(t, smallSite, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		io.WriteString(w, "early")
		rc.Flush()
		io.Copy(io.Discard, r.Body)
	})
	w := s.dial()
	w.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n")
	res, err := http.ReadResponse(w.in, nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	w.send("8\r\n01234567\r\n")
	body, err := io.ReadAll(res.Body)
	if err == nil && !res.Close {
		t.Errorf("%q ends well", body)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client does not get to see that the answer broke off")
	}
	eventually(t, "nothing in flight", func() bool { return s.gateway.InFlight() == 0 })
}
