package rules

import (
	"sync/atomic"

	"gateway/limit"
)

// Live is what of a rule outlives a list of rules: its counters. A Set holds it
// by pointer, and the next Set holds the same one if the rule still means the
// same (see File.Compile). When the last Set and the last request let go of it,
// the collector takes it. It is safe for concurrent use.
type Live struct {
	// Table holds what each key has used.
	Table *limit.Table
	// What the rule decided, counted by the front door; but Skipped by Set.Match.
	Allowed, Rejected, DryRunRejected, FailedClosed, Skipped atomic.Int64
	// Units is the number of units taken for good.
	Units atomic.Int64
	// NearLimit counts decisions after which a fifth of the limit or less was left.
	NearLimit atomic.Int64

	identity string // what it was made for: see RuleSpec.identity
}
