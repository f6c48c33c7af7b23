package proxy

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes is a writer that keeps what each write said.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

// A line that comes alone is written at once, those behind it together, and what is
// there at the end without delay.
func TestLinesThatComeTogetherAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out writes
		a := NewAccessLog(&out, "json")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.Run(ctx); close(done) }()
		add := func(n int) {
			for range n {
				a.add(Record{Status: 200})
			}
			synctest.Wait()
		}
		lines := func(want ...int) {
			t.Helper()
			out.mu.Lock()
			defer out.mu.Unlock()
			if len(out.all) != len(want) {
				t.Fatalf("%d writes, want %d", len(out.all), len(want))
			}
			for i, text := range out.all {
				if n := strings.Count(text, "\n"); n != want[i] {
					t.Errorf("write %d has %d lines, want %d", i, n, want[i])
				}
			}
		}
		time.Sleep(10 * time.Second)
		add(1)
		lines(1)
		add(40)
		lines(1)
		time.Sleep(accessPause - 1)
		add(60)
		lines(1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		lines(1, 100)
		add(7)
		cancel()
		<-done
		lines(1, 100, 7)
	})
}

func TestAnAddressCannotBreakOutOfALine(t *testing.T) {
	for _, row := range []struct {
		addr netip.Addr
		want string
	}{
		{netip.Addr{}, `"invalid IP"`},
		{netip.MustParseAddr("203.0.113.7"), `"203.0.113.7"`},
		{netip.MustParseAddr("2001:db8::1"), `"2001:db8::1"`},
		{netip.MustParseAddr("::ffff:10.0.0.1"), `"::ffff:10.0.0.1"`},
		{netip.MustParseAddr("fe80::1").WithZone(`"},{`), `"fe80::1%\"},{"`},
	} {
		if got := string(appendAddress(nil, row.addr)); got != row.want {
			t.Errorf("%v: got %s, want %s", row.addr, got, row.want)
		}
	}
}

func TestAStringThatIsTooLongIsCutBetweenCharacters(t *testing.T) {
	for _, row := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, `""`},
		{"abcde", 5, `"abcde"`},
		{"abcdef", 5, `"abcde"`},
		{"abcd\"f", 5, `"abcd"`},
		{"abc\"f", 5, `"abc\""`},
		{"abcdé", 5, `"abcd"`},
		{"abcdé", 6, `"abcdé"`},
		{"abc\nd", 8, `"abc"`},
		{"abc\nd", 9, `"abc\u000a"`},
		{"abc", 0, `""`},
	} {
		if got := string(appendJSON(nil, row.text, row.most)); got != row.want {
			t.Errorf("%q within %d: got %s, want %s", row.text, row.most, got, row.want)
		}
	}
}
