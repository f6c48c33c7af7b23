package limit

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// S16: far more new keys than are remembered take nothing from those that matter,
// and no more memory than they may. With GATEWAY_LONG it is five million of them.
func TestFloodOfKeysLosesNoPermitOfTheHotOnes(t *testing.T) {
	alone(t)
	flood, most := 250_000, int64(50_000)
	if os.Getenv("GATEWAY_LONG") != "" {
		flood, most = 5_000_000, 1_000_000
	}
	const hot, burst = 1000, 10
	memory := NewBudget(128 << 20)
	table := NewTable(tokenNumbers(t, 1, 24*time.Hour, burst), most, memory)
	used := func(i int) int { return burst/2 + i%(burst/2+1) } // from half of it to all
	for i := range hot {
		if _, r := take(table, start, key(i), int64(used(i))); !r.OK {
			t.Fatalf("client %d: %+v", i, r)
		}
	}
	peak, secret := int64(0), NewSecret()
	text := []byte(strings.Repeat("k", 8000))
	for i := range flood {
		size := 8 // and now and then as long as a key may be
		if i%1000 == 0 {
			size = len(text)
		}
		binary.BigEndian.PutUint64(text, uint64(i))
		take(table, start, secret.Digest(text[:size]), 1)
		peak = max(peak, memory.Used())
	}
	gained, lost := 0, 0
	for i := range hot {
		passed := 0
		for range burst {
			if _, r := take(table, start, key(i), 1); r.OK {
				passed++
			}
		}
		gained, lost = gained+max(0, passed-(burst-used(i))), lost+max(0, burst-used(i)-passed)
	}
	if gained > 0 || lost > 0 {
		t.Errorf("%d permits gained and %d lost", gained, lost)
	}
	if st := table.Stats(); st.Keys > most || peak > 100*most {
		t.Errorf("%d keys and at most %d bytes, want %d, and 100 for each", st.Keys, peak, most)
	}
	t.Attr("S16", fmt.Sprintf("%d keys, %d remembered in %.1f MB at most; %d permits gained and %d lost on %d hot keys",
		flood, most, float64(peak)/1e6, gained, lost, hot))
}
