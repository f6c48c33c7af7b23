package redis

import (
	"context"
	"strings"
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

// BenchmarkServerCPU says how much processor time of the server a check takes, and
// how that compares with the best script for one rule.
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
		"best": pipelined(newScript(bestScript), []string{"best"}, []string{"1000", "1000000", "1"}),
		"gcra": pipelined(newScript(bestGCRA), []string{"gcra"}, []string{"0.001", "1000000", "1"}),
	}
	p := served(s)
	for _, set := range []set{bucket(1_000_000_000, time.Second, 1_000_000), fixed(1_000_000_000, day), sliding(1_000_000_000, time.Minute), logged(1_000_000, time.Minute),
		calendar(1_000_000_000, limit.Month, midday), leaky(1_000_000_000, time.Second, time.Second), patient(1_000_000_000, time.Second, 1_000_000, time.Second),
		bucket(1_000_000_000, time.Second, 1_000_000).punished(1000, time.Hour, time.Hour, time.Hour)} {
		r := p.rule(b, set)
		c := limit.Claim{Shared: r.shared, N: 1}
		name := "gw:{x}:" + r.shared.ID
		keys := []string{name}
		if c.Shared.Punishes() {
			keys = append(keys, name+recordSuffix)
		}
		script, args := s.scripts.forTake([]limit.Claim{c}, limit.Ask{}), []string{string(appendAsk(nil, &c, 1, &s.clock))}
		runs[strings.NewReplacer("_window", "", " ", "_").Replace(set.name)] = pipelined(script, keys, args)
	}
	// In turns, so that what else the machine does is the same for all.
	least := map[string]float64{}
	for round := range 20 {
		for name, run := range runs {
			before := used()
			run(5000)
			if took := (used() - before) / 5000 * 1e6; round > 0 && (least[name] == 0 || took < least[name]) {
				least[name] = took
			}
		}
	}
	best := min(least["best"], least["gcra"])
	for name, took := range least {
		b.ReportMetric(took, name+"-µs")
		b.ReportMetric(took/best, name+"-ratio")
	}
	for range b.N {
	}
}
