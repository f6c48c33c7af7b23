package replay

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"gateway/limit"
)

// Records say the same until they are given back, whatever is read meanwhile, in
// formats whose lines are written to and in others.
func TestRecordsLastUntilTheyAreGivenBack(t *testing.T) {
	for _, c := range []struct{ name, line string }{
		{"combined", `10.0.0.1 - - [01/Oct/2026:00:00:01 +0000] "GET /a/%d HTTP/1.1" 200 1 "-" "agent %d"`},
		{"combined with details", `10.0.0.1 - ann%d [01/Oct/2026:00:00:01 +0000] "BREW /pot HTTP/1.1" 200 1 "-" "a \"b\" %d"`},
		{"Caddy", `{"ts":1790812801,"request":{"remote_ip":"10.0.0.1","method":"GET","host":"h\u0065%d","uri":"/","headers":{"User-Agent":["agent %d"]}},"status":200}`},
		{"ours", `{"at":1790812801000000123,"seq":%d,"client":"10.0.0.1","method":"GET","path":"/a","status":200,"duration":0.1,"result":"allowed","rules":{"x":{"cost":%d}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			const all = 3 * window / 2
			for i := range all {
				fmt.Fprintf(&log, c.line+"\n", i, i)
			}
			r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(log.String()), Headers: []string{"User-Agent", "Authorization"}})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var held [][]*Record
			n := 0
			for {
				b, err := r.Next()
				if err == io.EOF {
					break
				}
				if held = append(held, b); len(held) < 4 {
					continue
				}
				n = checkSame(t, c.line, held[0], n)
				r.Free(held[0])
				held = held[1:]
			}
			for _, b := range held {
				n = checkSame(t, c.line, b, n)
			}
			if n != all {
				t.Errorf("%d records, want %d", n, all)
			}
		})
	}
}

// checkSame holds records to the lines from number n on.
func checkSame(t *testing.T, line string, b []*Record, n int) int {
	t.Helper()
	c, p := &reading{wants: newWanted([]string{"User-Agent", "Authorization"}, nil)}, newPageOf(1)
	for _, r := range b {
		if n%97 == 0 || n < 100 { // of all it would take its time
			want, err := p.read(r.format(), fmt.Appendf(nil, line, n, n), c)
			if err != nil {
				t.Fatal(err)
			}
			if want.Own != nil {
				want.Own.Line = int64(n + 1)
			}
			if got, whole := describe(r), describe(want); got != whole || r.Seq != want.Seq || fmt.Sprint(r.Own) != fmt.Sprint(want.Own) {
				t.Fatalf("record %d:\ngot  %s\nwant %s", n, got, whole)
			}
		}
		n++
	}
	return n
}

// What most records lack is written nowhere: they have it in common.
func TestNoParserWritesToTheDetailsOfOthers(t *testing.T) {
	for _, c := range lines {
		p := newPageOf(1)
		if _, err := p.read(formatNamed(t, c.format), []byte(c.line), &reading{wants: newWanted([]string{"User-Agent"}, []string{"X-Cost"})}); err != nil {
			t.Fatal(err)
		}
		if d := p.none; d.Duration != -1 || d.Count != 1 || d.Host != "" || d.method != "" || d.Seq != 0 || d.Forwarded != "" || d.User != "" || d.Own != nil || d.headers != nil || d.answers != nil || d.own != nil {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// A key has one row, and its own, whatever other keys share of its digest.
func TestEveryKeyHasARowOfItsOwn(t *testing.T) {
	table := keyTable{most: 5000}
	var keys []limit.Digest
	for i := range uint64(4000) {
		lo := i % 7           // all in a row of the index
		lo |= i / 7 % 3 << 52 // of few tags
		hi := i<<3 | i<<53    // told apart by this alone
		keys = append(keys, limit.Digest{Hi: hi, Lo: lo})
	}
	for round := range int64(3) {
		for i, k := range keys {
			row := table.find(k, netip.Addr{})
			if row == nil || row.key != k || row.requests != round*int64(i) {
				t.Fatalf("key %d: %+v", i, row)
			}
			if table.near(k) == nil {
				t.Fatalf("no row near key %d", i)
			}
			row.requests += int64(i)
		}
	}
	if table.n != len(keys) {
		t.Errorf("%d rows of %d keys", table.n, len(keys))
	}
	table.raise()
	for i, k := range keys {
		row := table.find(k, netip.Addr{})
		if (row != nil) != (k.Hi>>63 == 0) || row != nil && row.requests != 3*int64(i) {
			t.Fatalf("after some were dropped, key %d: %+v", i, row)
		}
	}
}
