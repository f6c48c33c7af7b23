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

// scripts are all there are.
type scripts struct {
	take, settle, forget, renew, probe *script
	// one is take for one claim of an algorithm that gives nothing back, which costs
	// the server less.
	one [limit.PatientBucket + 1]*script
	// penalty is take where refusals count, penaltyOne is one where they do.
	penalty    *script
	penaltyOne [limit.PatientBucket + 1]*script
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
	all := head + bucketLua + turnLua + bucketbackLua + queueLua + fixedLua + slidingLua + calendarLua + windowsbackLua + logLua
	s := scripts{
		take:    newScript(all + slotsLua + takeLua),
		penalty: newScript(all + slotsLua + penaltyLua + takeLua),
		settle:  newScript(all + settleLua),
		forget:  newScript(all + forgetLua),
		renew:   newScript(head + renewLua),
		probe:   newScript("redis.call('SET', KEYS[1], '1', 'PX', 1000)\nreturn redis.call('GET', KEYS[1])"),
	}
	// What is needed for the usual request comes first, and costs nothing else.
	queue := bucketLua + turnLua + onequeueLua + bucketbackLua + queueLua
	for algorithm, text := range map[limit.Algorithm][2]string{ // and what the bucket that counts refusals needs
		limit.TokenBucket:    {bucketLua + oneLua + bucketbackLua},
		limit.FixedWindow:    {fixedLua + oneLua + windowsbackLua, bucketLua},
		limit.SlidingWindow:  {slidingLua + oneLua + windowsbackLua, bucketLua},
		limit.CalendarWindow: {calendarLua + oneLua + windowsbackLua, bucketLua},
		limit.SlidingLog:     {logLua, bucketLua},
		limit.Concurrency:    {oneslotLua + slotsLua, bucketLua},
		limit.LeakyBucket:    {queue},
		limit.PatientBucket:  {queue},
	} {
		s.penaltyOne[algorithm] = newScript(head + text[0] + text[1] + penaltyLua + takeLua)
		if algorithm == limit.SlidingLog {
			text[0] = onelogLua + logLua
		}
		s.one[algorithm] = newScript(head + text[0] + takeLua)
	}
	return s
}

// forTake returns the script that takes claims.
func (s *scripts) forTake(claims []limit.Claim, a limit.Ask) *script {
	one, many := &s.one, s.take
	for i := range claims {
		if claims[i].Shared.Punishes() {
			one, many = &s.penaltyOne, s.penalty
		}
	}
	if c := &claims[0]; len(claims) == 1 && a == (limit.Ask{}) && !c.Pending {
		return one[c.Shared.Terms.Algorithm]
	}
	return many
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
