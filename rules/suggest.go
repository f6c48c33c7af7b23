package rules

import "strings"

// nearest returns the name that word was probably meant to be: the one that the
// fewest letters tell apart, and at most one, or two of a name of five or more.
// It returns "" when none is near.
func nearest(word string, names []string) string {
	best, bestDistance := "", 3
	if len(word) > 64 {
		return ""
	}
	folded := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for _, name := range names {
		if diff := len(name) - len(word); diff < -2 || diff > 2 {
			continue
		}
		d := distance(folded, strings.ToLower(name))
		if d < bestDistance && (d < 2 || len(name) >= 5) {
			best, bestDistance = name, d
		}
	}
	return best
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
