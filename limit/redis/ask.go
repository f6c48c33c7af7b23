package redis

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"

	"gateway/limit"
)

// Flags of a claim in a script's argument.
const (
	flagDry     = 1
	flagPending = 2
	flagUnused  = 4 // of a settlement alone
	flagPenalty = 8
)

// recordSuffix is what the name of a counter's penalty record ends with.
const recordSuffix = "!"

// appendKey appends the name of the counter of a key: prefix:{digest}:name. The
// part in braces picks the slot, so that all that counts one key is in one.
func appendKey(out []byte, prefix string, s *limit.Shared, d limit.Digest) []byte {
	out = append(append(out, prefix...), ":{"...)
	out = appendTag(out, d)
	return append(append(out, "}:"...), s.ID...)
}

// appendTag appends the 22 characters for a digest.
func appendTag(out []byte, d limit.Digest) []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], d.Hi)
	binary.BigEndian.PutUint64(b[8:], d.Lo)
	return base64.RawURLEncoding.AppendEncode(out, b[:])
}

func appendNumber(out []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(n)))
}

// appendTerms appends n, w, burst and grain, or, of a window of the calendar, in
// the places of n, w and grain the edges of two at the time of the store: it says
// whether it is in one of them.
func appendTerms(out []byte, t limit.Terms, c *clock) []byte {
	if t.Algorithm == limit.CalendarWindow {
		edges := t.Zone.Edges(t.Span, c.there())
		out = appendNumber(out, micros(edges[0]))
		out = appendNumber(out, micros(edges[1]))
		out = appendNumber(out, t.Burst)
		return appendNumber(out, micros(edges[2]))
	}
	out = appendNumber(out, t.N)
	out = appendNumber(out, t.W)
	out = appendNumber(out, t.Burst)
	return appendNumber(out, int64(t.Grain/time.Microsecond))
}

func flags(c *limit.Claim) (f byte) {
	if c.Mode == limit.DryRun {
		f |= flagDry
	}
	if c.Pending {
		f |= flagPending
	}
	if c.Shared.Punishes() {
		f |= flagPenalty
	}
	return f
}

// appendAsk appends what take.lua is asked of a claim: algorithm, flags, units, n,
// w, burst, grain; of one of requests in progress its lease, and of one that lets them
// wait how many units fit, and parts of one; and of one whose refusals count n, w,
// burst and grain of what they are counted in, the first block and the longest one.
func appendAsk(out []byte, c *limit.Claim, process uint64, clock *clock) []byte {
	t := c.Shared.Terms
	out = append(out, byte(t.Algorithm), flags(c))
	out = appendNumber(out, c.N)
	out = appendTerms(out, t, clock)
	switch {
	case t.Algorithm == limit.Concurrency:
		out = appendLease(out, process, c.Receipt.Lease)
	case waits(t.Algorithm):
		out = appendNumber(appendNumber(out, t.Whole), t.Extra)
	}
	if c.Shared.Punishes() {
		p := &c.Shared.Penalty
		out = appendTerms(out, p.After, clock)
		out = appendNumber(out, p.Block.Microseconds())
		out = appendNumber(out, p.Max.Microseconds())
	}
	return out
}

// waits says that an algorithm lets requests wait for their turn.
func waits(a limit.Algorithm) bool { return a == limit.LeakyBucket || a == limit.PatientBucket }

// appendWay appends how take.lua is to go about it, unless that is as usual: "p" to take
// nothing, "c" to take nothing and count a refusal, else "t"; and how many microseconds the request has to wait anyway, or -1
// when it must have to.
func appendWay(args []string, a limit.Ask) []string {
	what, turn := "t", int64((a.Turn+time.Microsecond-1)/time.Microsecond)
	switch a.Intent {
	case limit.ToLook:
		what = "p"
	case limit.ToTry:
		what = "c"
	}
	if a.MustWait {
		turn = -1
	}
	switch {
	case turn != 0:
		return append(args, what, strconv.FormatInt(turn, 10))
	case what != "t":
		return append(args, what)
	}
	return args
}

// appendLease appends the name of a lease: that of the process, and a number.
func appendLease(out []byte, process, lease uint64) []byte {
	out = binary.BigEndian.AppendUint64(out, process)
	return binary.BigEndian.AppendUint64(out, lease)
}

// appendSettlement appends what settle.lua is asked of a claim, of which n units
// come back.
func appendSettlement(out []byte, c *limit.Claim, n int64, clock *clock) []byte {
	t, r := c.Shared.Terms, c.Shared.Refunds
	f := flags(c)
	if c.Receipt.Unused {
		f |= flagUnused
	}
	out = append(out, byte(t.Algorithm), f)
	out = appendNumber(out, n)
	out = appendNumber(out, c.N)
	out = appendTerms(out, t, clock)
	out = appendNumber(out, c.Receipt.At)
	out = appendNumber(out, c.Receipt.Born)
	out = appendNumber(out, r.Burst)
	out = appendNumber(out, r.W*int64(r.Grain/time.Microsecond))
	if waits(t.Algorithm) {
		out = appendNumber(appendNumber(out, t.Whole), c.Receipt.Ahead)
	}
	return out
}

// answerBytes is what take.lua says of each claim, waitBytes what it adds of one that
// lets requests wait.
const (
	answerBytes = 1 + 5*8
	waitBytes   = 8
)

var errAnswer = errors.New("an answer that cannot be read")

// What the first byte of an answer to a claim says; anything else is a refusal.
const (
	hasRoom   = 1
	isBlocked = 2
)

// readAnswer fills in what take.lua said of claims. A wrongTime is an error.
func readAnswer(answer string, claims []limit.Claim) (passes bool, err error) {
	size := 1 + answerBytes*len(claims)
	for i := range claims {
		if waits(claims[i].Shared.Terms.Algorithm) {
			size += waitBytes
		}
	}
	if len(answer) != size {
		return false, errAnswer
	}
	passes, answer = answer[0] == '1', answer[1:]
	for i := range claims {
		c, a := &claims[i], answer
		answer = answer[answerBytes:]
		if waits(c.Shared.Terms.Algorithm) {
			c.Receipt.Ahead, answer = number(answer), answer[waitBytes:]
		}
		c.Result = limit.Result{
			OK: a[0] == hasRoom, Remaining: number(a[1:]), Wait: span(number(a[9:])), Reset: max(0, span(number(a[17:]))),
		}
		c.Receipt.At, c.Receipt.Born = number(a[25:]), number(a[33:])
		if c.Blocked = a[0] == isBlocked; c.Blocked {
			c.Receipt.Block = span(c.Receipt.At)
		}
		if c.Result.Remaining < 0 {
			err = wrongTime(c.Receipt.At)
		}
	}
	return passes, err
}

func number(s string) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(s[:8]))))
}

// span returns a time that a script has said, in microseconds; -1 is never.
func span(us int64) time.Duration {
	if us < 0 {
		return limit.Never
	}
	return time.Duration(min(us, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
}
