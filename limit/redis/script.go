package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"gateway/limit"
)

//go:embed common.lua
var commonLua string

//go:embed bucket.lua
var bucketLua string

//go:embed bucketback.lua
var bucketbackLua string

//go:embed fixed.lua
var fixedLua string

//go:embed sliding.lua
var slidingLua string

//go:embed windowsback.lua
var windowsbackLua string

//go:embed log.lua
var logLua string

//go:embed calendar.lua
var calendarLua string

//go:embed penalty.lua
var penaltyLua string

//go:embed slots.lua
var slotsLua string

//go:embed turn.lua
var turnLua string

//go:embed queue.lua
var queueLua string

//go:embed one.lua
var oneLua string

//go:embed onelog.lua
var onelogLua string

//go:embed onequeue.lua
var onequeueLua string

//go:embed few.lua
var fewLua string

//go:embed oneslot.lua
var oneslotLua string

//go:embed take.lua
var takeLua string

//go:embed settle.lua
var settleLua string

//go:embed forget.lua
var forgetLua string

//go:embed renew.lua
var renewLua string

// script is a script and its name at the server.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// scripts are all there are. What is for one algorithm alone costs the server less,
// which makes all functions of a script anew in each call.
type scripts struct {
	take, penalty, forget, renew, probe *script
	// each is for one claim, by its algorithm.
	each [limit.PatientBucket + 1]perAlgorithm
	// few is take for several claims of algorithms whose states are strings, of which
	// none gives anything back.
	few *script
}

// perAlgorithm are the scripts for one claim of an algorithm.
type perAlgorithm struct {
	// one is for a claim that gives nothing back and is taken, any for all others but
	// those that have to wait for another's turn. oneOfPenalty is for both where
	// refusals count.
	one, any, oneOfPenalty, settle *script
	// few is for several claims of this algorithm. It is nil where its state is no string.
	few *script
}

// lease is how long a slot is held by a gateway that says no more of it; slack how
// much longer than its use a key lives.
const (
	lease = 45 * time.Second
	slack = time.Second
)

// serverTime is the server's clock, in microseconds.
const serverTime = "local now = redis.call('TIME')\nnow = now[1] * 1000000 + now[2]\n"

// newScripts returns the scripts with a time that this text makes.
func newScripts(clock string, slack time.Duration) scripts {
	head := fmt.Sprintf("%slocal slack, lease = %d, %d\n", clock, slack.Milliseconds(), lease.Microseconds()) + commonLua
	all := head + bucketLua + turnLua + bucketbackLua + queueLua + fixedLua + slidingLua + calendarLua + windowsbackLua + logLua + slotsLua
	few := bucketLua + fixedLua + slidingLua + calendarLua + fewLua + bucketbackLua + windowsbackLua
	s := scripts{
		take:    newScript(all + takeLua),
		penalty: newScript(all + penaltyLua + takeLua),
		forget:  newScript(all + forgetLua),
		renew:   newScript(head + renewLua),
		probe:   newScript("redis.call('SET', KEYS[1], '1', 'PX', 1000)\nreturn redis.call('GET', KEYS[1])"),
		few:     newScript(head + few + takeLua),
	}
	// The usual request is decided by one, which needs what is before it; what is
	// behind it costs it nothing.
	for algorithm, t := range map[limit.Algorithm]struct{ before, one, behind string }{
		limit.TokenBucket:    {bucketLua, oneLua, bucketbackLua},
		limit.FixedWindow:    {fixedLua, oneLua, windowsbackLua},
		limit.SlidingWindow:  {slidingLua, oneLua, windowsbackLua},
		limit.CalendarWindow: {calendarLua, oneLua, windowsbackLua},
		limit.SlidingLog:     {"", onelogLua, logLua},
		limit.Concurrency:    {"", oneslotLua, slotsLua},
		limit.LeakyBucket:    {bucketLua + turnLua, onequeueLua, bucketbackLua + queueLua},
		limit.PatientBucket:  {bucketLua + turnLua, onequeueLua, bucketbackLua + queueLua},
	} {
		each := &s.each[algorithm]
		each.one = newScript(head + t.before + t.one + t.behind + takeLua)
		each.any = newScript(head + t.before + t.behind + takeLua)
		each.settle = newScript(head + t.before + t.behind + settleLua)
		if t.one == oneLua {
			each.few = newScript(head + t.before + fewLua + t.behind + takeLua)
		}
		if t.before == "" || t.one == oneLua && algorithm != limit.TokenBucket {
			t.behind += bucketLua // which refusals are counted in
		}
		each.oneOfPenalty = newScript(head + t.before + t.one + t.behind + penaltyLua + takeLua)
	}
	return s
}

// forTake returns the script that takes claims.
func (s *scripts) forTake(claims []limit.Claim, a limit.Ask) *script {
	first := claims[0].Shared.Terms.Algorithm
	usual, same, few, punished := a == (limit.Ask{}), true, true, false
	for i := range claims {
		c := &claims[i]
		each := &s.each[c.Shared.Terms.Algorithm]
		usual, same = usual && !c.Pending, same && c.Shared.Terms.Algorithm == first
		few, punished = few && each.few != nil, punished || c.Shared.Punishes()
	}
	each, alone := &s.each[first], len(claims) == 1 && a.Turn == 0 && !a.MustWait
	switch {
	case punished && alone && usual:
		return each.oneOfPenalty
	case punished:
		return s.penalty
	case alone && usual:
		return each.one
	case alone:
		return each.any
	case few && usual && same:
		return each.few
	case few && usual:
		return s.few
	}
	return s.take
}

// run calls a script once. A server that does not know it has not run it, and gets
// its text.
func (s *script) run(ctx context.Context, c rueidis.Client, keys, args []string) rueidis.RedisResult {
	r := c.Do(ctx, c.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
		r = c.Do(ctx, c.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	return r
}
