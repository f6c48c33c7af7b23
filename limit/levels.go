package limit

// Level is what one key of a Table has used at one instant, as it is kept over a
// restart. It says nothing of the numbers of the limit.
type Level struct {
	// Key is the digest of the key. With Shared it is no key's.
	Key Digest
	// Shared is 0, or the number of a counter, from 1 on, that clients share for whom
	// a full Table has no place.
	Shared uint8
	// At, Used and Rem are as in State.
	At   Instant
	Used int64
	Rem  uint64
	// Refunded is what has come back in a period, where that is bounded.
	Refunded Refunded
	// Punished is what a penalty remembers of the key.
	Punished Punished
	// Taken are the instants of the units of a sliding log, the oldest first; nil for
	// every other algorithm.
	Taken []Taken
}

// Refunded is At, Used and Rem of what has come back to a key.
type Refunded struct {
	At   Instant
	Used int64
	Rem  uint64
}

// Punished is what is remembered of a key's refusals and blocks; the zero Punished is
// nothing.
type Punished struct {
	// At, Used and Rem are the State of Penalty.After.
	At   Instant
	Used int64
	Rem  uint64
	// Doublings are those of the next block, Until is the end of the last one, and
	// Quiet is the instant from which the time counts that takes a doubling back.
	Doublings    uint32
	Until, Quiet Instant
}

// Taken are units that were taken at one instant.
type Taken struct {
	At    Instant
	Units int64
}

// Levels passes the level at now of every key that is not idle to yield, until
// that returns false. Requests in progress are no levels: of a Table of those there is
// only what a penalty remembers.
// A shard at a time is copied under its lock; what comes or goes meanwhile may
// be seen or not. yield must not keep the Level.
func (t *Table) Levels(now Instant, yield func(*Level) bool) {
	var l Level
	for i := range t.sharedLevels() {
		if t.sharedLevel(i, now, &l) && !yield(&l) {
			return
		}
	}
	var keys []Digest
	var levels []Level
	for pos, over := uint64(0), false; !over && t.shards() > 0; {
		s := t.lock(Digest{Hi: pos})
		if s == nil {
			return
		}
		if n := int(s.n); n > max(cap(keys), cap(levels)) { // made where no check waits
			s.mu.Unlock()
			if t.listed {
				keys = make([]Digest, 0, n+n/4)
			} else {
				levels = make([]Level, 0, n+n/4)
			}
			continue
		}
		at := max(now, s.latest)
		keys, levels = keys[:0], levels[:0]
		for i := range s.slots {
			k := s.slots[i].key
			switch {
			case k == (Digest{}) || k.Hi < pos: // of a half that has been joined meanwhile
			case t.listed: // whose lists are long: they are copied one by one
				keys = append(keys, k)
			default:
				if l, ok := t.level(k, s.homeAt(i), s.recordAt(i), at); ok {
					levels = append(levels, l)
				}
			}
		}
		pos = s.after(pos)
		over = pos == 0
		s.mu.Unlock()
		for i := range levels {
			if !yield(&levels[i]) {
				return
			}
		}
		for _, k := range keys {
			if l, ok := t.levelOf(k, now); ok && !yield(&l) {
				return
			}
		}
	}
}

// levelOf returns the level of one key.
func (t *Table) levelOf(k Digest, now Instant) (l Level, ok bool) {
	s := t.lock(k)
	if s == nil {
		return l, false
	}
	defer s.mu.Unlock()
	i, ok := s.find(k)
	if !ok {
		return l, false
	}
	return t.level(k, s.homeAt(i), s.recordAt(i), max(now, s.latest))
}

// recordAt returns what is remembered of the refusals of the key at place i, or nil.
func (s *shard) recordAt(i int) *record {
	records := s.records()
	if records == nil {
		return nil
	}
	return &records[i]
}

// level returns the level at now of what lives in h, whose lock is held, and of which r
// is remembered. It is not ok for what is idle.
func (t *Table) level(k Digest, h home, r *record, now Instant) (l Level, ok bool) {
	st, g := t.convert(*h.st)
	h.put(st)
	punished := r != nil && !r.clean(g, now)
	if punished {
		s := r.refusals(g)
		l.Punished = Punished{At: s.At, Used: s.Used, Rem: s.Rem, Doublings: r.level, Until: r.until, Quiet: r.quiet}
	}
	if l.Key = k; g.nums.Slots {
		return l, punished
	}
	if h.list != nil {
		*h.st, _ = g.take(*h.st, h.list, now, 0) // which drops what is too old from the list
		st = *h.st
	} else {
		st, _ = g.take(st, nil, now, 0)
	}
	if !punished && g.idle(st, h.side, now) {
		return l, false
	}
	l.At, l.Used, l.Rem = st.At, st.Used, st.Rem
	if h.side != nil && g.nums.Refunds != nil {
		r, _ := g.nums.Refunds.Take(h.side.refunds, now, 0)
		l.Refunded = Refunded{r.At, r.Used, r.Rem}
	}
	if h.list != nil {
		l.Taken = make([]Taken, 0, h.list.n)
		for i := range h.list.n {
			if e := h.list.at(i); e.units > 0 {
				l.Taken = append(l.Taken, Taken{e.at, e.units})
			}
		}
	}
	return l, true
}

// sharedLevels returns how many counters are shared by those without a place.
func (t *Table) sharedLevels() int {
	if t.spill.Load() == nil {
		return 0
	}
	return overflows
}

func (t *Table) sharedLevel(i int, now Instant, l *Level) (ok bool) {
	o := &t.spill.Load()[i]
	o.mu.Lock()
	defer o.mu.Unlock()
	*l, ok = t.level(Digest{}, o.home(t.listed), nil, max(now, o.latest))
	l.Shared = uint8(i + 1)
	return ok
}

// Past says when levels were kept, and how they are to be understood.
type Past struct {
	// Saved is when Levels was called, by the clock of its time.
	Saved Instant
	// Same says that the Numbers were those of the Table. Without it only whole units
	// count, rounded up, and no more than the Numbers hold. SamePenalty says so of
	// Numbers.Penalty alone, which is not meant by Same.
	Same, SamePenalty bool
}

// Restore puts back the level of a key that the Table does not know yet, with the
// time applied that went by since p.Saved. A clock that went back meanwhile lets
// no time go by: what lies in the future counts from now. It returns false when
// there is no place for the key. A level that is idle by now needs none.
func (t *Table) Restore(l *Level, p Past, now Instant) bool {
	if slots := t.newest.Load().nums.Slots; l.Shared > overflows || slots && (l.Shared > 0 || l.Punished == Punished{}) {
		return false
	}
	if l.Shared > 0 {
		o := t.overflow(Digest{Lo: uint64(l.Shared - 1)})
		o.mu.Lock()
		defer o.mu.Unlock()
		g := t.newest.Load()
		if st := g.restored(l, p, now); o.state.Used <= 0 && !g.nums.Bucket.Idle(st, now) {
			st.Born = t.born.Add(1)
			t.fill(o.home(t.listed), g, st, l, p, now)
		}
		return true
	}
	for lack := (lacks{}); ; {
		s := t.lock(l.Key)
		if s == nil {
			return false
		}
		if _, found := s.find(l.Key); found || l.Key == (Digest{}) {
			s.mu.Unlock()
			return true
		}
		at := max(now, s.latest)
		c := Claim{Table: t, Key: l.Key, Result: Result{OK: true}, s: s, gen: t.newest.Load(), at: at, lacks: lack}
		c.next = c.gen.restored(l, p, at)
		refunded := l.Refunded.Used > 0 && c.gen.nums.Refunds != nil
		punished, clean := c.gen.punished(l, p, at)
		c.Pending = refunded || !clean // it is remembered without a unit in use, too
		w := c.needs()
		if !refunded {
			w.beside = 0
		}
		if !clean {
			w.beside |= c.lacking(true, hasRecords)
		}
		if w.ring = 0; w != (want{}) {
			s.mu.Unlock()
			c.supply(w)
			lack = c.lacks
			continue
		}
		there := c.findPlace() == placed
		if there && c.taken.stored {
			c.Pending = refunded
			c.store(now)
			t.fill(s.homeAt(int(c.place)), c.gen, s.slots[c.place].st, l, p, at)
			if r := s.recordAt(int(c.place)); !clean && r != nil {
				*r = punished
			} else if !clean {
				there = false
			}
		}
		s.mu.Unlock()
		return there
	}
}

// fill puts st in h, and what l has beside a State.
func (t *Table) fill(h home, g *generation, st State, l *Level, p Past, now Instant) {
	*h.st = st
	h.st.Gen = g.num
	if h.list != nil {
		for _, e := range l.Taken {
			at := min(e.At, now)
			t.spare(h.list, at, nil)
			h.list.push(at, e.Units)
		}
		*h.st, _ = g.take(*h.st, h.list, now, 0)
		if h.list.n > 0 {
			h.st.At = h.list.newest().at
		}
	}
	if h.side != nil && g.nums.Refunds != nil && l.Refunded.Used > 0 {
		r := State{At: l.Refunded.At, Used: min(l.Refunded.Used, maxUnits), Rem: l.Refunded.Rem}
		h.side.refunds = rebase(g.nums.Refunds, r, p, now)
	}
}

// punished returns what is remembered of the refusals of a level under g at now, and
// whether that is nothing. A block in force stays in force to its end, whatever the
// numbers are by now.
func (g *generation) punished(l *Level, p Past, now Instant) (r record, clean bool) {
	u, after := &l.Punished, g.nums.Penalty.After
	if after == nil || *u == (Punished{}) {
		return r, true
	}
	s := rebase(after, State{At: u.At, Used: u.Used, Rem: u.Rem}, Past{Saved: p.Saved, Same: p.SamePenalty}, now)
	_, full := after.Take(State{}, now, 0)
	back := min(0, now.Sub(p.Saved)) // what the clock went back by
	r = record{
		at: s.At, used: min(s.Used, full.Remaining), rem: s.Rem, gen: g.num,
		level: min(u.Doublings, mostDoublings), until: min(u.Until.Add(back), now.Add(maxPeriod)),
	}
	r.quiet = min(u.Quiet.Add(back), max(r.until, now))
	return r, r.clean(g, now)
}

// mostDoublings is more than there are between the shortest block and the longest.
const mostDoublings = 64

// restored returns the State of a level under g at now.
func (g *generation) restored(l *Level, p Past, now Instant) State {
	if g.nums.Slots {
		return State{}
	}
	s := State{At: l.At, Used: min(l.Used, 2*maxUnits), Rem: l.Rem}
	if l.Taken != nil {
		s.At, s.Used, s.Rem = 0, 0, 0
		for _, e := range l.Taken {
			s.At, s.Used = max(s.At, min(e.At, now)), min(s.Used+min(e.Units, maxUnits), maxUnits)
		}
		return s
	}
	if c := g.nums.Carry; c > 0 && !p.Same {
		s.Used = min(s.Used, c)
	}
	return rebase(g.nums.Bucket, s, p, now)
}

// rebase makes s, a State of an earlier process, one that b can count on at now.
func rebase(b Bucket, s State, p Past, now Instant) State {
	if token, ok := b.(interface {
		holds() (units int64, parts uint64)
	}); ok {
		units, parts := token.holds()
		s.Used = min(s.Used, 2*units)
		if !p.Same || s.Rem >= parts {
			s.Rem = 0
		}
	}
	if s.Used <= 0 && s.Rem == 0 {
		return State{}
	}
	if p.Saved <= now {
		return s
	}
	// The clock went back: what was then is now.
	if fresh, _ := b.Take(State{}, now, 0); s.At > fresh.At {
		s.At = fresh.At.Add(max(0, s.At.Sub(p.Saved)))
	}
	return s
}
