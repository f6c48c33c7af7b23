package upstream

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// sweepEvery is how often idle connections are looked at at least: one that its
	// server has closed holds a descriptor until then.
	sweepEvery = 10 * time.Second
	// sweepMost is how many are looked at in one go.
	sweepMost = 128
)

// links are the idle connections of a direct, by the host they were dialled for,
// and those that wait for one.
type links struct {
	mu      sync.Mutex // guards what follows
	idle    map[string]*stack
	closing bool // close what becomes idle
	sweeper *time.Timer
	armed   bool
}

// stack holds the idle connections to one host, the one used last on top, and the
// requests that dial, which take one that comes free meanwhile.
type stack struct {
	links   []*link
	seekers []*seeker
}

// seeker is a request that waits for a connection.
type seeker struct {
	got  chan *link // takes one; closed when there is none to come
	err  error      // of the dial; set before got is closed
	done bool       // guarded by links.mu
}

// get returns a connection for host: the idle one used last unless fresh, else
// the first that comes free or is made.
func (d *direct) get(ctx context.Context, host string, fresh bool, f *flight) (*link, error) {
	ls := &d.links
	ls.mu.Lock()
	ls.closing = false
	if !fresh {
		if l := d.popLocked(host, f.clock()); l != nil {
			ls.mu.Unlock()
			return l, nil
		}
	}
	w := &seeker{got: make(chan *link, 1)}
	if !fresh {
		s := ls.stack(host)
		s.seekers = append(s.seekers, w)
	}
	ls.mu.Unlock()
	f.share() // the dial may outlive it
	defer f.tick()
	// The dial goes on when the request got another connection: the next one will
	// want it.
	dialing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer cancel()
		d.connect(dialing, host, w)
	}()
	select {
	case l, ok := <-w.got:
		if ok {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, w.err
	case <-ctx.Done():
	}
	cancel()
	ls.mu.Lock()
	w.done = true
	ls.forget(host, w)
	ls.mu.Unlock()
	select {
	case l, ok := <-w.got: // just now
		if ok {
			d.put(l)
		}
	default:
	}
	return nil, context.Cause(ctx)
}

// connect makes a connection for host and gives it to w, or to who comes next.
func (d *direct) connect(ctx context.Context, host string, w *seeker) {
	c, err := d.dial(ctx, "tcp", d.address(host))
	var l *link
	if err == nil {
		l = newLink(c, host)
	}
	ls := &d.links
	ls.mu.Lock()
	taken := w.done
	if !taken {
		w.done = true
		ls.forget(host, w)
		if w.err = err; err == nil {
			w.got <- l
		} else {
			close(w.got)
		}
	}
	ls.mu.Unlock()
	if taken && err == nil {
		d.put(l)
	}
}

// put keeps l for the next request, or closes it. It reports whether it is kept.
func (d *direct) put(l *link) bool {
	l.reused = true
	now := mono()
	ls := &d.links
	ls.mu.Lock()
	s := ls.stack(l.host)
	if len(s.seekers) > 0 && !ls.closing {
		w := s.seekers[0]
		s.seekers = slices.Delete(s.seekers, 0, 1)
		w.done = true
		w.got <- l
		ls.mu.Unlock()
		return true
	}
	if ls.closing || len(s.links) >= maxIdle {
		ls.dropEmpty(l.host, s)
		ls.mu.Unlock()
		l.close()
		return false
	}
	l.since = now
	s.links = append(s.links, l)
	if !ls.armed {
		d.armLocked(d.tick())
	}
	ls.mu.Unlock()
	return true
}

// popLocked takes the idle connection to host that was used last, if one is.
func (d *direct) popLocked(host string, now int64) *link {
	s := d.links.idle[host]
	if s == nil || len(s.links) == 0 {
		return nil
	}
	top := len(s.links) - 1
	l := s.links[top]
	if d.keep > 0 && time.Duration(now-l.since) > d.keep {
		return nil // as are those below it; the sweeper is late
	}
	s.links[top] = nil
	s.links = s.links[:top]
	return l
}

// stack returns the stack of host. The caller holds mu.
func (ls *links) stack(host string) *stack {
	s := ls.idle[host]
	if s == nil {
		s = &stack{}
		if ls.idle == nil {
			ls.idle = map[string]*stack{}
		}
		ls.idle[host] = s
	}
	return s
}

// dropEmpty forgets s if there is nothing in it, so that a name whose addresses
// change leaves nothing behind. The caller holds mu.
func (ls *links) dropEmpty(host string, s *stack) {
	if len(s.links) == 0 && len(s.seekers) == 0 {
		delete(ls.idle, host)
	}
}

// forget takes w out of those that wait. The caller holds mu.
func (ls *links) forget(host string, w *seeker) {
	s := ls.idle[host]
	if s == nil {
		return
	}
	if i := slices.Index(s.seekers, w); i >= 0 {
		s.seekers = slices.Delete(s.seekers, i, i+1)
	}
}

// tick is how long the sweeper waits.
func (d *direct) tick() time.Duration {
	if d.keep > 0 {
		return min(d.keep, sweepEvery)
	}
	return sweepEvery
}

func (d *direct) armLocked(after time.Duration) {
	ls := &d.links
	ls.armed = true
	if ls.sweeper == nil {
		ls.sweeper = time.AfterFunc(after, d.sweep)
	} else {
		ls.sweeper.Reset(after)
	}
}

// sweep closes the connections that have been idle too long, and of the rest some
// of those idle longest that their servers have closed.
func (d *direct) sweep() {
	var over []*link
	now, look := mono(), sweepMost
	next := d.tick()
	ls := &d.links
	ls.mu.Lock()
	for host, s := range ls.idle {
		old := 0
		for d.keep > 0 && old < len(s.links) && time.Duration(now-s.links[old].since) >= d.keep {
			old++
		}
		over = append(over, s.links[:old]...)
		rest := s.links[old:]
		kept := s.links[:0]
		for _, l := range rest {
			if look > 0 && time.Duration(now-l.since) >= sweepEvery {
				look--
				if !l.quiet() {
					over = append(over, l)
					continue
				}
			}
			kept = append(kept, l)
		}
		clear(s.links[len(kept):])
		s.links = kept
		if len(kept) > 0 && d.keep > 0 {
			next = min(next, d.keep-time.Duration(now-kept[0].since))
		}
		ls.dropEmpty(host, s)
	}
	ls.armed = false
	if len(ls.idle) > 0 {
		d.armLocked(max(next, time.Millisecond))
	}
	ls.mu.Unlock()
	for _, l := range over {
		l.close()
	}
}

// closeIdle closes what is idle, and what becomes so until the next get.
func (ls *links) closeIdle() {
	var all []*link
	ls.mu.Lock()
	ls.closing = true
	for host, s := range ls.idle {
		all = append(all, s.links...)
		s.links = nil
		ls.dropEmpty(host, s)
	}
	if ls.sweeper != nil {
		ls.sweeper.Stop()
		ls.armed = false
	}
	ls.mu.Unlock()
	for _, l := range all {
		l.close()
	}
}
