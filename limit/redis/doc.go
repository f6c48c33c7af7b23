// Package redis counts limits that many gateways share, in Redis or Valkey: one
// server, servers with Sentinel, or a cluster. A [Store] is a limit.Store.
//
// # One call
//
// All claims of a request that live in one slot are decided by one call of a Lua
// script: all or nothing, exactly, by the server's own clock. A client's counters
// live in one slot for all rules that count it by the same key, since the digest of
// the key is the hash tag. In a cluster other claims of the request are asked about
// in their own slots at the same time, and what was taken goes back if one refuses.
//
// The algorithms are those of package limit, one small function each in the .lua
// files here, in doubles that stay whole numbers below 2^53; see limit.Terms. What
// would be a nanosecond in memory is a microsecond there.
//
// A window of the calendar is decided by that clock too: a gateway, which knows the
// calendar, sends the edges of two windows, and a store that is in neither says what
// time it is and is asked again. What refusals have earned is kept beside the
// counter. Refusals in one slot of a cluster count whatever another slot says of the
// request, also that it is blocked.
//
// # What is kept
//
// A key is prefix:{digest}:name, with a ! behind it that of a penalty, less than 128
// bytes, and has a time to live from the call that makes it: until nothing of what it says matters any more, and a
// second. A State says what was used and under which numbers, so that an edit of the
// limit keeps it. A request in progress is a lease of 45 seconds, which its gateway
// makes longer while it is in progress.
//
// Where requests wait for their turn, the turn is taken here and waited for by whoever
// asked. The departures of all gateways are as far apart as their limit says, but for
// how much longer one answer takes to come back than another. A give-back that gets lost
// leaves a turn empty.
//
// # When the store is away
//
// A call takes as long as the timeout at most, and is not repeated: what it took is
// taken once, or not at all. After three failures in a row the store is not asked
// any more, and what the claims say of that holds (limit.Claim), until a probe that
// writes succeeds. Nothing waits for a probe. In a cluster that is so for each part
// of the slots by itself. Probes come at random times, so that many gateways do not
// come back at one moment.
//
// Nothing here shows a password: errors and logs name servers alone.
package redis
