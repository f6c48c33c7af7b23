package limit

import (
	"errors"
	"testing"
	"time"
)

// oddStore is a Store that says what it is told to say, and counts what it gave out.
type oddStore struct {
	says  func(a Ask, ask int) (wait time.Duration, err error) // of all claims; ask counts from 1
	asked int
	held  int64
}

func (s *oddStore) Up(*Claim) bool { return true }

func (s *oddStore) Acquire(claims []Claim, a Ask) (time.Duration, error) {
	s.asked++
	wait, err := s.says(a, s.asked)
	for i := range claims {
		c := &claims[i]
		c.Result = Result{OK: true}
		if c.Shared.Terms.waits() {
			c.Result.Wait = wait
		}
		if err == nil {
			s.held += c.N
		}
	}
	return 0, err
}

func (s *oddStore) Settle(c *Claim, n int64) int64 {
	if !c.Receipt.Unused {
		panic("settled, though its request never left")
	}
	s.held -= n
	return n
}

func (s *oddStore) Forget(*Shared, Digest) bool { return true }

// sharedClaim is a claim of a rule that is counted in a store, and in table without it.
func sharedClaim(tb failer, table *Table) Claim {
	tb.Helper()
	c := claim(table, key(1), 1)
	var err error
	if c.Shared, err = NewShared("x", table.Numbers()); err != nil {
		tb.Fatalf("%v", err)
	}
	return c
}

// A store in which somebody is always faster never agrees with memory on a turn: the
// request is refused in the end, and nothing is held for it.
func TestMemoryAndAStoreThatNeverAgree(t *testing.T) {
	b := NewBudget(1 << 20)
	here, there := NewTable(leakyNumbers(t, 1, sec, 50*sec), 10, b), NewTable(leakyNumbers(t, 1, sec, 50*sec), 10, b)
	take(here, start, key(1), 1)
	before := stored(here, key(1))
	store := &oddStore{says: func(a Ask, ask int) (time.Duration, error) { return a.Turn + 10*ms, nil }}
	l := Limiter{Store: store}
	// What comes between in memory, too: each time another has a turn of its own.
	says := store.says
	store.says = func(a Ask, ask int) (time.Duration, error) {
		take(here, start.Add(ms), key(1), 1)
		return says(a, ask)
	}
	claims := []Claim{claim(here, key(1), 1), sharedClaim(t, there)}
	_, v := l.Acquire(t.Context(), start, claims)
	if v.OK || v.Wait != sec || store.asked != meetings || store.held != 0 {
		t.Errorf("%+v after %d times, %d held", v, store.asked, store.held)
	}
	refused := 0
	for _, c := range claims {
		if !c.Result.OK && c.Result.Wait == sec && c.Mode == Enforce {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("no claim says that it refused: %+v", claims)
	}
	if after := stored(here, key(1)); after.Used < before.Used+meetings { // the others have theirs
		t.Errorf("%+v, before %+v", after, before)
	}
	audit(t, here)
}

// When memory has a later turn than the store, the store is told, and agrees.
func TestAStoreIsToldOfALaterTurn(t *testing.T) {
	b := NewBudget(1 << 20)
	here, there := NewTable(leakyNumbers(t, 1, sec, 50*sec), 10, b), NewTable(leakyNumbers(t, 1, sec, 50*sec), 10, b)
	for range 3 {
		take(here, start, key(1), 1)
	}
	store := &oddStore{says: func(a Ask, ask int) (time.Duration, error) {
		if a.Turn != 3*sec {
			t.Errorf("asked with a turn in %v, want 3s", a.Turn)
		}
		return a.Turn, nil
	}}
	l := Limiter{Store: store}
	g, v := l.Acquire(t.Context(), start, []Claim{claim(here, key(1), 1), sharedClaim(t, there)})
	if !v.OK || v.Wait != 3*sec || store.asked != 1 || store.held != 1 {
		t.Errorf("%+v after %d times, %d held", v, store.asked, store.held)
	}
	g.Cancel(start)
	if _, r := take(here, start, key(1), 1); r.Wait != 3*sec || store.held != 0 {
		t.Errorf("after it has gone away: %+v, %d held", r, store.held)
	}
}

// A store that cannot be asked, at once or after it has said something, leaves all to
// memory, where the buckets agree; what was taken before for it is given back.
func TestWithoutAStoreTheTurnsAreThoseOfMemory(t *testing.T) {
	lost := errors.New("lost")
	for _, c := range []struct {
		name         string
		says         func(a Ask, ask int) (time.Duration, error)
		open, closed bool
		ok           bool
		wait         time.Duration
		places       int64 // that are left in memory's own bucket, of 11
	}{
		// Both have let one out: the turns are in 1 s and in 2 s; two places hold up the next.
		{"at once", func(Ask, int) (time.Duration, error) { return 0, lost }, false, false, true, 2 * sec, 8},
		{"the second time", func(a Ask, ask int) (time.Duration, error) {
			if ask == 1 {
				return 5 * sec, nil // of which memory makes 5 s
			}
			return 0, lost
		}, false, false, true, 5 * sec, 5},
		{"and lets pass", func(Ask, int) (time.Duration, error) { return 0, lost }, true, false, true, sec, 9},
		{"and refuses", func(Ask, int) (time.Duration, error) { return 0, lost }, false, true, false, sec, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBudget(1 << 20)
			here, there, inside := NewTable(leakyNumbers(t, 1, sec, 10*sec), 10, b), NewTable(leakyNumbers(t, 1, 2*sec, 20*sec), 10, b), NewTable(Numbers{Bucket: slots(t, 1), Slots: true}, 10, b)
			take(here, start, key(1), 1)
			take(there, start, key(1), 1)
			take(inside, start, key(1), 1) // and waits for no slot
			l := Limiter{Store: &oddStore{says: c.says}}
			shared := sharedClaim(t, there)
			shared.Open, shared.Closed = c.open, c.closed
			g, v := l.Acquire(t.Context(), start, []Claim{claim(here, key(1), 1), claim(inside, key(1), 1), shared})
			if v.OK != c.ok || v.Wait != c.wait {
				t.Errorf("%+v, want %v and a wait of %v", v, c.ok, c.wait)
			}
			if n := left(here, start, key(1)); n != c.places {
				t.Errorf("%d places are left, want %d", n, c.places)
			}
			if stored(inside, key(1)).Used != 1 {
				t.Error("a slot is held by who waits")
			}
			g.Cancel(start)
			for _, table := range []*Table{here, there, inside} {
				audit(t, table)
			}
		})
	}
}

// What memory took goes back when the store is lost and its rule refuses for that.
func TestWhatMemoryTookGoesBackWhenTheStoreIsLost(t *testing.T) {
	b := NewBudget(1 << 20)
	here, there := NewTable(tokenNumbers(t, 5, time.Hour, 5), 10, b), NewTable(tokenNumbers(t, 5, time.Hour, 5), 10, b)
	l := Limiter{Store: &oddStore{says: func(Ask, int) (time.Duration, error) { return 0, errors.New("lost") }}}
	for range 3 {
		if _, v := l.Acquire(t.Context(), start, []Claim{claim(here, key(1), 1), closed(sharedClaim(t, there))}); v.OK || !v.Lost {
			t.Errorf("%+v", v)
		}
	}
	if n := left(here, start, key(1)); n != 5 {
		t.Errorf("%d are left, want 5", n)
	}
}
