// Package limit decides whether a request still fits its limits. It is the
// in-process core of the gateway and uses nothing but the standard library: it
// knows no HTTP, no YAML, no log and no clock.
//
// # The promise
//
// No more than the limit ever gets through: not at the edge of a window, not
// when many threads check at once, not after a sweep, a reload, a refund, a
// clock step or an eviction (whose units are counted as given away).
//
// # Words
//
//   - An [Instant] is nanoseconds since the Unix epoch. Time is always an argument.
//   - A [State] is all that is remembered of one key under one rule: 32 bytes of
//     plain data. The zero State is a client never seen.
//   - A [Bucket] is an algorithm with its numbers filled in: pure arithmetic on
//     States, exact to the nanosecond and to the unit.
//   - A [Table] holds the States of one rule: sharded, bounded, empty until its
//     first key, swept without traffic. It also owns the rule's generations of
//     [Numbers], so that an edit of the limit keeps what was used.
//   - A [Claim] is what one request wants of one Table. [Limiter.Acquire] takes
//     all claims of a request or none.
//   - A [Grant] is what the request then holds. It is settled exactly once.
//
// # A worked example
//
// 10 per second with a burst of 10: at 0 ten requests pass. At +50 ms half a
// unit has come back, so the eleventh is refused with a wait of 50 ms; at
// +100 ms it passes. After five quiet seconds ten pass at once, not fifty,
// since a bucket never holds more than its burst.
//
// With two rules on a request (5 per second for each user, 1 per second for
// each address), a request the address rule refuses leaves the user's five
// untouched: both States are computed under both locks, and either both are
// stored or neither is.
//
// # What it does not do
//
// It does not wait: it says how long a request has to ([Verdict]). It does not read a
// clock, and it starts no goroutine but inside [Sweeper.Run]. Keys never enter it: it sees a keyed 128-bit [Digest].
package limit
