package rules

import (
	"strings"
	"unicode/utf8"
)

// nearest returns the name that word was probably meant to be: the one that the
// fewest letters tell apart, at most two, as long as one of the name is left. Of
// names that are equally near it is the one that begins most like the word, then
// the first. It returns "" when none is near.
func nearest(word string, names []string) string {
	if len(word) > 64 {
		return ""
	}
	best, bestDistance, bestPrefix := "", 3, 0
	folded := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for _, name := range names {
		if diff := utf8.RuneCountInString(name) - utf8.RuneCountInString(word); diff < -2 || diff > 2 {
			continue
		}
		plain := strings.ToLower(name)
		d, prefix := distance(folded, strings.ReplaceAll(plain, "-", "_")), commonPrefix(folded, plain)
		if d < min(3, len(name), utf8.RuneCountInString(word)) && (d < bestDistance || d == bestDistance && prefix > bestPrefix) {
			best, bestDistance, bestPrefix = name, d, prefix
		}
	}
	return best
}

// commonPrefix returns how many bytes a and b begin alike.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// didYouMean returns the hint that names the nearest of names, or "".
func didYouMean(word string, names []string) string {
	if name := nearest(word, names); name != "" {
		return `did you mean "` + name + `"?`
	}
	return ""
}

// distance returns how many letters must be added, dropped, changed or swapped
// with their neighbour to make b of a (Damerau and Levenshtein, each place
// edited once).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row := make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			change := 1
			if s[i] == t[j] {
				change = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+change)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}

// list writes names as prose: "a", "a or b", "a, b or c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
