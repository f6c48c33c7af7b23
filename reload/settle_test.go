package reload

import (
	"errors"
	"testing"
	"time"
)

const ms = time.Millisecond

// newSettling has the default times.
func newSettling() *settling {
	return &settling{settle: 100 * ms, unfinished: 1500 * ms, missing: 1000 * ms}
}

func content(s string) view { return contentView([]byte(s)) }

// read is content of a file that was read now.
func read(s string) view {
	v := content(s)
	v.at = time.Now()
	return v
}

func missing() view { return failedView(errors.New("no such file")) }

// look is one step of a story told to settling.
type look struct {
	at    time.Duration
	view  view
	asked bool
	wait  time.Duration // want
	ready bool          // want; what is ready is judged, and runs unless it is an error or "bad\n"
}

func tell(t *testing.T, steps []look) {
	t.Helper()
	s, start := newSettling(), time.Unix(1e9, 0)
	bad := content("bad\n")
	for i, step := range steps {
		wait, ready := s.see(step.view, start.Add(step.at), step.asked)
		if wait != step.wait || ready != step.ready {
			t.Fatalf("step %d at %v: wait %v, ready %v; want %v, %v", i, step.at, wait, ready, step.wait, step.ready)
		}
		if ready {
			s.judge(step.view, step.view.err == nil && step.view.mark != bad.mark)
		}
	}
}

func TestContentIsReadyWhenItStayedTheSameForTheSettleTime(t *testing.T) {
	a, b := content("a\n"), content("b\n")
	tell(t, []look{
		{at: 0, view: a, wait: 100 * ms},
		{at: 99 * ms, view: a, wait: 1 * ms},
		{at: 100 * ms, view: a, ready: true},
		{at: 101 * ms, view: a}, // judged: nothing to do
		{at: 1000 * ms, view: b, wait: 100 * ms},
		{at: 1050 * ms, view: a}, // back before it settled: as if nothing had been
		{at: 1060 * ms, view: b, wait: 100 * ms},
		{at: 1160 * ms, view: b, ready: true},
	})
}

func TestEachKindOfViewHasItsPatience(t *testing.T) {
	half, none := content("a: 1"), content("")
	tell(t, []look{
		{at: 0, view: none, wait: 1500 * ms},
		{at: 200 * ms, view: half, wait: 1500 * ms},
		{at: 1699 * ms, view: half, wait: 1 * ms},
		{at: 1700 * ms, view: half, ready: true},
		{at: 2000 * ms, view: missing(), wait: 1000 * ms},
		{at: 3000 * ms, view: missing(), ready: true},
		{at: 9000 * ms, view: missing()}, // reported once
	})
}

func TestContentThatRunsNeedsNoNewlineToComeBack(t *testing.T) {
	half := content("a: 1")
	tell(t, []look{
		{at: 0, view: half, wait: 1500 * ms},
		{at: 1500 * ms, view: half, ready: true},
		{at: 2000 * ms, view: content("bad\n"), wait: 100 * ms},
		{at: 2100 * ms, view: content("bad\n"), ready: true},
		{at: 3000 * ms, view: half, wait: 100 * ms},
		{at: 3100 * ms, view: half, ready: true},
	})
}

func TestWhatWasJudgedIsReadyAgainOnlyWhenAsked(t *testing.T) {
	a, bad := content("a\n"), content("bad\n")
	tell(t, []look{
		{at: 0, view: bad, wait: 100 * ms},
		{at: 100 * ms, view: bad, ready: true},
		{at: 3100 * ms, view: bad},
		{at: 3200 * ms, view: bad, asked: true, ready: true},
		{at: 4000 * ms, view: a, asked: true, wait: 100 * ms}, // asking does not skip the settling
		{at: 4100 * ms, view: a, asked: true, ready: true},
		{at: 5000 * ms, view: a, asked: true, ready: true},
	})
}

func TestTheSameErrorAfterContentIsAnotherOccurrence(t *testing.T) {
	a := content("a\n")
	tell(t, []look{
		{at: 0, view: a, wait: 100 * ms},
		{at: 100 * ms, view: a, ready: true},
		{at: 200 * ms, view: missing(), wait: 1000 * ms},
		{at: 1200 * ms, view: missing(), ready: true},
		{at: 1300 * ms, view: a, wait: 100 * ms},
		{at: 1400 * ms, view: a, ready: true}, // again what runs
		{at: 1500 * ms, view: missing(), wait: 1000 * ms},
		{at: 2500 * ms, view: missing(), ready: true},
		{at: 2600 * ms, view: failedView(errors.New("permission denied")), wait: 1000 * ms},
		{at: 3600 * ms, view: failedView(errors.New("permission denied")), ready: true},
	})
}

func TestContentCutOffAtTheLimitIsNotUnfinished(t *testing.T) {
	long := make([]byte, maxBytes)
	if contentView(long).unfinished {
		t.Error("content cut off at the limit is taken as unfinished")
	}
	if !contentView(long[1:]).unfinished {
		t.Error("content without a final newline is taken as finished")
	}
}
