package reload

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTriggerAnswersUnchangedAtOnce(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		start := time.Now()
		outcome, err := m.Trigger(t.Context())
		if outcome.Result != Unchanged || err != nil {
			t.Errorf("Trigger = %v, %v; want unchanged", outcome, err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v, want no wait", took)
		}
		same(t, "text", outcome.String(), "unchanged: the file holds what runs since 2000-01-01T00:00:00Z")
		same(t, "last line", m.lines(t)[1], line{Level: "INFO", Msg: "configuration unchanged"})
		same(t, "applied", m.applied(), []string(nil))
	})
}

func TestTriggerAppliesTheSameContentAgainWhenItIsStale(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		stale := true
		m.Stale = func() bool { return stale }
		time.Sleep(time.Minute)
		same(t, "applied without being asked", m.applied(), []string(nil))
		if outcome, err := m.Trigger(t.Context()); outcome.Result != Applied || err != nil {
			t.Errorf("Trigger = %v, %v; want applied", outcome, err)
		}
		same(t, "applied", m.applied(), []string{"a\n"})
		stale = false
		if outcome, err := m.Trigger(t.Context()); outcome.Result != Unchanged || err != nil {
			t.Errorf("Trigger = %v, %v; want unchanged", outcome, err)
		}
	})
}

func TestTriggerLooksAtOnceAndWaitsForTheSaveToSettle(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.put(content("b\n"))
		start := time.Now()
		outcome, err := m.Trigger(t.Context())
		if outcome.Result != Applied || err != nil || outcome.String() != "now b" {
			t.Errorf("Trigger = %q, %v; want now b", outcome, err)
		}
		if took := time.Since(start); took != 100*ms {
			t.Errorf("it took %v, want the settle time", took)
		}
		same(t, "lines", len(m.lines(t)), 2)
	})
}

func TestTriggerInTheMiddleOfASaveAppliesTheWhole(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.save(content("rules:\n- on"))
		go func() {
			time.Sleep(700 * ms)
			m.save(content("rules:\n- one\n"))
		}()
		if outcome, err := m.Trigger(t.Context()); outcome.Result != Applied || err != nil {
			t.Errorf("Trigger = %v, %v; want applied", outcome, err)
		}
		same(t, "applied", m.applied(), []string{"rules:\n- one\n"})
	})
}

func TestTriggerTriesRefusedContentAgain(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.save(content("bad\n"))
		time.Sleep(time.Second)
		m.applied()
		outcome, err := m.Trigger(t.Context())
		if outcome.Result != Refused || err == nil || errors.Is(err, ErrStopped) {
			t.Errorf("Trigger = %v, %v; want refused and the error of Apply", outcome, err)
		}
		same(t, "applied", m.applied(), []string{"bad\n"})
		same(t, "refused", m.Status().Reloads[Refused], uint64(2))
	})
}

func TestTriggerReportsAMissingFileAgain(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.put(missing())
		start := time.Now()
		for range 2 {
			outcome, err := m.Trigger(t.Context())
			if outcome.Result != Unreadable || err == nil {
				t.Errorf("Trigger = %v, %v; want unreadable", outcome, err)
			}
		}
		if took := time.Since(start); took != time.Second { // of the second one: none
			t.Errorf("they took %v, want 1s", took)
		}
		same(t, "lines", len(m.lines(t)), 3)
	})
}

func TestTriggersAtTheSameTimeShareOneAttempt(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.put(content("b\n"))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if outcome, err := m.Trigger(t.Context()); outcome.Result != Applied || err != nil {
					t.Errorf("Trigger = %v, %v; want applied", outcome, err)
				}
			})
		}
		all.Wait()
		same(t, "applied", m.applied(), []string{"b\n"})
	})
}

func TestCallerThatGivesUpDoesNotStopTheAttempt(t *testing.T) {
	inMemory(t, "a\n", func(t *testing.T, m *memory) {
		m.applied()
		m.put(content("b\n"))
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		if _, err := m.Trigger(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Trigger = %v, want a deadline", err)
		}
		time.Sleep(60 * ms)
		same(t, "applied", m.applied(), []string{"b\n"})
	})
}

func TestTriggerIsToldWhenTheLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &journal{}
		l := &Loop{Path: "gateway.yaml", Logger: log.logger(), Apply: func(ctx context.Context, _ []byte) (Change, error) {
			<-ctx.Done()
			return Change{}, ctx.Err()
		}}
		l.init()
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			defer close(l.done)
			l.follow(ctx, nil, func() view { return read("a\n") })
		}()
		time.AfterFunc(time.Second, stop)
		for range 2 { // during the apply, and after the end
			if _, err := l.Trigger(t.Context()); !errors.Is(err, ErrStopped) {
				t.Errorf("Trigger = %v, want ErrStopped", err)
			}
		}
		same(t, "log", log.lines(t), []line(nil)) // stopping says nothing about the file
	})
}

func TestNeverTwoAppliesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var text string
		changed := make(chan struct{}, 1)
		inside, applies := 0, 0
		l := &Loop{Path: "gateway.yaml", Apply: func(context.Context, []byte) (Change, error) {
			inside, applies = inside+1, applies+1 // unguarded: the race detector watches too
			if inside > 1 {
				t.Error("two applies at a time")
			}
			time.Sleep(time.Second)
			inside--
			return Change{}, nil
		}}
		l.init()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			l.follow(ctx, changed, func() view { mu.Lock(); defer mu.Unlock(); return read(text) })
		})
		for i := range 20 {
			mu.Lock()
			text = string(rune('a'+i)) + "\n"
			mu.Unlock()
			notify(changed)
			if i%3 == 0 {
				all.Go(func() { l.Trigger(ctx) })
			}
			time.Sleep(400 * ms)
		}
		time.Sleep(5 * time.Second)
		stop()
		all.Wait()
		if applies < 5 {
			t.Errorf("%d applies, want some", applies)
		}
	})
}
