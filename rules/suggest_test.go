package rules

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

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
		if len(n) == 0 {
			t.Errorf("%s has no settings", part)
		}
	}
}

const letters = "abcdefghijklmnopqrstuvwxyz_"

// misspellings calls do with words that one letter tells from word: each dropped,
// some put in at each place, some in the place of each, and neighbours swapped.
func misspellings(word string, do func(string)) {
	for i := range len(word) + 1 {
		for j := range 4 {
			c := letters[(7*i+5*j)%len(letters)]
			do(word[:i] + string(c) + word[i:])
			if i < len(word) {
				do(word[:i] + string(c) + word[i+1:])
			}
		}
		if i < len(word) {
			do(word[:i] + word[i+1:])
		}
		if i+1 < len(word) {
			do(word[:i] + word[i+1:i+2] + word[i:i+1] + word[i+2:])
		}
	}
}

// misspell returns word with one letter dropped, put in, changed or swapped.
func misspell(rng *rand.Rand, word string) string {
	i, c := rng.IntN(len(word)+1), string(letters[rng.IntN(len(letters))])
	switch kind := rng.IntN(4); {
	case kind == 0 || i == len(word):
		return word[:i] + c + word[i:]
	case kind == 1:
		return word[:i] + c + word[i+1:]
	case kind == 2 && i+1 < len(word):
		return word[:i] + word[i+1:i+2] + word[i:i+1] + word[i+2:]
	}
	return word[:i] + word[i+1:]
}

// checkSuggestions checks that every word within two letters of a name has a
// suggestion, of a name that is as near as that one; hint makes the hint for a
// word. A word of which no letter would be left may have none.
func checkSuggestions(t *testing.T, what string, names []string, hint func(word string) string) {
	t.Helper()
	check := func(name, word string) {
		d := distance(word, name)
		if slices.Contains(names, word) || d == 0 || d > 2 || d >= min(len(name), len(word)) {
			return
		}
		got := hint(word)
		_, got, _ = strings.Cut(got, `"`)
		got, _, _ = strings.Cut(got, `"`)
		if got != name && (!slices.Contains(names, got) || distance(word, got) > d) {
			t.Errorf("%s: %q is suggested for %q, which is %d from %q", what, got, word, d, name)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		misspellings(name, func(once string) {
			check(name, once)
			for range 2 {
				check(name, misspell(rng, once))
			}
		})
	}
}

// familiarTo is a hint function for a part that does not mind when the word
// happens to be one that other programs use.
func familiarTo(p part) func(string) string {
	return func(word string) string {
		if familiar[p][word] != "" {
			return didYouMean(word, p.names())
		}
		return p.suggest(word)
	}
}

func TestEveryMisspellingOfASettingIsRecognised(t *testing.T) {
	for p := range settings {
		checkSuggestions(t, string(p), p.names(), familiarTo(p))
	}
}

func TestEveryMisspellingOfAValueIsRecognised(t *testing.T) {
	for what, c := range map[string]choice{
		"algorithm": algorithms, "fail": failures, "balance": balances, "priority": routePriorities, "host": hosts,
		"ratelimit_headers": rateLimitHeaders, "level": logLevels, "format": logFormats, "access": logAccess,
	} {
		words := c
		checkSuggestions(t, what, words, func(word string) string {
			s := &source{lines: []string{word}}
			s.oneOf(&node{shape: scalar, text: word, row: 1, column: 1}, what, c, new(string))
			return s.errs[0].Hint
		})
	}
}

func TestEveryMisspellingOfAnAttributeIsRecognised(t *testing.T) {
	var plain, named []string
	for name, has := range attributeNames {
		if has {
			named = append(named, name+".x")
		} else {
			plain = append(plain, name)
		}
	}
	slices.Sort(plain)
	slices.Sort(named)
	hint := func(word string) string {
		_, err := ParseAttribute(word)
		if err == nil {
			return `"` + word + `"` // path.x of pat.x: it is one
		}
		return err.Hint
	}
	checkSuggestions(t, "attribute", plain, func(word string) string {
		if _, theirs := otherWords[word]; theirs || attributeNames[nearestAttribute(word)] { // bosy is nearer to body than to host
			return didYouMean(word, plain)
		}
		return hint(word)
	})
	for _, name := range named {
		family := strings.TrimSuffix(name, ".x")
		misspellings(family, func(word string) {
			if _, ours := attributeNames[word]; ours || otherWords[word] != "" || word == "" {
				return
			}
			if got := hint(word + ".x"); got != `did you mean "`+name+`"?` && !strings.Contains(got, `"path.x"`) {
				t.Errorf("%s.x: the hint is %q, want one of %s", word, got, name)
			}
		})
	}
}

func TestEveryMisspellingOfAUnitIsRecognised(t *testing.T) {
	checkSuggestions(t, "unit", unitNames, func(word string) string {
		if units[word] != 0 {
			return didYouMean(word, unitNames)
		}
		_, _, err := parsePeriod("", word)
		return err.Hint
	})
}
