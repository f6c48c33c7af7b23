package main

import (
	"fmt"
	"testing"
	"time"

	"gateway/limit"
)

func TestWhoSetsTheCollectorGetsNoBallast(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	if n := len(ballast(runBallast)); n != runBallast {
		t.Errorf("a ballast of %d bytes", n)
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "100")
			if n := len(ballast(runBallast)); n != 0 {
				t.Errorf("a ballast of %d bytes although %s is set", n, name)
			}
		})
	}
}

func TestTheCollectorIsSetByWhatKeysTake(t *testing.T) {
	for held, want := range map[int64]int{
		0: 100, 16 << 20: 99, // 24 of 24 MiB
		64 << 20: 33, 112 << 20: 20, 1 << 40: 20, // never more often than for a fifth
	} {
		if got := percentBeside(held); got != want {
			t.Errorf("%d MiB: %d, want %d", held>>20, got, want)
		}
	}
	t.Setenv("GOGC", "50")
	if newMemory(nil).percent != nil {
		t.Error("GOGC is set, and set again")
	}
}

func TestMemoryOfForgottenKeysIsGivenBack(t *testing.T) {
	bucket, err := limit.NewTokenBucket(1, time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	table := limit.NewTable(limit.Numbers{Bucket: bucket}, 1e6, limit.NewBudget(1<<30))
	var percents []int
	collected := 0
	m := &memory{
		tables:  func() []*limit.Table { return []*limit.Table{table} },
		percent: func(n int) { percents = append(percents, n) }, collect: func() { collected++ },
	}
	m.look()
	secret, now := limit.NewSecret(), limit.InstantOf(time.Now())
	var l limit.Limiter
	for i := range 500_000 { // 48 bytes each, and some more
		l.Acquire(t.Context(), now, []limit.Claim{{Table: table, Gen: 1, Key: secret.Digest(fmt.Append(nil, i)), N: 1}})
	}
	m.look()
	m.look()
	if collected != 0 || len(percents) != 2 || percents[0] != 100 || percents[1] >= 75 {
		t.Errorf("with the keys: %d collections, GOGC %v", collected, percents)
	}
	table.Sweep(now.Add(time.Hour))
	m.look()
	if collected != 0 {
		t.Error("it is collected while they are still being forgotten")
	}
	for range 3 {
		m.look()
	}
	if collected != 1 || percents[len(percents)-1] != 100 {
		t.Errorf("without them: %d collections, GOGC %v; want one, and 100", collected, percents)
	}
}
