package upstream

import (
	"fmt"
	"math"
	"testing"

	"gateway/rules"
)

// weighted is a pool that balances over servers of these weights.
func weighted(t *testing.T, balance string, weights ...int) *Pool {
	t.Helper()
	s := spec(t)
	s.Balance = balance
	for i, w := range weights {
		s.Servers = append(s.Servers, rules.Server{URL: spec(t, fmt.Sprintf("http://s%d", i)).Servers[0].URL, Weight: w})
	}
	return newPool(t, s)
}

// picks counts what n picks give each server; the key of pick i is that of a text.
func picks(p *Pool, n int) []int {
	got := make([]int, len(p.servers))
	for i := range n {
		got[p.index(p.picked(uint64(i)))]++
	}
	return got
}

func (p *Pool) picked(i uint64) *Server {
	s, _ := p.Pick(identity(fmt.Sprint("key", i)))
	return s
}

func (p *Pool) index(s *Server) int {
	for i, other := range p.servers {
		if other == s {
			return i
		}
	}
	return -1
}

func TestTurnsAreExactlyWhatTheWeightsSay(t *testing.T) {
	for _, weights := range [][]int{{1}, {1, 1, 1}, {5, 1, 1}, {2, 4, 6}, {1000, 1}, {7, 3, 2, 1, 1}} {
		p := weighted(t, "round_robin", weights...)
		total := 0
		for _, w := range weights {
			total += w
		}
		for i, n := range picks(p, 10*total) {
			if n != 10*weights[i] {
				t.Errorf("weights %v: server %d had %d turns of %d, want %d", weights, i, n, 10*total, 10*weights[i])
			}
		}
	}
}

func TestTurnsOfAHeavyServerLieApart(t *testing.T) {
	p := weighted(t, "round_robin", 4, 3, 3)
	row, longest := 0, 0
	for i := range uint64(100) {
		if p.picked(i) == p.servers[0] {
			row++
		} else {
			row = 0
		}
		longest = max(longest, row)
	}
	if longest > 2 {
		t.Errorf("%d turns of one server in a row", longest)
	}
}

func TestServersOfEqualWeightTakeTurnsInTheOrderOfTheFile(t *testing.T) {
	p := weighted(t, "round_robin", 3, 3, 3)
	first := p.index(p.picked(0))
	for i := range uint64(30) {
		if got, want := p.index(p.picked(0)), (first+1+int(i))%3; got != want {
			t.Fatalf("turn %d: server %d, want %d", i, got, want)
		}
	}
}

func TestTurnsOfAServerThatIsOutGoToAllOthersAlike(t *testing.T) {
	for _, balance := range []string{"round_robin", "least_conn"} {
		p := weighted(t, balance, 1, 1, 1, 1)
		p.servers[1].out.Store(math.MaxInt64)
		for i, n := range picks(p, 3000) {
			if want := 1000; i == 1 && n != 0 || i != 1 && (n < want-1 || n > want+1) {
				t.Errorf("%s: server %d got %d of 3000", balance, i, n)
			}
		}
	}
}

func TestChanceFollowsTheWeights(t *testing.T) {
	// 40,000 draws with p = 3/4: mean 30,000, deviation √(40,000·¾·¼) = 87; five of those are 433.
	got := picks(weighted(t, "random", 3, 1), 40_000)
	if math.Abs(float64(got[0]-30_000)) > 433 {
		t.Errorf("got %v of 40,000 for weights 3 and 1", got)
	}
}

func TestFewestInFlightCountsForTheWeight(t *testing.T) {
	p := weighted(t, "least_conn", 1, 4)
	p.servers[0].inFlight.Store(1)
	for n, want := range []int{1, 1, 1, 1} { // 0, 1, 2 and 3 of 4 are less than 1 of 1
		p.servers[1].inFlight.Store(int64(n))
		for range 5 {
			if got := p.index(p.picked(0)); got != want {
				t.Errorf("1 and %d in flight: server %d, want %d", n, got, want)
			}
		}
	}
	p.servers[1].inFlight.Store(5)
	if got := p.index(p.picked(0)); got != 0 {
		t.Errorf("1 and 5 in flight: server %d, want 0", got)
	}
}

func TestHashSpreadsKeysByWeight(t *testing.T) {
	weights := []int{1, 1, 2, 1}
	for i, n := range picks(weighted(t, "hash", weights...), 50_000) {
		// Binomial: five deviations of p = 2/5 are 5·√(50,000·0.4·0.6) = 548, of 1/5 447.
		share := float64(weights[i]) / 5
		if bound := 5 * math.Sqrt(50_000*share*(1-share)); math.Abs(float64(n)-50_000*share) > bound {
			t.Errorf("server %d of weight %d got %d of 50,000 keys, want %.0f ± %.0f", i, weights[i], n, 50_000*share, bound)
		}
	}
}

func TestAServerThatGoesMovesItsOwnKeysOnly(t *testing.T) {
	urls := []string{"http://a", "http://b", "http://c", "http://d", "http://e"}
	hashed := func(urls ...string) *Pool {
		s := spec(t, urls...)
		s.Balance = "hash"
		return newPool(t, s)
	}
	five, four := hashed(urls...), hashed(urls[4], urls[0], urls[1], urls[3]) // without c, in another order
	const n = 10_000
	moved := map[string]int{}
	for i := range uint64(n) {
		before, after := five.picked(i).URL.Host, four.picked(i).URL.Host
		if before != "c" && before != after {
			t.Fatalf("key %d moved from %s to %s", i, before, after)
		}
		if before == "c" {
			moved[after]++
		}
		if again := five.picked(i).URL.Host; again != before {
			t.Fatalf("key %d: %s, then %s", i, before, again)
		}
	}
	for _, host := range []string{"a", "b", "d", "e"} {
		// c had about 2,000; each other gets a quarter: 500 ± 5·√(10,000·0.05·0.95) = 109.
		if got := moved[host]; got < 391 || got > 609 {
			t.Errorf("%d keys of c went to %s", got, host)
		}
	}
	five.servers[2].out.Store(math.MaxInt64) // out is like gone, and its keys come back
	for i := range uint64(1000) {
		if five.picked(i).URL.Host != four.picked(i).URL.Host {
			t.Fatalf("key %d is elsewhere while c is out", i)
		}
	}
}

func TestBackupsServeOnlyWhenNoOtherIsUp(t *testing.T) {
	for _, balance := range []string{"least_conn", "round_robin", "random", "hash"} {
		p := weighted(t, balance, 1, 1, 1)
		p.servers[2].backup = true
		p.choice.Store(choose(p.servers))
		if got := picks(p, 300); got[2] != 0 {
			t.Errorf("%s: a backup got %d of 300 while others are in", balance, got[2])
		}
		p.servers[0].out.Store(math.MaxInt64)
		if got := picks(p, 300); got[1] != 300 {
			t.Errorf("%s: got %v with one server in", balance, got)
		}
		p.servers[1].out.Store(math.MaxInt64)
		if got := picks(p, 300); got[2] != 300 {
			t.Errorf("%s: got %v with the backup alone in", balance, got)
		}
		p.servers[2].out.Store(math.MaxInt64)
		if got := picks(p, 300); got[0]+got[1]+got[2] != 300 {
			t.Errorf("%s: got %v with all out", balance, got)
		}
		p.servers[1].out.Store(0)
		if got := picks(p, 300); got[1] != 300 {
			t.Errorf("%s: got %v with one back in", balance, got)
		}
	}
}

// TestChoice: u is up, d down, capitals are backups.
func TestChoice(t *testing.T) {
	for _, tt := range []struct{ servers, first, second, flags string }{
		{"u", "0", "", ""},
		{"d", "0", "", "panic dead"},
		{"ud", "0", "", ""}, // half is not fewer than half
		{"udd", "012", "", "panic"},
		{"uudd", "01", "", ""},
		{"uddd", "0123", "", "panic"},
		{"dd", "01", "", "panic dead"},
		{"uuU", "01", "2", ""},
		{"uuD", "01", "", ""},
		{"uddU", "012", "3", "panic"},
		{"ddU", "2", "", ""},
		{"ddUD", "2", "", ""},
		{"dUDD", "123", "", "panic"},
		{"ddDD", "01", "23", "panic dead"},
	} {
		var servers []*Server
		for i, c := range tt.servers {
			s := &Server{weight: int64(i + 1), backup: c < 'a'}
			s.down.Store(c == 'd' || c == 'D')
			servers = append(servers, s)
		}
		c := choose(servers)
		text := func(tier *tier) (text string) {
			for _, s := range tier.servers {
				text += fmt.Sprint(s.weight - 1)
			}
			return text
		}
		flags := ""
		if c.panic {
			flags = "panic"
		}
		if c.dead {
			flags += " dead"
		}
		if text(&c.first) != tt.first || text(&c.second) != tt.second || flags != tt.flags {
			t.Errorf("%s: first %q, second %q, %q; want %q, %q, %q", tt.servers, text(&c.first), text(&c.second), flags, tt.first, tt.second, tt.flags)
		}
	}
}

func TestPickTakesNoMemory(t *testing.T) {
	for _, balance := range []string{"least_conn", "round_robin", "random", "hash"} {
		p := weighted(t, balance, 3, 2, 1)
		if n := testing.AllocsPerRun(100, func() { p.Pick(7) }); n != 0 {
			t.Errorf("%s: %v allocations a pick", balance, n)
		}
	}
}
