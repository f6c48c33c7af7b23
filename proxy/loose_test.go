package proxy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every spelling that such an upstream takes for one path is one path to the rule,
// and reaches the upstream as it was sent. What it could fold in two ways is no request.
func TestNoSpellingEscapesARuleOnLoosePaths(t *testing.T) {
	up := record(t)
	s := newSite(t, "upstream: "+up.url+"\npaths: loose\nrules: [{ name: login, match: /login, key: global, limit: 6/h }]\n", nil)
	spellings := []string{"/login", "/LOGIN", "/login;v=1", "/Log%49n", "/;x=1/login", "/login;/"}
	for _, want := range []int{200, 429} {
		for _, path := range spellings {
			if got := s.get(path).StatusCode; got != want {
				t.Errorf("%s: %d, want %d", path, got, want)
			}
		}
	}
	if got := s.get("/a/;x/../login").StatusCode; got != 400 {
		t.Errorf("a path that folds in two ways once segments are cut: %d, want 400", got)
	}
	if diff := cmp.Diff(spellings, up.targets()); diff != "" {
		t.Errorf("targets at the upstream, as sent:\n%s", diff)
	}
}
