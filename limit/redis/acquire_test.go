package redis

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"gateway/limit"
	"gateway/limit/redis/redistest"
)

// BenchmarkAcquire says how much processor time a check of two rules takes, here and at
// the server, with one request at a time and with as many as 64.
func BenchmarkAcquire(b *testing.B) {
	server := redistest.Start(b)
	s := open(b, options(server.Addr))
	p := served(s)
	tokens := bucket(1_000_000, time.Second, 1_000_000)
	one, two := p.rule(b, tokens), p.rule(b, tokens)
	theirs := func() float64 { return server.Figure("cpu", "used_cpu_user") + server.Figure("cpu", "used_cpu_sys") }
	for _, at := range []int{1, 64} {
		b.Run(fmt.Sprint(at), func(b *testing.B) {
			b.ReportAllocs()
			begun, had := mine(b), theirs()
			var wg sync.WaitGroup
			for i := range at {
				wg.Go(func() {
					claims := make([]limit.Claim, 2)
					for range (b.N + at - 1 - i) / at {
						claims[0], claims[1] = one.claim(key(1), 1), two.claim(key(2), 1)
						if _, v, _ := p.ask(now(), claims...); !v.OK || claims[0].Fate != limit.There {
							b.Error("not let through by the store")
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric((mine(b)-begun)/float64(b.N)*1e6, "here-µs/op")
			b.ReportMetric((theirs()-had)/float64(b.N)*1e6, "server-µs/op")
		})
	}
}

// A check of two rules allocates its own command and the answer, and nothing else.
func TestACheckAllocatesLittle(t *testing.T) {
	p := served(open(t, options(redistest.Start(t).Addr)))
	tokens := bucket(1_000_000, time.Second, 1_000_000)
	one, two := p.rule(t, tokens), p.rule(t, tokens)
	claims := make([]limit.Claim, 2)
	if n := testing.AllocsPerRun(2000, func() {
		claims[0], claims[1] = one.claim(key(1), 1), two.claim(key(2), 1)
		p.ask(now(), claims...)
	}); n > 4 {
		t.Errorf("%v allocations a check, want 2, and 4 at most where pools are emptied meanwhile", n)
	}
}

// mine is the processor time of this process, in seconds.
func mine(t testing.TB) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
