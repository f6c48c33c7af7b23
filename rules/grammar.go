package rules

import "time"

// Rate is a number of permits in a time.
type Rate struct {
	Permits int64
	Period  time.Duration
}

func hostOf(addr string) string { return "" }
