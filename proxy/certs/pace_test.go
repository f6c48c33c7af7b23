package certs

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"
)

func TestGapsAfterFailuresGrow(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes ...int) (h history) {
		for _, m := range minutes {
			h = append(h, t0.Add(time.Duration(m)*time.Minute))
		}
		return h
	}
	for _, c := range []struct {
		failed history
		first  bool
		next   int // minutes after t0; -1 is at once
	}{
		{nil, true, -1},
		{nil, false, -1},
		{at(0), false, 5},
		{at(0), true, -1},          // a restart after one failure asks at once
		{at(0, 5), false, 65},      // then an hour
		{at(0, 5), true, 60},       // a restart does not: two in an hour
		{at(0, 5, 65), false, 185}, // two hours
		{at(0, 5, 65), true, 65},
		{at(0, 5, 65, 185), false, 425},
		{at(0, 5, 65, 185, 425), false, 785}, // six hours, for ever
		{at(0, 5, 65, 185, 425, 785), false, 1145},
	} {
		got := c.failed.next(c.first)
		want := t0.Add(time.Duration(c.next) * time.Minute)
		if c.next < 0 {
			want = time.Time{}
		}
		if !got.Equal(want) {
			t.Errorf("after %d failures, first %v: next at %v, want %v", len(c.failed), c.first, got, want)
		}
	}
}

// Whatever a process is started, and stopped, and whoever asks: never more than
// perHour attempts in any hour.
func TestNeverMoreAttemptsInAnHour(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var h history
	var asked []time.Time
	for step := range 3000 {
		if first := step%7 == 0; !h.next(first).After(now) {
			h = h.with(now)
			asked = append(asked, now)
		}
		now = now.Add(time.Duration(step*step%11) * time.Minute)
	}
	if len(asked) < 50 {
		t.Fatalf("only %d attempts; the test shows nothing", len(asked))
	}
	for i := perHour; i < len(asked); i++ {
		if gap := asked[i].Sub(asked[i-perHour]); gap < time.Hour {
			t.Fatalf("%d attempts within %v", perHour+1, gap)
		}
	}
}

func TestHistoryOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	one := histories{newStorage(dir), "ca"}
	one.failed("a.example.com", now.Add(-3*time.Hour))
	one.failed("a.example.com", now.Add(-time.Hour))
	one.failed("a.example.com", now.Add(time.Hour)) // the clock was wrong
	other := histories{newStorage(dir), "ca"}
	if h := other.of("a.example.com", now); len(h) != 2 || !h[1].Equal(now.Add(-time.Hour)) {
		t.Errorf("history %v, want the two of the past", h)
	}
	if h := other.of("b.example.com", now); h != nil {
		t.Errorf("another domain has the history %v", h)
	}
	if h := (histories{newStorage(dir), "another"}).of("a.example.com", now); h != nil {
		t.Errorf("with another CA it has the history %v", h)
	}
	if h := other.of("a.example.com", now.Add(72*time.Hour)); len(h) != 0 {
		t.Errorf("days later it has the history %v", h)
	}
	for i := range 20 {
		one.failed("a.example.com", now.Add(time.Duration(i-40)*time.Minute))
	}
	if h := one.of("a.example.com", now); len(h) != kept {
		t.Errorf("%d failures are kept, want %d", len(h), kept)
	}
	one.clear("a.example.com")
	if h := other.of("a.example.com", now); h != nil {
		t.Errorf("after a success it has the history %v", h)
	}
	save(t, filepath.Join(dir, filepath.FromSlash(one.key("b.example.com"))), []byte("\x00\x00"))
	if h := other.of("b.example.com", now); h != nil {
		t.Errorf("of rubbish it makes the history %v", h)
	}
}

func TestWhatNeverReachedTheCAIsToldApart(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://ca", Err: errors.New("connection refused")}
	if reached(fmt.Errorf("getting directory: %w", refused)) {
		t.Error("a refused connection has reached the CA")
	}
	if !reached(errors.New("HTTP 403 urn:ietf:params:acme:error:unauthorized")) {
		t.Error("an answer of the CA has not reached it")
	}
}
