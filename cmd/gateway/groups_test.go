package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Premium gets 100 a second and others 10: what passes is the bucket and what
// refills while the test runs, however long that takes.
func TestPremiumGetsAHundredASecondAndOthersTen(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-Tier")) })
	dir := t.TempDir()
	write(t, filepath.Join(dir, "premium.keys"), "# of our customers\npremium-1\n\nsha256:81c62c5afef974b5d39a65e675973fcb994ab84e49f442f631034ce0663dbc2c\n")
	path := filepath.Join(dir, "gateway.yaml")
	write(t, path, ports+`groups: { premium: { header.X-API-Key: { file: premium.keys } } }
upstreams: { a: `+up.URL+` }
routes: [{ headers: { request: { set: { X-Tier: "{tier}" } } } }]
rules:
  - name: per-key
    key: header.X-API-Key
    limit: 10/s
    tiers: { premium: { limit: 100/s } }
`)
	g := serveFileAt(t, path)
	for _, tt := range []struct {
		key, tier string
		rate      int
	}{{"premium-1", "premium", 100}, {"premium-2", "premium", 100}, {"free-1", "", 10}} { // the file has the second by its SHA-256
		start := time.Now()
		counts := g.statuses(300, 8, "/", func(int) []string { return []string{"X-API-Key: " + tt.key} })
		most := tt.rate + int(time.Since(start).Seconds()*float64(tt.rate)) + 1
		if n := counts[200]; n < tt.rate || n > most || n+counts[429] != 300 {
			t.Errorf("%s: %v; want %d to %d to pass", tt.key, counts, tt.rate, most)
		}
		a := g.get("/", "X-API-Key: "+tt.key)
		if p := a.of("per-key"); p.q != int64(tt.rate) || p.w != 1 {
			t.Errorf("%s: policy %+v, want q=%d", tt.key, p, tt.rate)
		}
		m := g.metrics()
		label := fmt.Sprintf(`rule="per-key",tier=%q`, tt.tier)
		if n := m[`gateway_rule_decisions_total{result="allowed",`+label+`}`]; n < float64(counts[200]) {
			t.Errorf("%v allowed in metrics of tier %q, want %d and more", n, tt.tier, counts[200])
		}
		if n := m[`gateway_rule_decisions_total{result="rejected",`+label+`}`]; n < float64(counts[429]) {
			t.Errorf("%v rejected in metrics of tier %q, want %d and more", n, tt.tier, counts[429])
		}
	}
	eventually(t, "a premium request passes", func() bool {
		a := g.get("/", "X-API-Key: premium-1", "X-Tier: forged")
		return a.status == 200 && a.body == "premium"
	})
}

// tierOf returns the size of the bucket that a key has under rule "a".
func (g *instance) tierOf(key string) int64 {
	g.t.Helper()
	return g.get("/", "X-API-Key: "+key).of("a").q
}

func TestAGroupFileIsAppliedLive(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir, keys := t.TempDir(), t.TempDir() // not beside the file, so that its folder has to be followed
	list, path := filepath.Join(keys, "vip"), filepath.Join(dir, "gateway.yaml")
	write(t, list, "a\nb\n")
	text := ports + "groups: { vip: { header.X-API-Key: { file: " + list + " } } }\nupstream: " + up.URL +
		"\nrules: [{ name: a, key: header.X-API-Key, limit: 1000/365d, tiers: { vip: { limit: 5000/365d } } }]\n"
	write(t, path, text)
	g := serveFileAt(t, path)
	is := func(key string, want int64) {
		t.Helper()
		if got := g.tierOf(key); got != want {
			t.Errorf("%q has a bucket of %d, want %d", key, got, want)
		}
	}
	reloads := func() int { return len(g.logged("configuration reloaded")) }
	is("a", 5000)
	is("c", 1000)
	for range 9 {
		is("a", 5000)
	}
	if left := g.get("/", "X-API-Key: a").of("a").remaining; left != 5000-11 {
		t.Errorf("%d left, want %d", left, 5000-11)
	}

	// However it is saved.
	for i, save := range []func(text string){
		func(text string) { write(t, list, text) },
		func(text string) { write(t, list+"~", text); do(t, os.Rename(list+"~", list)) },
		func(text string) { do(t, os.Remove(list)); write(t, list, text) },
	} {
		key := fmt.Sprint("new", i)
		save("a\nb\n" + key + "\n")
		eventually(t, key+" is in the group", func() bool { return g.tierOf(key) == 5000 })
	}
	if left := g.get("/", "X-API-Key: a").of("a").remaining; left != 5000-12 {
		t.Errorf("%d left, want %d: what a member used is kept while others come", left, 5000-12)
	}
	lines := g.logged("configuration reloaded")
	if len(lines) != 3 || lines[0]["changed"] != `groups changed "vip" (2 → 3 listed)` {
		t.Errorf("reload lines %v", lines)
	}

	// One leaves, and comes back to what it had used.
	write(t, list, "b\n")
	eventually(t, "a has left", func() bool { return g.tierOf("a") == 1000 })
	write(t, list, "b\na\n")
	eventually(t, "a is back", func() bool { return g.tierOf("a") == 5000 })
	if left := g.get("/", "X-API-Key: a").of("a").remaining; left > 5000-14 || left < 5000-1000 {
		t.Errorf("%d left: what was used in the tier is forgotten", left)
	}

	// What cannot be used is refused, and the group stays as it is.
	for _, bad := range []struct{ text, want string }{
		{"", path + `:3:44: group "vip": file "` + list + `" holds no value`},
		{"# nobody\n", path + `:3:44: group "vip": file "` + list + `" holds no value`},
		{"b\n10.0.0.0/8\n", list + `:2:1: a CIDR, where text is meant`},
	} {
		write(t, list, bad.text)
		eventually(t, bad.want, func() bool {
			refused := g.refusals()
			return len(refused) > 0 && strings.Contains(fmt.Sprint(refused[len(refused)-1]["errors"]), bad.want)
		})
		is("a", 5000)
		if a := g.control("POST", "/reload"); a.status != 422 || !strings.Contains(a.body, bad.want) {
			t.Errorf("POST /reload: %d %s, want 422 and %s", a.status, a.body, bad.want)
		}
	}
	do(t, os.Remove(list))
	eventually(t, "that the file is gone is reported", func() bool {
		refused := g.refusals()
		return strings.Contains(fmt.Sprint(refused[len(refused)-1]["errors"]), `no such file or directory`)
	})
	is("a", 5000)
	write(t, list, "a\nc\n")
	eventually(t, "the file is back", func() bool { return g.tierOf("c") == 5000 })

	// Saved as it was, it changes nothing.
	n := reloads()
	write(t, list, "a\nc\n")
	if a := g.control("POST", "/reload"); a.status != 200 || !strings.Contains(a.body, "unchanged") || reloads() != n {
		t.Errorf("POST /reload: %d %s; %d reloads, want none", a.status, a.body, reloads()-n)
	}
}
