package rules

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// edits writes files, each of which differs a little from the one before.
type edits struct {
	*rand.Rand
	top   string
	rules [5]string
}

func (e *edits) one(of ...string) string { return of[e.IntN(len(of))] }

func (e *edits) next() string {
	if e.top == "" || e.IntN(6) == 0 {
		e.top = "upstream: http://localhost:3000\ngroups: { vip: { header.X-Key: [a, " + e.one("b", "c") + "] } }\n" +
			e.one("", "", "", "ipv6_prefix: 48\n") + e.one("", "", "", "paths: loose\n") + e.one("", "", "", "store: { redis: { url: redis://localhost, replicas: 2 } }\n")
	}
	list := []string{}
	for i := range e.rules {
		if e.rules[i] == "" || e.IntN(4) == 0 {
			e.rules[i] = fmt.Sprintf("  - name: %c\n    match: /x/:id/**\n    limit: %s\n", 'a'+i, e.one("5/m", "7/m")) +
				"    key: " + e.one("ip", "ip/24", "global", "[header.X-Key, ip]", "path.id", "query.q", "body.name", "path", "header.X-Key", "header.X-Key", "header.X-Key\n    known: vip", "header.X-Key\n    known: vip", "header.X-Key\n    known: vip") + "\n" +
				e.one("", "", "    missing: skip\n", "    missing: header.X-Other\n") + e.one("", "", "    fail: closed\n") +
				e.one("", "", "    algorithm: sliding_window\n") + e.one("", "", "    store: memory\n")
		}
		if e.IntN(8) > 0 {
			list = append(list, e.rules[i])
		}
	}
	if e.IntN(4) == 0 {
		e.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return e.top + "rules:\n" + strings.Join(list, "") + "  - { name: last, limit: 1/s }\n"
}

// What a reload takes from the list in force is what it would have made of the file
// alone: recipes, with the digests that they make, and what decides whether a rule is
// the same.
func TestWhatAReloadTakesOverIsWhatItWouldHaveMade(t *testing.T) {
	e := edits{Rand: rand.New(rand.NewPCG(7, 7))}
	var prev *Set
	taken, kept := 0, 0
	for range 1000 {
		text := e.next()
		f := parse(t, text)
		set, err := f.Compile(prev)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		nothing := &Set{File: f, secret: set.secret, budget: set.budget} // no rule to take anything from
		alone, err := parse(t, text).Compile(nothing)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range set.Rules {
			want, old := alone.Rules[i], prev.Rule(r.Name)
			if !reflect.DeepEqual(r.recipe, want.recipe) || r.KeyText != want.KeyText || r.Live.identity != want.Live.identity {
				t.Fatalf("rule %s: %+v, %q, %q\nwant %+v, %q, %q\nin\n%s", r.Name, r.recipe, r.KeyText, r.Live.identity,
					want.recipe, want.KeyText, want.Live.identity, text)
			}
			if same := old != nil && old.Live.identity == want.Live.identity; same != (old != nil && old.Live == r.Live) {
				t.Fatalf("rule %s is the same: %v, and its counters are not, in\n%s", r.Name, same, text)
			} else if same {
				kept++
			}
			if old != nil && old.recipe == r.recipe {
				taken++
			}
		}
		prev = set
	}
	if taken < 200 || kept <= taken {
		t.Errorf("%d recipes were taken over, of %d rules that stayed the same", taken, kept)
	}
}
