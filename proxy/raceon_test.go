//go:build race

package proxy

// underRace says that the race detector is on, under which a sync.Pool forgets at random.
const underRace = true
