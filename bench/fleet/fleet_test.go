package fleet

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gateway/limit"
)

// The limit of each client, and what they want: each gateway gets this many requests
// a second, of clients drawn at random.
const (
	permits = 600 // a minute
	burst   = 100
	clients = 20
	demand  = 100 // a second at each gateway
	span    = 3 * time.Second
	timeout = 50 * time.Millisecond
)

// outcome is what came of a run.
type outcome struct {
	requests, admitted, over, commands, local int64
}

// run lets so many gateways serve for the span. closed says that a request passes
// only if the store says so; otherwise a gateway without an answer counts for itself,
// with its share.
func run(t *testing.T, gateways int, net network, closed bool) (out outcome) {
	synctest.Test(t, func(t *testing.T) {
		whole := bucket(t, 1)
		shared, err := limit.NewShared("rule", whole)
		if err != nil {
			t.Fatal(err)
		}
		store := &server{table: limit.NewTable(whole, 1<<20, limit.NewBudget(1<<30))}
		var admitted [clients]atomic.Int64
		var requests, local atomic.Int64
		var wg sync.WaitGroup
		begun := time.Now()
		for range gateways {
			wg.Go(func() {
				l := limit.Limiter{Store: &link{network: net, to: store, timeout: timeout}}
				// As the gateway has it: a share of the limit, rounded up.
				table := limit.NewTable(bucket(t, int64(gateways)), 1<<20, limit.NewBudget(1<<30))
				skew := time.Duration(rand.Int64N(int64(20*time.Second))) - 10*time.Second
				time.Sleep(rand.N(time.Second / demand)) // of the bubble's clock, so that they do not ask in step
				var inFlight sync.WaitGroup
				for time.Since(begun) < span {
					inFlight.Go(func() {
						client := rand.IntN(clients)
						claims := []limit.Claim{{Table: table, Gen: 1, Key: key(client), N: 1, Shared: shared, Closed: closed}}
						_, v := l.Acquire(context.Background(), limit.InstantOf(time.Now().Add(skew)), claims)
						requests.Add(1)
						if v.OK {
							admitted[client].Add(1)
							if claims[0].Fate == limit.Here {
								local.Add(1)
							}
						}
					})
					time.Sleep(time.Second / demand) // the pace, by the bubble's clock
				}
				inFlight.Wait()
			})
		}
		wg.Wait()
		out = outcome{requests: requests.Load(), commands: store.commands.Load(), local: local.Load()}
		most := burst + int64(permits*time.Since(begun)/time.Minute)
		for i := range admitted {
			n := admitted[i].Load()
			out.admitted += n
			out.over = max(out.over, n-most)
		}
	})
	return out
}

// bucket returns the limit, divided by n and rounded up.
func bucket(t testing.TB, n int64) limit.Numbers {
	b, err := limit.NewTokenBucket((permits-1)/n+1, time.Minute, (burst-1)/n+1)
	if err != nil {
		t.Fatal(err)
	}
	return limit.Numbers{Bucket: b, Carry: (burst-1)/n + 1}
}

var secret = limit.Secret{7}

func key(client int) limit.Digest {
	return secret.Digest(binary.BigEndian.AppendUint64(nil, uint64(client)))
}

// As a fleet grows it admits its limit and no more, and the store is asked far less
// often than requests come, since those that were refused are not asked for again.
// Where messages get lost, a gateway without an answer counts for itself, if it may:
// that is the price of not refusing, and each gateway's share bounds it.
func TestFleet(t *testing.T) {
	lan, lossy := network{latency: 500 * time.Microsecond}, network{latency: 5 * time.Millisecond, loss: 0.01}
	t.Log("| gateways | network | fail | requests/s | admitted of the limit | over, worst client | store commands/s | a request |")
	t.Log("|---|---|---|---|---|---|---|---|")
	for _, gateways := range []int{10, 100, 1000} {
		for _, c := range []struct {
			name   string
			net    network
			closed bool
		}{{"0.5 ms", lan, false}, {"5 ms, 1 % lost", lossy, true}, {"5 ms, 1 % lost", lossy, false}} {
			o := run(t, gateways, c.net, c.closed)
			fail := "local"
			if c.closed {
				fail = "closed"
			}
			seconds := span.Seconds()
			limited := clients * (burst + permits*seconds/60)
			t.Logf("| %d | %s | %s | %.0f | %.0f %% | %d | %.0f | %.2f |", gateways, c.name, fail, float64(o.requests)/seconds,
				100*float64(o.admitted)/limited, max(0, o.over), float64(o.commands)/seconds, float64(o.commands)/float64(o.requests))
			switch {
			case c.net.loss == 0 && (o.over > 0 || o.local > 0), c.closed && o.over > 0:
				t.Errorf("%d gateways, %s, fail: %s: %d more than the limit, %d counted by a gateway alone", gateways, c.name, fail, o.over, o.local)
			case o.over > o.local:
				t.Errorf("%d gateways, %s: %d more than the limit, of which gateways alone let through %d", gateways, c.name, o.over, o.local)
			}
			if o.commands > o.requests {
				t.Errorf("%d gateways, %s: %d commands for %d requests", gateways, c.name, o.commands, o.requests)
			}
		}
	}
}
