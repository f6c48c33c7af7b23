package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// asked sends a request of a client through the gateway, without a socket, and
// returns its status and the names of the rules that refused it.
func asked(g *Gateway, client, path string) (status int, refusing string) {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = client + ":1"
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if _, names, ok := strings.Cut(w.Body.String(), `"violated-policies":[`); ok {
		refusing, _, _ = strings.Cut(names, "]")
	}
	return w.Code, refusing
}

// A candidate decides as its numbers would on all requests that the other rules let
// through, and nothing of what is decided, nor of what the rules have counted, is
// another for it.
func TestACandidateAndItsRuleNeverDisturbEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, 0))
			algorithm := oneOf(r, []string{"token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_window_log"}...)
			live, other, trial := between(r, 1, 6), between(r, 1, 12), between(r, 1, 9)
			cost := between(r, 0, min(2, live, trial))
			file := func(candidate string) string {
				return fmt.Sprintf("routes: [{ respond: { status: 204 } }]\nrules:\n"+
					"  - { name: a, limit: %d/m, algorithm: %s, cost: %d%s }\n  - { name: b, match: /b, key: global, limit: %d/m }\n", live, algorithm, cost, candidate, other)
			}
			with := New(Config{Clock: NewClock()}, build(t, file(fmt.Sprintf(", candidate: { limit: %d/m }", trial)), nil))
			without := New(Config{Clock: NewClock()}, build(t, file(""), nil))
			alone := New(Config{Clock: NewClock()}, build(t, strings.Replace(file(""), fmt.Sprintf("limit: %d/m, algorithm", live), fmt.Sprintf("limit: %d/m, algorithm", trial), 1), nil))
			candidate := with.Current().rules.Rule("a").Base.Candidate.Live
			oracle := alone.Current().rules.Rule("a")
			for range between(r, 1, 60) {
				if between(r, 0, 4) == 0 {
					time.Sleep(time.Duration(between(r, 1, 40_000)) * time.Millisecond)
				}
				client := oneOf(r, []string{"192.0.2.1", "192.0.2.2"}...)
				path := oneOf(r, []string{"/", "/b"}...)
				allowed, refused := candidate.Allowed.Load(), candidate.Rejected.Load()
				status, by := asked(with, client, path)
				if wantStatus, wantBy := asked(without, client, path); status != wantStatus || by != wantBy {
					t.Fatalf("seed %d: answered %d by %s; without a candidate %d by %s", seed, status, by, wantStatus, wantBy)
				}
				allowed, refused = candidate.Allowed.Load()-allowed, candidate.Rejected.Load()-refused
				if by != "" && by != `"a"` {
					if allowed+refused != 0 {
						t.Fatalf("seed %d: refused by %s, and the candidate has seen it", seed, by)
					}
					continue
				}
				// Only what the others let through is asked of a rule that has the candidate's numbers.
				before := oracle.Base.Live.Allowed.Load()
				asked(alone, client, "/")
				if want := oracle.Base.Live.Allowed.Load() - before; allowed != want || refused != 1-want {
					t.Fatalf("seed %d: the candidate allows %d and refuses %d; as the limit it would allow %d", seed, allowed, refused, want)
				}
			}
			for _, counters := range [][2]*rules.Rule{{with.Current().rules.Rule("a"), without.Current().rules.Rule("a")}, {with.Current().rules.Rule("b"), without.Current().rules.Rule("b")}} {
				got, want := counters[0], counters[1]
				if got.Live.Units.Load() != want.Live.Units.Load() || got.Base.Live.Allowed.Load() != want.Base.Live.Allowed.Load() ||
					got.Base.Live.Rejected.Load() != want.Base.Live.Rejected.Load() || got.Live.NearLimit.Load() != want.Live.NearLimit.Load() ||
					got.Base.Live.Table.Stats() != want.Base.Live.Table.Stats() {
					t.Fatalf("seed %d: rule %s has other counters for the candidate", seed, got.Name)
				}
			}
			with.Close()
			without.Close()
			alone.Close()
		}
	})
}

func between(r *rand.Rand, low, high int) int { return low + r.IntN(high-low+1) }

func oneOf(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// 5 requests at 2/h pass twice; a candidate of 4/h would have let 4 pass, one of 1/h
// one. The answers tell of the live limit alone.
func TestACandidateSeesWhatItsOwnRuleRefuses(t *testing.T) {
	for _, row := range []struct{ candidate, allowed, refused int64 }{{4, 4, 1}, {1, 1, 4}, {2, 2, 3}, {9, 5, 0}} {
		s := newSite(t, fmt.Sprintf("upstream: UPSTREAM\nrules: [{ name: a, limit: 2/h, candidate: { limit: %d/h } }]\n", row.candidate), nil)
		for i := range 5 {
			r := s.get("/")
			if want := []int{200, 200, 429, 429, 429}[i]; r.StatusCode != want {
				t.Errorf("candidate %d/h, request %d: %d, want %d", row.candidate, i, r.StatusCode, want)
			}
			if got := r.Header.Get("RateLimit-Policy"); got != `"a";q=2;w=3600` {
				t.Errorf("candidate %d/h: RateLimit-Policy %s", row.candidate, got)
			}
		}
		c := s.gateway.Current().rules.Rules[0].Base.Candidate.Live
		if allowed, refused := c.Allowed.Load(), c.Rejected.Load(); allowed != row.allowed || refused != row.refused {
			t.Errorf("candidate %d/h: allowed %d, refused %d; want %d, %d", row.candidate, allowed, refused, row.allowed, row.refused)
		}
		var marked int64
		eventually(t, "five lines", func() bool { return len(s.access.all()) == 5 })
		for _, line := range s.access.all() {
			if strings.Contains(line, `"candidate_rule":"a"`) {
				marked++
			}
		}
		if marked != row.refused {
			t.Errorf("candidate %d/h: %d lines of the access log are marked, want %d", row.candidate, marked, row.refused)
		}
	}
}

// With count only answers with such a status use a candidate up, as they do the limit.
func TestWhatDoesNotCountDoesNotCountForACandidate(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: login, limit: 3/h, count: { status: 401 }, candidate: { limit: 2/h } }]\n", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wrong" {
			w.WriteHeader(401)
		}
	})
	for i, step := range []struct {
		path    string
		status  int
		refused int64
	}{
		{"/right", 200, 0}, {"/wrong", 401, 0}, {"/right", 200, 0}, {"/right", 200, 0}, {"/wrong", 401, 0},
		{"/right", 200, 1}, {"/wrong", 401, 2}, {"/right", 429, 3}, {"/right", 429, 4},
	} {
		if got := s.get(step.path).StatusCode; got != step.status {
			t.Errorf("request %d: %d, want %d", i, got, step.status)
		}
		if got := s.gateway.Current().rules.Rules[0].Base.Candidate.Live.Rejected.Load(); got != step.refused {
			t.Errorf("after request %d the candidate has refused %d, want %d", i, got, step.refused)
		}
		s.settled(t)
	}
	// What was refused was given back at once: a looser candidate is not used up by it.
	s = newSite(t, "upstream: UPSTREAM\nrules: [{ name: login, limit: 1/h, count: { status: 401 }, candidate: { limit: 2/h } }]\n", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) })
	for range 5 {
		s.get("/")
		s.settled(t)
	}
	if c := s.gateway.Current().rules.Rules[0].Base.Candidate.Live; c.Rejected.Load() != 0 {
		t.Errorf("a candidate of 2 has refused %d after 1 answer that counts", c.Rejected.Load())
	}
}

// settled waits until no request is in progress.
func (s *site) settled(t testing.TB) {
	t.Helper()
	eventually(t, "no request is in progress", func() bool { return s.gateway.InFlight() == 0 })
}

func TestACandidateOfAConcurrencyGivesItsSlotsBack(t *testing.T) {
	release := make(chan struct{})
	s := newSite(t, "upstream: UPSTREAM\nrules: [{ name: a, concurrency: 3, candidate: { concurrency: 2 } }]\n", slowUpstream(release))
	end := hold(t, s, "/slow", 3)
	plan := s.gateway.Current().rules.Rules[0].Base.Candidate
	if got := plan.Live.Rejected.Load(); got != 1 {
		t.Errorf("of 3 in progress the candidate would have refused %d, want 1", got)
	}
	if got := s.get("/").StatusCode; got != 429 {
		t.Errorf("the fourth: %d, want 429", got)
	}
	close(release)
	end()
	s.settled(t)
	claims := []limit.Claim{{Table: plan.Live.Table, N: 2}}
	for _, refused := range s.gateway.Current().rules.Rules[0].Live.Refusals.Top(s.gateway.Now(), 1) {
		claims[0].Key = refused.Key
	}
	if v := s.gateway.limiter.Peek(s.gateway.Now(), claims); !v.OK || claims[0].Result.Remaining != 0 {
		t.Errorf("once all have ended the candidate's slots are not all free: %+v", claims[0].Result)
	}
}

// A reload keeps what a candidate has counted as long as it means the same, and a
// change of the numbers is one of numbers.
func TestAReloadKeepsTheCountersOfACandidate(t *testing.T) {
	const file = "upstream: UPSTREAM\nrules: [{ name: a, limit: 10/h, candidate: { limit: %s } }]\n"
	s := newSite(t, fmt.Sprintf(file, "5/h"), nil)
	for range 4 {
		s.get("/")
	}
	before := s.gateway.Current().rules
	s.reload(fmt.Sprintf(file, "3/h"))
	after := s.gateway.Current().rules
	if after.Rules[0].Base.Candidate.Live != before.Rules[0].Base.Candidate.Live {
		t.Fatal("the candidate starts afresh")
	}
	if got, want := after.Change(before).String(), `changed "a" (candidate 5/h → 3/h; counters kept)`; got != want {
		t.Errorf("changed %s, want %s", got, want)
	}
	s.get("/")
	if got := after.Rules[0].Base.Candidate.Live.Rejected.Load(); got != 1 {
		t.Errorf("4 used of 3: the candidate has refused %d of one more, want 1", got)
	}
	s.reload("upstream: UPSTREAM\nrules: [{ name: a, limit: 10/h }]\n")
	if got := s.gateway.Current().rules.Change(after).String(); got != `changed "a" (candidate 3/h removed; counters kept)` {
		t.Errorf("changed %s", got)
	}
	if r := s.get("/"); r.StatusCode != 200 || !strings.Contains(r.Header.Get("RateLimit"), `"a";r=4`) {
		t.Errorf("the rule itself has counted otherwise: %d %s", r.StatusCode, r.Header.Get("RateLimit"))
	}
}

// Clients of a tier have other numbers, which the candidate does not stand for.
func TestACandidateIsForTheRulesOwnNumbers(t *testing.T) {
	s := newSite(t, "upstream: UPSTREAM\ngroups: { gold: { header.X-Plan: gold } }\n"+
		"rules: [{ name: a, limit: 5/h, tiers: { gold: { limit: 9/h } }, candidate: { limit: 1/h } }]\n", nil)
	for range 3 {
		s.get("/", "X-Plan: gold")
	}
	s.get("/")
	s.get("/")
	c := s.gateway.Current().rules.Rules[0].Base.Candidate.Live
	if c.Allowed.Load() != 1 || c.Rejected.Load() != 1 {
		t.Errorf("allowed %d, refused %d; want 1, 1", c.Allowed.Load(), c.Rejected.Load())
	}
}

func TestTheTablesOfCandidatesAreSweptAndBounded(t *testing.T) {
	snap := build(t, "routes: [{ respond: { status: 204 } }]\nrules: [{ name: a, limit: 5/h, max_keys: 1000, candidate: { limit: 5/h } }]\n", nil)
	table := snap.rules.Rules[0].Base.Candidate.Live.Table
	if !slices.Contains(snap.rules.Tables(), table) {
		t.Error("the table of the candidate is not among those that are swept")
	}
	g := New(Config{Clock: NewClock()}, snap)
	defer g.Close()
	for i := range 3000 {
		asked(g, fmt.Sprintf("10.0.%d.%d", i/250, i%250), "/")
	}
	if n := table.Stats().Keys; n != 1000 {
		t.Errorf("%d keys, want max_keys: 1000", n)
	}
}

func TestACandidateAllocatesNothingOnTheHotPath(t *testing.T) {
	s := build(t, "routes: [{ respond: { status: 204 } }]\nrules: [{ name: a, limit: 1000000/s, candidate: { limit: 900000/s } }]\n", nil)
	plain := build(t, "routes: [{ respond: { status: 204 } }]\nrules: [{ name: a, limit: 1000000/s }]\n", nil)
	per := func(snap *Snapshot) float64 {
		g := New(Config{Clock: NewClock()}, snap)
		defer g.Close()
		r := httptest.NewRequest("GET", "/", nil)
		return testing.AllocsPerRun(500, func() { g.ServeHTTP(&sink{header: http.Header{}}, r) })
	}
	if with, without := per(s), per(plain); with > without && (!underRace || with > without+5) {
		t.Errorf("%v allocations a request, without a candidate %v", with, without)
	}
}
