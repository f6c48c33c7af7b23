//go:build race

package limit

// underRace says that the race detector is on.
const underRace = true
