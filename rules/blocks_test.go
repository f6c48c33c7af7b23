package rules

import (
	"fmt"
	"testing"

	"gateway/limit"
)

func TestBlocksEndByThemselves(t *testing.T) {
	var b Blocks
	blocked := func(key uint64, now limit.Instant) bool {
		_, ok := b.Until(keyNo(key), now)
		return ok
	}
	if blocked(1, 0) || b.Remove(keyNo(1), 0) || len(b.All(0)) != 0 {
		t.Error("there are blocks before the first")
	}
	add := func(key uint64, until, now limit.Instant) {
		t.Helper()
		if err := b.Add(Block{Key: keyNo(key), Name: fmt.Sprint(key), Until: until}, now); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 100, 0)
	add(2, 200, 0)
	if until, ok := b.Until(keyNo(1), 99); !ok || until != 100 {
		t.Errorf("blocked until %d: %v, want 100", until, ok)
	}
	if blocked(1, 100) || !blocked(2, 100) || blocked(3, 50) {
		t.Error("wrong keys are blocked")
	}
	if all := b.All(50); len(all) != 2 || all[0].Name != "2" || all[1].Name != "1" {
		t.Errorf("all: %v", all)
	}
	add(1, 300, 50) // anew
	if !blocked(1, 299) {
		t.Error("a second block does not replace the first")
	}
	if !b.Remove(keyNo(1), 60) || blocked(1, 61) || !blocked(2, 61) || b.Remove(keyNo(1), 62) {
		t.Error("a block is not lifted")
	}
	add(3, 1000, 500)
	if n := len(*b.held.Load()); n != 1 {
		t.Errorf("%d blocks are held, want the one that is not over", n)
	}
	next := map[limit.Digest]Block{}
	for i := range uint64(maxBlocks) {
		next[keyNo(i)] = Block{Key: keyNo(i), Until: 1000}
	}
	b.held.Store(&next)
	if err := b.Add(Block{Key: keyNo(maxBlocks), Until: 1000}, 500); err == nil || blocked(maxBlocks, 501) {
		t.Errorf("one more than there may be: %v", err)
	}
	add(5, 2000, 500) // which is there
}
