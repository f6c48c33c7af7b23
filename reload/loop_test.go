package reload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// memory is a file in memory under a running Loop, inside a synctest bubble.
type memory struct {
	*Loop
	*applier
	*journal

	mu      sync.Mutex
	now     view
	changed chan struct{}

	slow  time.Duration // what it takes to find out which files new content names
	found mark          // for whom that is known
}

// inMemory runs test in a bubble, over a Loop that runs on a file in memory. Poll
// is the default: what a test saves without an event is seen within 3 s.
func inMemory(t *testing.T, first string, test func(t *testing.T, m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{applier: newApplier(), journal: &journal{}, changed: make(chan struct{}, 1), now: content(first)}
		m.Loop = &Loop{Path: "gateway.yaml", Apply: m.apply, Logger: m.logger()}
		m.init()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			defer close(m.done)
			m.follow(ctx, m.changed, m.look)
		})
		defer running.Wait()
		defer stop()
		time.Sleep(200 * ms)
		test(t, m)
	})
}

func (m *memory) look() view {
	m.mu.Lock()
	v, slow := m.now, m.slow
	m.mu.Unlock()
	v.at = time.Now()
	if v.mark != m.found {
		m.found = v.mark
		time.Sleep(slow)
	}
	return v
}

// slowly sets slow.
func (m *memory) slowly(slow time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow = slow
}

// put changes the file without an event.
func (m *memory) put(v view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = v
}

// save changes the file and sends the event.
func (m *memory) save(v view) {
	m.put(v)
	notify(m.changed)
}

// applied returns what Apply was given and forgets it.
func (m *memory) applied() []string {
	synctest.Wait()
	var all []string
	for {
		select {
		case s := <-m.got:
			all = append(all, s)
		default:
			return all
		}
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestSaveIsAppliedWhenItSettledAndLoggedOnce(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		same(t, "applied at the start", m.applied(), []string{"a\n"})
		m.save(content("b\n"))
		time.Sleep(99 * ms)
		same(t, "applied after 99 ms", m.applied(), []string(nil))
		time.Sleep(1 * ms)
		same(t, "applied after 100 ms", m.applied(), []string{"b\n"})
		same(t, "log", m.lines(t), []line{
			{Level: "INFO", Msg: "configuration reloaded"},
			{Level: "INFO", Msg: "configuration reloaded"},
		})
	})
}

// What a large file takes to be looked through is a part of the time in which it has to
// stay the same.
func TestSaveSettlesWhileItIsLookedThrough(t *testing.T) {
	for slow, want := range map[time.Duration]time.Duration{0: 100 * ms, 60 * ms: 100 * ms, 100 * ms: 100 * ms, 170 * ms: 170 * ms} {
		inMemory(t, "a\n", func(t *testing.T, m *memory) {
			m.applied()
			m.slowly(slow)
			m.save(content("b\n"))
			time.Sleep(want - 1)
			same(t, fmt.Sprintf("applied before %v", want), m.applied(), []string(nil))
			time.Sleep(2 * time.Nanosecond) // a wait that is over already takes a nanosecond
			same(t, fmt.Sprintf("applied after %v", want), m.applied(), []string{"b\n"})
			m.slowly(0)
			m.save(content("half\n"))
			time.Sleep(50 * ms)
			m.slowly(slow)
			m.save(content("whole\n")) // settles anew, and alone
			time.Sleep(want + 2)
			same(t, "applied", m.applied(), []string{"whole\n"})
		})
	}
}

func TestHalfAFileIsNotAppliedWhileItsWriterPausesForLessThanTheSettleTime(t *testing.T) {
	pauses, saves := []time.Duration{0, 20 * ms, 50 * ms, 99 * ms}, 0
	for _, pause := range pauses {
		inMemory(t, "a\n", func(t *testing.T, m *memory) {
			m.applied()
			for range 25 {
				m.save(content(""))
				m.save(content("rules:\n- one\n"))
				time.Sleep(pause)
				m.save(content("rules:\n- one\n- two\n"))
				time.Sleep(pause)
				m.save(content("rules:\n- one\n- two\n- three\n"))
				time.Sleep(150 * ms)
				same(t, "applied", m.applied(), []string{"rules:\n- one\n- two\n- three\n"})
				m.save(content("a\n"))
				time.Sleep(150 * ms)
				m.applied()
				saves++
			}
		})
	}
	t.Attr("S31", fmt.Sprintf("0 parts of %d files applied, with %d pauses up to the settle time", saves, len(pauses)))
}

func TestHalfALineIsNotAppliedWhileItsWriterPausesForLessThanThePatience(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.save(content("limit: 1"))
		time.Sleep(1499 * ms)
		m.save(content("limit: 1000\n"))
		time.Sleep(150 * ms)
		same(t, "applied", m.applied(), []string{"limit: 1000\n"})
	})
}

func TestContentWithoutAFinalNewlineIsUsedWithAWarning(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.save(content("limit: 1"))
		time.Sleep(1500 * ms)
		same(t, "applied", m.applied(), []string{"limit: 1"})
		same(t, "log", m.lines(t)[1:], []line{
			{Level: "WARN", Msg: "configuration reloaded", Warning: unfinishedWarning(view{})},
		})
		outcome, err := m.Trigger(t.Context())
		if outcome.Result != Unchanged || err != nil {
			t.Errorf("Trigger = %v, %v; want unchanged", outcome, err)
		}
	})
}

func TestEventsThatLeaveTheContentAloneDoNothing(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		for range 100 { // touch, chmod, a neighbour
			notify(m.changed)
			time.Sleep(30 * ms)
		}
		m.save(content(""))
		time.Sleep(10 * ms)
		m.save(content("a\n")) // saved as it was
		time.Sleep(5 * time.Second)
		same(t, "applied", m.applied(), []string(nil))
		same(t, "lines", len(m.lines(t)), 1)
		if got := m.Status().Reloads[Unchanged]; got != 0 {
			t.Errorf("%d attempts counted, want none", got)
		}
	})
}

func TestEventsDoNotPostponeContentThatStaysTheSame(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.save(content("b\n"))
		for range 10 {
			time.Sleep(10 * ms)
			notify(m.changed)
		}
		same(t, "applied after 100 ms of events", m.applied(), []string{"b\n"})
	})
}

func TestPollingSeesWhatNoEventTold(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		for _, s := range []string{"b\n", "c\n", "d\n"} {
			m.put(content(s))
			time.Sleep(3100 * ms)
			same(t, "applied", m.applied(), []string{s})
		}
	})
}

func TestMissingFileIsReportedOnceAfterASecond(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.save(missing())
		time.Sleep(999 * ms)
		synctest.Wait()
		same(t, "lines after 999 ms", len(m.lines(t)), 1)
		time.Sleep(time.Minute)
		same(t, "log", m.lines(t)[1:], []line{{
			Level: "ERROR", Msg: "configuration unreadable; the running settings are unchanged",
			Errors: []string{"no such file"},
		}})
		if s := m.Status(); s.OK || s.Hash == "" || s.Reloads[Unreadable] != 1 {
			t.Errorf("status = %+v, want not OK, the hash that runs, one unreadable", s)
		}
		m.save(content("b\n"))
		time.Sleep(150 * ms)
		same(t, "applied", m.applied(), []string{"b\n"})
		if s := m.Status(); !s.OK || s.Err != nil {
			t.Errorf("status = %+v, want OK", s)
		}
	})
}

func TestFileThatIsGoneForAMomentIsNotReported(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.save(missing())
		time.Sleep(900 * ms)
		m.save(content("a\n"))
		time.Sleep(time.Minute)
		same(t, "lines", len(m.lines(t)), 1)
		same(t, "applied", m.applied(), []string(nil))
	})
}

func TestBrokenContentIsReportedOncePerVersionAndTheNextGoodSaveApplied(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		hash := m.Status().Hash
		for _, s := range []string{"bad 1\n", "bad 2\n", "bad 1\n"} {
			m.save(content(s))
			time.Sleep(time.Minute)
		}
		if s := m.Status(); s.OK || s.Err == nil || s.Hash != hash || s.Reloads[Refused] != 3 {
			t.Errorf("status = %+v, want not OK, hash %s, three refused", s, hash)
		}
		m.save(content("c\n"))
		time.Sleep(150 * ms)
		same(t, "applied", m.applied(), []string{"bad 1\n", "bad 2\n", "bad 1\n", "c\n"})
		refused := "configuration refused; the running settings are unchanged"
		same(t, "log", m.lines(t)[1:], []line{
			{Level: "ERROR", Msg: refused, Errors: []string{`gateway.yaml:1:1: "bad 1" is bad`}},
			{Level: "ERROR", Msg: refused, Errors: []string{`gateway.yaml:1:1: "bad 2" is bad`}},
			{Level: "ERROR", Msg: refused, Errors: []string{`gateway.yaml:1:1: "bad 1" is bad`}},
			{Level: "INFO", Msg: "configuration reloaded"},
		})
		if s := m.Status(); !s.OK || s.Hash == hash {
			t.Errorf("status = %+v, want OK and another hash", s)
		}
	})
}

func TestGoingBackToWhatRunsMendsTheStatusWithoutAnApply(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		before := m.Status()
		m.save(content("bad\n"))
		time.Sleep(time.Second)
		m.save(content("a\n"))
		time.Sleep(time.Second)
		same(t, "applied", m.applied(), []string{"bad\n"})
		same(t, "last line", m.lines(t)[2], line{Level: "INFO", Msg: "configuration is again what runs"})
		after := m.Status()
		if !after.OK || after.Hash != before.Hash || !after.Since.Equal(before.Since) {
			t.Errorf("status = %+v, want what it was: %+v", after, before)
		}
	})
}

func TestErrorsOfAListAreLoggedOneByOne(t *testing.T) {
	err := errors.Join(errors.New("f:1:2: one\n   1 | x"), errors.New("f:3:4: two"))
	same(t, "messages", messages(err), []string{"f:1:2: one", "f:3:4: two"})
	same(t, "messages", messages(errors.New("one\ntwo")), []string{"one"})
}
