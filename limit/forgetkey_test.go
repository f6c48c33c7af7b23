package limit

import (
	"testing"
	"time"
)

func TestForgetMakesAKeyNewInEveryAlgorithm(t *testing.T) {
	log, err := NewSlidingLog(5, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]Numbers{
		"token bucket": tokenNumbers(t, 5, time.Hour, 5), "window": windowNumbers(t, 5, time.Hour), "log": {Bucket: log},
	} {
		table := NewTable(n, 1000, NewBudget(1<<20))
		if !table.Forget(key(1)) {
			t.Errorf("%s: an empty table does not forget", name)
		}
		for i := range 40 {
			drain(table, start, key(i))
		}
		before := table.Stats().Bytes
		if !table.Forget(key(7)) || holds(table, key(7)) || !table.Forget(key(7)) || !table.Forget(key(1000)) {
			t.Errorf("%s: the key is still there", name)
		}
		audit(t, table)
		if s := table.Stats(); s.Keys != 39 || s.Bytes > before {
			t.Errorf("%s: %+v, want 39 keys in %d bytes at most", name, s, before)
		}
		for i := range 40 {
			want := int64(0)
			if i == 7 {
				want = 5
			}
			if got := drain(table, start, key(i)); got != want {
				t.Errorf("%s: client %d passes %d times, want %d", name, i, got, want)
			}
		}
	}
}

// What an older request gives back is not the new life's.
func TestAForgottenKeyOwesNothingToItsPast(t *testing.T) {
	table := tokenTable(t, 5, time.Hour, 5)
	grant, _ := take(table, start, key(1), 3)
	table.Forget(key(1))
	if n := drain(table, start, key(1)); n != 5 {
		t.Fatalf("%d pass, want 5", n)
	}
	grant.Done(start, giveBack(3))
	if n := drain(table, start, key(1)); n != 0 {
		t.Errorf("%d more pass after a request from before has given back", n)
	}
}

// Slots, and units that may come back, are of requests that are not over.
func TestForgetKeepsRequestsInProgress(t *testing.T) {
	table := slotTable(t, 2, 1000, NewBudget(1<<20))
	first, _ := take(table, start, key(1), 1)
	second, _ := take(table, start, key(1), 1)
	if table.Forget(key(1)) {
		t.Error("requests in progress were forgotten")
	}
	if _, r := take(table, start, key(1), 1); r.OK {
		t.Error("a third passes")
	}
	first.Done(start, nil)
	second.Done(start, nil)
	if !table.Forget(key(1)) || inFlight(table) != 0 {
		t.Errorf("%d in flight after all have ended", inFlight(table))
	}

	guesses := tokenTable(t, 2, time.Hour, 2)
	c := claim(guesses, key(1), 1)
	c.Pending = true
	grant, _, _ := acquire(start, c)
	if guesses.Forget(key(1)) {
		t.Error("a unit that may come back was forgotten")
	}
	grant.Done(start, nil)
	if !guesses.Forget(key(1)) || left(guesses, start, key(1)) != 2 {
		t.Error("it is not forgotten after the request has ended")
	}
}
