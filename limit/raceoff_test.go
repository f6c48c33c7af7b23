//go:build !race

package limit

const underRace = false
