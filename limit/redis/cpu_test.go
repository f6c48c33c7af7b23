package redis

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// bestScript is about the least that a token bucket takes: one rule, one algorithm,
// one answer, in floats, which drift. What ours costs above it is the price of the
// rest: exact numbers, several rules, edits.
const bestScript = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local rate, burst, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local s = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(s[1]), tonumber(s[2])
if tokens then tokens = math.min(burst, tokens + (now - at) * rate) else tokens = burst end
local ok = tokens >= n
if ok then tokens = tokens - n end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil((burst - tokens) / rate / 1000) + 1000)
return { ok and 1 or 0, tostring(tokens) }`

// bestGCRA is the same in one number, which is what the fastest of those in use do.
const bestGCRA = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local each, burst, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + n * each
local room = now - (new - burst * each)
if room < 0 then return { 0, 0, tostring(-room), tostring(tat - now) } end
redis.call('SET', KEYS[1], new, 'PX', math.ceil((new - now) / 1000) + 1)
return { n, math.floor(room / each), '-1', tostring(new - now) }`

// bestSlots is about the least that requests in progress take, one by one.
const bestSlots = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local used = redis.call('ZCARD', KEYS[1])
if used >= tonumber(ARGV[1]) then return { 0, used } end
redis.call('ZADD', KEYS[1], now + 45000000, ARGV[2])
redis.call('PEXPIRE', KEYS[1], 46000)
return { 1, used + 1 }`

// BenchmarkServerCPU says how much processor time of the server a check takes, and
// how that compares with the best script for one rule: bestScript or bestGCRA, whatever
// takes less, or bestSlots. All are called in turn, so that what else the machine does
// is the same for all, and the ratios are medians of those of each round.
func BenchmarkServerCPU(b *testing.B) {
	server := redistest.Start(b)
	s := open(b, options(server.Addr))
	conn := s.conn.Load()
	used := func() float64 { return server.Figure("cpu", "used_cpu_user") + server.Figure("cpu", "used_cpu_sys") }
	pipelined := func(script *script, keys, args []string) func(int) {
		return func(n int) {
			for n > 0 {
				var cmds rueidis.Commands
				for range min(n, 100) {
					cmds = append(cmds, conn.B().Evalsha().Sha1(script.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
				}
				script.run(context.Background(), conn, keys, args)
				for _, r := range conn.DoMulti(context.Background(), cmds...) {
					if r.Error() != nil {
						b.Fatal(r.Error())
					}
				}
				n -= len(cmds)
			}
		}
	}
	runs := map[string]func(int){
		"best":       pipelined(newScript(bestScript), []string{"best"}, []string{"1000", "1000000", "1"}),
		"gcra":       pipelined(newScript(bestGCRA), []string{"gcra"}, []string{"0.001", "1000000", "1"}),
		"best_slots": pipelined(newScript(bestSlots), []string{"slots"}, []string{"1000", "123456789012345671"}),
	}
	p := served(s)
	add := func(name string, sets ...set) {
		var claims []limit.Claim
		var keys, records, args []string
		for _, set := range sets {
			c := limit.Claim{Shared: p.rule(b, set).shared, N: 1}
			claims = append(claims, c)
			keys = append(keys, "gw:{x}:"+c.Shared.ID)
			if c.Shared.Punishes() {
				records = append(records, keys[len(keys)-1]+recordSuffix)
			}
			args = append(args, string(appendAsk(nil, &c, 1, &s.clock)))
		}
		runs[name] = pipelined(s.scripts.forTake(claims, limit.Ask{}), append(keys, records...), args)
	}
	tokens, queue := bucket(1_000_000_000, time.Second, 1_000_000), leaky(1_000_000_000, time.Second, time.Second)
	add("token_bucket", tokens)
	add("fixed", fixed(1_000_000_000, day))
	add("sliding", sliding(1_000_000_000, time.Minute))
	add("sliding_log", logged(1_000_000, time.Minute))
	add("calendar", calendar(1_000_000_000, limit.Month, midday))
	add("leaky_bucket", queue)
	add("max_wait", patient(1_000_000_000, time.Second, 1_000_000, time.Second))
	add("concurrency", slotsOf(1000))
	add("token_bucket_penalty", tokens.punished(1000, time.Hour, time.Hour, time.Hour))
	add("leaky_bucket_penalty", queue.punished(1000, time.Hour, time.Hour, time.Hour))
	add("two_token_buckets", tokens, tokens)
	took := map[string][]float64{}
	for round := range 25 {
		for name, run := range runs {
			before := used()
			if run(4000); round > 0 { // the first makes the keys
				took[name] = append(took[name], (used()-before)/4000*1e6)
			}
		}
	}
	best := "gcra"
	if median(took["best"]) < median(took["gcra"]) {
		best = "best"
	}
	for name, each := range took {
		than := took[best]
		if name == "concurrency" {
			than = took["best_slots"]
		}
		var ratios []float64
		for i := range each {
			ratios = append(ratios, each[i]/than[i])
		}
		b.ReportMetric(median(each), name+"-µs")
		b.ReportMetric(median(ratios), name+"-ratio")
	}
	for range b.N {
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
