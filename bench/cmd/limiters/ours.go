package main

import (
	"context"
	"time"

	"gateway/limit"
)

// Every check of ours includes what a gateway does for it: the key is copied to
// scratch memory, digested under a secret, and a claim is built anew.

// clock is what the gateway reads: the wall clock once, then monotonic time.
type clock struct {
	start time.Time
	epoch limit.Instant
}

func newClock() clock {
	now := time.Now()
	return clock{now, limit.InstantOf(now)}
}

func (c *clock) now() limit.Instant { return c.epoch.Add(time.Since(c.start)) }

// step is how far a passed-in clock moves a check.
const step = 64

type newBucket func(numbers) (limit.Numbers, error)

func tokenBucket(n numbers) (limit.Numbers, error) {
	b, err := limit.NewTokenBucket(n.permits, n.per, n.permits)
	return limit.Numbers{Bucket: b, Carry: n.permits}, err
}

// algorithms are those of ours that take units from a rate.
var algorithms = []struct {
	name string
	new  newBucket
	numbers
}{
	{"token_bucket", tokenBucket, roomy},
	{"gcra", func(n numbers) (limit.Numbers, error) {
		b, err := limit.NewGCRA(n.permits, n.per, n.permits)
		return limit.Numbers{Bucket: b, Carry: n.permits}, err
	}, roomy},
	{"fixed_window", func(n numbers) (limit.Numbers, error) {
		b, err := limit.NewFixedWindow(n.permits, n.per)
		return limit.Numbers{Bucket: b}, err
	}, roomy},
	{"sliding_window", func(n numbers) (limit.Numbers, error) {
		b, err := limit.NewSlidingWindow(n.permits, n.per)
		return limit.Numbers{Bucket: b}, err
	}, roomy},
	{"sliding_window_log", func(n numbers) (limit.Numbers, error) {
		b, err := limit.NewSlidingLog(n.permits, n.per)
		return limit.Numbers{Bucket: b}, err
	}, crowd},
}

func newTable(f newBucket, n numbers, b *limit.Budget) *limit.Table {
	nums, err := f(n)
	if err != nil {
		panic(err) // our own numbers
	}
	return limit.NewTable(nums, 1<<40, b)
}

func ours(f newBucket, n numbers, passed bool) limiter {
	t := newTable(f, n, limit.NewBudget(1<<40))
	secret, clk := limit.NewSecret(), newClock()
	return limiter{
		worker: func() check {
			var l limit.Limiter
			ctx, buf, claims := context.Background(), make([]byte, 0, 256), make([]limit.Claim, 1)
			one := func(now limit.Instant, key string) bool {
				buf = append(buf[:0], key...)
				claim(&claims[0], t, secret.Digest(buf))
				_, v := l.Acquire(ctx, now, claims)
				return v.OK
			}
			if passed {
				now := clk.now()
				return func(key string) bool {
					now += step
					return one(now, key)
				}
			}
			return func(key string) bool { return one(clk.now(), key) }
		},
		sweep: func() { t.Sweep(clk.now()) },
	}
}

// claim builds a claim of one unit in c, which an earlier request may have used.
func claim(c *limit.Claim, t *limit.Table, key limit.Digest) {
	c.Table, c.Gen, c.Mode, c.Closed, c.Pending, c.Tag = t, 1, limit.Enforce, false, false, 0
	c.Key, c.N, c.Spare, c.Most = key, 1, 0, nil
}

func oursTwo(first, second numbers) func() checkTwo {
	budget := limit.NewBudget(1 << 40)
	t, u := newTable(tokenBucket, first, budget), newTable(tokenBucket, second, budget)
	secret, clk := limit.NewSecret(), newClock()
	return func() checkTwo {
		var l limit.Limiter
		ctx, buf, claims := context.Background(), make([]byte, 0, 256), make([]limit.Claim, 2)
		return func(a, b string) bool {
			buf = append(buf[:0], a...)
			claim(&claims[0], t, secret.Digest(buf))
			buf = append(buf[:0], b...)
			claim(&claims[1], u, secret.Digest(buf))
			_, v := l.Acquire(ctx, clk.now(), claims)
			return v.OK
		}
	}
}
