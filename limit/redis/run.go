package redis

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// How often a store that is away is tried, at most and at least: at random, so that
// many gateways do not come at one moment.
const (
	probeSoonest = 100 * time.Millisecond
	probeLatest  = 300 * time.Millisecond
)

// Start tries once to connect. A store that cannot be reached is away until Run has
// found it, and that is logged.
func (s *Store) Start(ctx context.Context) {
	done := make(chan error, 1)
	go func() { done <- s.connect() }()
	var err error
	select {
	case err = <-done:
	case <-time.After(2 * patience):
		err = context.DeadlineExceeded
	case <-ctx.Done():
		return
	}
	if err == nil {
		return
	}
	s.stats.failed(err)
	s.said.Store(time.Now().UnixNano())
	s.log.LogAttrs(context.Background(), slog.LevelWarn, "the store cannot be reached: rules do what their fail says",
		slog.Any("store", s.options.Addrs), slog.String("error", err.Error()))
}

// connect makes a client and takes it into use once the store can be written to.
func (s *Store) connect() error {
	client, err := rueidis.NewClient(s.options.client())
	if err != nil {
		return err
	}
	conn := &connection{Client: client, cluster: client.Mode() == rueidis.ClientModeCluster}
	probes := s.breakers[:1]
	if conn.cluster {
		probes = s.breakers
	}
	if err = s.probe(conn, 0); err != nil {
		client.Close()
		return err
	}
	old := s.conn.Swap(conn)
	for i := range probes {
		probes[i].close()
	}
	if old != nil {
		go old.Close() // waits for what is in flight
	}
	s.back()
	return nil
}

// probe writes a key of the slots of breaker i.
func (s *Store) probe(conn *connection, i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.scripts.probe.run(ctx, conn, []string{s.options.Prefix + ":{" + s.tags[i] + "}"}, nil).Error()
}

// Run looks after the store until ctx ends: it tries one that is away, and makes
// the leases of requests in progress longer. Then it closes what is open.
func (s *Store) Run(ctx context.Context) {
	defer func() {
		if conn := s.conn.Swap(nil); conn != nil {
			conn.Close()
		}
	}()
	probe, tidy, beat := time.NewTimer(untilProbe()), time.NewTicker(time.Second), time.NewTicker(lease/3)
	defer probe.Stop()
	defer tidy.Stop()
	defer beat.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-probe.C:
			if s.seek(failures) {
				failures = 0
			} else {
				failures++
			}
			probe.Reset(untilProbe())
		case <-tidy.C:
			s.giveUp()
		case <-beat.C:
			s.renew()
		}
	}
}

func untilProbe() time.Duration {
	return probeSoonest + rand.N(probeLatest-probeSoonest)
}

// anew is after how many failures a new client is made, which looks its servers up
// again.
const anew = 4

// seek tries all that is away, and reports whether nothing is any more.
func (s *Store) seek(failures int) bool {
	conn := s.conn.Load()
	if conn == nil {
		return s.connect() == nil
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	left, open := 0, 0
	for i := range s.breakers {
		b := &s.breakers[i]
		if !b.down.Load() {
			continue
		}
		left++
		wg.Go(func() {
			if s.probe(conn, i) != nil {
				return
			}
			b.close()
			mu.Lock()
			open++
			mu.Unlock()
		})
	}
	wg.Wait()
	switch {
	case left == open:
		if left > 0 {
			s.back()
		}
		return true
	case open == 0 && failures%anew == anew-1:
		return s.connect() == nil
	}
	return false
}

// giveUp gives back the leases that the store may have after all.
func (s *Store) giveUp() {
	conn := s.conn.Load()
	if conn == nil || s.lost.Load() != 0 {
		return
	}
	doubts := s.leases.doubts()
	if len(doubts) == 0 {
		return
	}
	cmds := make(rueidis.Commands, 0, len(doubts))
	for _, d := range doubts {
		cmds = append(cmds, conn.B().Zrem().Key(d.key).Member(s.members(d.lease, d.slots)...).Build())
	}
	s.batch(conn, cmds)
}

// members returns what a lease for n slots is called in the store.
func (s *Store) members(lease uint64, n int64) []string {
	names := make([]string, 0, n)
	id := string(appendLease(nil, s.process, lease))
	for i := range n {
		names = append(names, id+strconv.FormatInt(i+1, 10))
	}
	return names
}

// leasesEach is how many leases are made longer in one call.
const leasesEach = 200

// renew makes all leases longer. One that has ended meanwhile, so that its slots
// were given back before they were taken anew, is given back again.
func (s *Store) renew() {
	conn := s.conn.Load()
	if conn == nil || s.lost.Load() != 0 {
		return
	}
	for key, list := range s.leases.byKey() {
		for len(list) > 0 {
			part := list[:min(len(list), leasesEach)]
			list = list[len(part):]
			var names []string
			for _, l := range part {
				if n, ok := s.leases.holds(l); ok {
					names = append(names, s.members(l, n)...)
				}
			}
			if len(names) == 0 {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			s.scripts.renew.run(ctx, conn, []string{key}, names)
			cancel()
			for _, l := range part {
				if _, ok := s.leases.holds(l); !ok {
					s.leases.doubt(key, l, 1)
				}
			}
		}
	}
}

// batch sends commands together; what becomes of them does not matter.
func (s *Store) batch(conn *connection, cmds rueidis.Commands) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn.DoMulti(ctx, cmds...)
}
