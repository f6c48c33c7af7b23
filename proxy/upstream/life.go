package upstream

import (
	"context"
	"sync"
)

// life is what runs for a pool beside its requests. The zero life has not begun.
type life struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil before Start
	ended  bool
	work   sync.WaitGroup
}

// Start begins the checks of the servers' health and the look-ups of their
// names, as far as the file wants any; Close ends them. A pool without either
// starts nothing. To start it again changes nothing, and a pool that is closed
// stays so.
func (p *Pool) Start() {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	if p.life.cancel != nil || p.life.ended {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.life.cancel = cancel
	for _, s := range p.servers {
		if p.spec.Health.Path != "" {
			p.life.work.Go(func() { p.watch(ctx, s) })
		}
		if s.names != nil {
			p.life.work.Go(func() { p.follow(ctx, s) })
		}
	}
}

// Close ends what Start began and waits for it, then drops the idle connections,
// and each other one as its request ends. What is in flight goes on; the pool
// stays usable, with what was last known of its servers.
func (p *Pool) Close() {
	p.life.mu.Lock()
	p.life.ended = true
	if p.life.cancel != nil {
		p.life.cancel()
	}
	p.life.mu.Unlock()
	p.life.work.Wait()
	for _, s := range p.servers {
		for _, t := range s.transports() {
			t.CloseIdleConnections()
		}
		if s.h1direct != nil {
			s.h1direct.CloseIdleConnections()
		}
	}
}
