package main

import "os"

// runBallast is how much less often garbage is collected: a collection begins
// when as much has been allocated as was in use and in the ballast.
const runBallast = 8 << 20

// ballast makes the collector take the heap for larger than it is. A gateway with
// few keys uses a few MB, and would collect them some hundred times a second under
// load; with many keys it makes no difference. The ballast is never touched, so it
// takes no memory itself; it is to be kept reachable. Who sets GOGC or GOMEMLIMIT knows
// better, and gets none.
func ballast(size int) []byte {
	for _, name := range [...]string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	return make([]byte, size)
}
