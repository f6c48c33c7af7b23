//go:build race

package rules

// underRace says that the race detector is on.
const underRace = true
