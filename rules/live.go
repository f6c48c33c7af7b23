package rules

import "sync/atomic"

// Live is what of a rule outlives a list of rules, beside that of its plans: its
// counters. A Set holds it by pointer, and the next Set holds the same one if the
// rule still means the same (see File.Compile). When the last Set and the last
// request let go of it, the collector takes it. It is safe for concurrent use.
type Live struct {
	// Skipped counts requests that the rule passed by for want of a key, FailedOpen
	// those whose key it could not tell. Set.Match and Set.Resolve count them, the
	// front door all else.
	Skipped, FailedOpen atomic.Int64
	// Units is the number of units taken for good.
	Units atomic.Int64
	// NearLimit counts decisions after which a fifth of the limit or less was left.
	NearLimit atomic.Int64
	// Refusals remembers whom the rule refuses most, or would in a dry run.
	Refusals Refusals
	// Blocks are the keys that an operator has blocked.
	Blocks Blocks

	kept, returned atomic.Int64
	warned         atomic.Bool

	identity string // what it was made for: see RuleSpec.identity
}

// alwaysReturned is how many units a rule may give back, and keep none, before
// that looks like a mistake in the file.
const alwaysReturned = 1000

// Settled notes that of the units of one request so many were kept and so many
// given back. It returns true, once, when the rule has only ever given back: its
// count or refund then limits nothing.
func (l *Live) Settled(kept, returned int64) (odd bool) {
	l.Units.Add(kept)
	if kept > 0 {
		l.kept.Add(kept)
	}
	if returned <= 0 || l.returned.Add(returned) < alwaysReturned || l.kept.Load() > 0 {
		return false
	}
	return l.warned.CompareAndSwap(false, true)
}
