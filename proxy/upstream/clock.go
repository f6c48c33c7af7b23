package upstream

import "time"

// epoch is where mono counts from.
var epoch = time.Now()

// mono is the monotonic time, in nanoseconds and never 0.
func mono() int64 { return int64(time.Since(epoch)) + 1 }
