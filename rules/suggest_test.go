package rules

import "testing"

func TestTheNearestNameIsSuggested(t *testing.T) {
	names := partRule.names()
	for word, want := range map[string]string{
		"limt": "limit", "lmit": "limit", "Limit": "limit", "limits": "limit", "burts": "burst", "mach": "match", "kye": "key",
		"dry-run": "dry_run", "algoritm": "algorithm", "max_key": "max_keys", "colour": "", "x": "", "": "", "nmae": "name",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistanceCountsSwapsOnce(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"limit", "limit", 0}, {"limt", "limit", 1}, {"lmiit", "limit", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3}, {"ä", "a", 1},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := distance(tt.b, tt.a); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestNoSettingIsBothKnownAndForLater(t *testing.T) {
	for part, n := range settings {
		seen := map[string]bool{}
		for _, name := range part.names() {
			if seen[name] {
				t.Errorf("%s of %s is there twice", name, part)
			}
			seen[name] = true
		}
		for theirs, ours := range familiar[part] {
			if seen[theirs] || !seen[ours] {
				t.Errorf("%s of %s is suggested for %s", ours, part, theirs)
			}
		}
		if len(n.known) == 0 {
			t.Errorf("%s has no settings", part)
		}
	}
}
