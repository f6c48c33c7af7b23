package upstream

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// When a server came up or went down, by its checks and by failures in a row.
func TestSinceIsWhenTheServerLastChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := played(t, checked(t, "http://a", "http://b"))
		born := p.born
		bad := errors.New("bad")
		s := p.servers[0]
		want := func(what string, up bool, since time.Duration) {
			t.Helper()
			got := p.Stats()[0]
			// The pool's clock begins at 1 ns.
			if d := got.Since.Sub(born).Round(time.Millisecond); got.Up != up || d != since {
				t.Errorf("%s: up %v since %v, want %v since %v", what, got.Up, d, up, since)
			}
		}
		at := func(d time.Duration) { time.Sleep(d - time.Since(born)) }
		want("at first", true, 0)
		if got := p.Stats()[0]; !got.Checked.IsZero() || got.CheckError != nil {
			t.Errorf("checked at %v: %v, want never", got.Checked, got.CheckError)
		}
		at(10 * time.Second)
		for range rowOut {
			p.failed(s)
		}
		at(15 * time.Second)
		want("out after failures", false, 10*time.Second)
		at(25 * time.Second)
		want("in again", true, 20*time.Second)
		at(30 * time.Second)
		p.judge(s, nil)
		want("after a good check", true, 20*time.Second)
		p.judge(s, bad)
		want("after one bad check", true, 20*time.Second)
		at(35 * time.Second)
		p.judge(s, bad)
		if got := p.Stats()[0]; got.Checked.Sub(born).Round(time.Millisecond) != 35*time.Second || got.CheckError != bad {
			t.Errorf("checked at %v: %v", got.Checked.Sub(born), got.CheckError)
		}
		want("down by checks", false, 35*time.Second)
		at(40 * time.Second)
		p.judge(s, nil)
		p.judge(s, nil)
		want("up by checks", true, 40*time.Second)
		at(50 * time.Second)
		for range rowOut {
			p.failed(s)
		}
		at(55 * time.Second)
		p.judge(s, bad)
		p.judge(s, bad)
		want("down by both", false, 50*time.Second)
		at(70 * time.Second)
		want("down by checks alone", false, 50*time.Second)
	})
}
