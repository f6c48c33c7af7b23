// Package replay reads access logs and decides their requests anew, by the rules
// of a file: with the real matcher and the real limiter, on the clock of the log.
//
// # From logs to a report
//
//	[Open]      files → [Reader]  lines of any known format, all files merged by time
//	[NewRun]    a Set → [Run]     what the rules make of the requests
//	[Run.Do]    some [Record]s    what a line each says of one request
//	[Run.Rules] the figures       of each rule
//
// A Reader finds out by itself what a log is: the combined and common formats of
// Apache and nginx, the JSON of this gateway, of Caddy and of Traefik, Traefik's
// CLF, Envoy's default, HAProxy's HTTP log, the log of an AWS Application Load
// Balancer; or it is told a pattern. Files may be compressed. A line that cannot be
// read is counted, never guessed at.
//
// Logs are written as requests end; decisions were made as they began. So a Reader
// hands out records in the order of their instants, as far as that can be had from
// the last 65536 lines; what comes later than that is counted as late.
//
// # What a log does not hold
//
// A log holds no bodies and few headers. What a rule reads of a request and a log
// cannot hold is told of each rule (see [RuleReport.Notes]): the key is then what
// `missing` says, as for a request without it; a rule that would refuse all such
// requests, or that counts requests in progress where a log has no durations, is
// not judged at all. The gateway's own log holds the digests of such keys, the
// instants and the order of its decisions, and what each of them gave back. So it
// is decided again exactly as it was, unless another rule or another number is.
//
// # A worked example
//
// Under `limit: 2/m` a log with three requests of one address in one second has
// one refused: requests 3, refused 1, share 0.333, clients 1, clients refused 1.
//
// # Memory
//
// It is bounded, however long the log is: the window of lines, in their number and in
// bytes, the Tables of the rules (max_keys, max_memory), 2^18 requests in progress, and a
// table of at most 2^19 keys a rule for the figures. Of more keys than that a part is
// sampled, by their digest, and the report says so; requests and refusals are always
// counted in full.
//
// A Reader may be used by one goroutine at a time, and so may a Run.
package replay
