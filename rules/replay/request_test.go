package replay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"gateway/limit"
)

const mixedRules = `
upstream: http://127.0.0.1:1
trusted_proxies: [10.0.0.1]
block: { path: /blocked/** }
exempt: { path: /free/** }
groups: { premium: { header.X-Api-Key: [p-*] } }
rules:
  - { name: ip, limit: 20/m, burst: 5 }
  - { name: key, key: header.X-Api-Key, missing: skip, limit: 6/m, tiers: { premium: { limit: 60/m } }, candidate: { limit: 3/m } }
  - { name: user, match: /u/:user/**, key: path.user, limit: 9/m, algorithm: sliding_window, cost: { /u/*/big: 3, /u/**: 1 } }
  - { name: slots, match: /slow/**, key: ip, concurrency: 2 }
  - { name: back, match: /back/**, key: ip, limit: 4/m, algorithm: fixed_window, refund: { status: 5xx } }
  - { name: hard, match: { path: "/c*" }, key: ip, limit: 10/m, burst: 2, penalty: { after: 3/m, block: 90s } }
  - { name: trial, key: ip/24, limit: 30/m, dry_run: true }
  - { name: all, key: global, limit: 500/m }
`

// mixedLog writes a log of Caddy with some of everything in it.
func mixedLog(n int) string {
	r := rand.New(rand.NewPCG(5, 6))
	at := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	paths := []string{"/", "/a", "/u/%d/x", "/u/%d/big", "/slow/%d", "/back/%d", "/c%d", "/blocked/%d", "/free/%d", "/bad%%zz", "/x/../y"}
	var b strings.Builder
	for range n {
		at = at.Add(time.Duration(r.IntN(100)) * time.Millisecond)
		path := paths[r.IntN(len(paths))]
		if strings.Contains(path, "%d") {
			path = fmt.Sprintf(path, r.IntN(8))
		}
		headers := []string{`"X-Forwarded-For":["198.51.100.%d"]`, `"X-Api-Key":["k-%d"]`, `"X-Api-Key":["p-%d"]`, `"Accept":["%d"]`}[r.IntN(4)]
		fmt.Fprintf(&b, `{"ts":%.3f,"request":{"remote_ip":"10.0.0.%d","method":"GET","host":"h","uri":"%s","headers":{%s}},"duration":%.3f,"status":%d}`+"\n",
			float64(at.UnixMilli())/1000, r.IntN(6), path, fmt.Sprintf(headers, r.IntN(9)), r.Float64(), []int{200, 200, 503, 429, 499}[r.IntN(5)])
	}
	return b.String()
}

// Requests are matched some at a time before they are decided. That changes nothing:
// it is as if they came one by one.
func TestRequestsAreDecidedAsIfTheyCameOneByOne(t *testing.T) {
	const all = 8_000
	log := mixedLog(all)
	decide := func(group func() int) (outcomes []Outcome, report string) {
		set := setOf(t, mixedRules)
		headers, answers := Wants(set)
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(log), Headers: headers, Answers: answers})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		s := NewRun(set, "")
		s.Try()
		for {
			b, err := r.Next()
			if err != nil {
				break
			}
			for rest := b; len(rest) > 0; {
				n := min(group(), len(rest))
				outcomes = s.Do(rest[:n], outcomes)
				rest = rest[n:]
			}
			r.Free(b)
		}
		data, err := json.MarshalIndent(s.Report(r, Wanted{"clients", 0.001}, 50), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return outcomes, regexp.MustCompile(`id:[0-9a-f]{32}`).ReplaceAllString(string(data), "id")
	}
	wantOutcomes, want := decide(func() int { return 1 })
	refused := 0
	for _, o := range wantOutcomes {
		if o.Refused {
			refused++
		}
	}
	if len(wantOutcomes) != all || refused < all/20 || refused > all/10*9 {
		t.Fatalf("%d outcomes, %d refused: that shows little", len(wantOutcomes), refused)
	}
	r := rand.New(rand.NewPCG(8, 9))
	for name, group := range map[string]func() int{
		"all that there are": func() int { return all }, "as many as are matched ahead": func() int { return ahead },
		"one more": func() int { return ahead + 1 }, "any number": func() int { return 1 + r.IntN(3*ahead) },
	} {
		outcomes, got := decide(group)
		for i := range wantOutcomes {
			if outcomes[i] != wantOutcomes[i] {
				t.Fatalf("%s: request %d: %+v, one by one %+v", name, i+1, outcomes[i], wantOutcomes[i])
			}
		}
		if got != want {
			t.Errorf("%s: another report than one by one", name)
		}
	}
}

// A key that our own log tells by its id is named by that, whatever its line shows: not as
// one that is missing, which is what a line without the header looks like.
func TestKeysOfOurOwnLogAreNamedByTheirIDs(t *testing.T) {
	const id = "id:000102030405060708090a0b0c0d0e0f"
	log := ""
	for n := range 5 {
		log += fmt.Sprintf(`{"at":17908128010000%05d,"seq":%d,"client":"203.0.113.9","method":"GET","path":"/","status":200,"duration":0.001,"route":"/**","result":"allowed","cost":1,"settled":1,"rules":{"key":{"key":"%s"}}}`+"\n", n, n+1, id)
	}
	for _, key := range []string{"header.X-Api-Key", "[header.X-Api-Key, path]", "cookie.sid"} {
		set := setOf(t, "upstream: http://127.0.0.1:1\nrules: [{ name: key, key: "+key+", limit: 2/d }]\n")
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(log)})
		if err != nil {
			t.Fatal(err)
		}
		s := NewRun(set, "")
		for b, err := r.Next(); err == nil; b, err = r.Next() {
			s.Do(b, nil)
			r.Free(b)
		}
		r.Close()
		top := s.Report(r, Wanted{}, 5).Rules[0].Top
		if len(top) != 1 || top[0].Key != id || top[0].Refused != 3 {
			t.Errorf("%s: refused are %+v, want 3 of %s", key, top, id)
		}
	}
}

func TestTimesOfOneMinuteAreThoseOfTheirOwn(t *testing.T) {
	at := func(text string, c *timeCache) (limit.Instant, error) { return clfTime([]byte(text), c) }
	c := &timeCache{}
	for _, text := range []string{
		"01/Oct/2026:00:00:00 +0000", "01/Oct/2026:00:00:59 +0000", "01/Oct/2026:00:00:07 +0000", "01/Oct/2026:00:01:07 +0000", "01/Oct/2026:00:01:07 +0530",
		"01/Oct/2026:00:01:08 +0530", "31/Dec/2026:23:59:59 -0700", "31/Dec/2026:23:59:60 -0700", "31/Dec/2026:23:58:60 -0700", "31/Dec/2026:23:58:61 -0700",
		"31/Dec/2026:23:58:0x -0700", "31/Dec/2026:23:58:00 -0700", "29/Feb/2027:00:00:00 +0000", "29/Feb/2028:00:00:00 +0000", "29/Feb/2028:00:00:01 +0000",
	} {
		want, wantErr := at(text, nil)
		if got, err := at(text, c); got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%s after others: %v, %v; alone %v, %v", text, got.Time(), err, want.Time(), wantErr)
		}
	}
}

// When more requests are in progress than can be remembered, the report says how many
// of them it has ended early.
func TestRequestsEndedEarlyAreTold(t *testing.T) {
	var log strings.Builder
	for i := range 100 {
		fmt.Fprintf(&log, `{"ts":%d,"request":{"remote_ip":"203.0.113.%d","method":"GET","host":"h","uri":"/"},"duration":1000,"status":200}`+"\n", 1790813801+i, i)
	}
	for most, want := range map[int]string{
		100: "", 99: "", 98: "more than 98 requests, each counted for each rule that waits for its end, were in progress at a time: 1 are", 30: ": 69 are taken to have ended early",
	} {
		s := NewRun(setOf(t, "upstream: http://127.0.0.1:1\nrules:\n  - name: slots\n    concurrency: 1\n"), "")
		s.ends.most = most
		rep := decideAll(t, s, []string{"-"}, Options{Stdin: strings.NewReader(log.String())})
		notes := strings.Join(rep.Notes, "\n")
		if rep.Requests != 100 || rep.Refused != 0 || !strings.Contains(notes, want) || want == "" && strings.Contains(notes, "in progress") {
			t.Errorf("at most %d: %d of %d refused, %q; want %q", most, rep.Refused, rep.Requests, notes, want)
		}
	}
}
