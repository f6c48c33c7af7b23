package limit

import "fmt"

// withList is the sliding log with its list as one Bucket, so that it goes
// through every law that the others go through: what a Table keeps beside the
// State is kept here by number, in Rem. Two lists with the same units at the same
// instants have the same number; no list has number 0.
type withList struct {
	slidingLog
	lists  map[uint64][]stamp
	number map[string]uint64
}

func newWithList(b slidingLog) *withList {
	return &withList{slidingLog: b, lists: map[uint64][]stamp{}, number: map[string]uint64{}}
}

// inTable is the Bucket a Table has: it keeps the list itself.
func inTable(b Bucket) Bucket {
	if l, ok := b.(*withList); ok {
		return l.slidingLog
	}
	return b
}

// load makes a list of its own from s.
func (b *withList) load(s State) *stamps {
	l := &stamps{}
	for _, x := range b.lists[s.Rem] {
		l.push(x.at, x.units)
	}
	return l
}

// save gives s the number of the list l, whose units are the State's.
func (b *withList) save(s State, l *stamps) State {
	var kept []stamp
	units := int64(0)
	for i := range l.n {
		if x := *l.at(i); x.units > 0 {
			kept = append(kept, x)
			units += x.units
		}
	}
	if units != s.Used {
		panic(fmt.Sprintf("the State says %d units, its list has %d", s.Used, units))
	}
	if len(kept) == 0 {
		return State{Life: s.Life}
	}
	id := fmt.Sprint(kept)
	if b.number[id] == 0 {
		b.number[id] = uint64(len(b.number) + 1)
		b.lists[b.number[id]] = kept
	}
	s.At, s.Rem = kept[len(kept)-1].at, b.number[id]
	return s
}

func (b *withList) Take(s State, now Instant, n int64) (State, Result) {
	l := b.load(s)
	next, r := b.takeFrom(l, s, now, n)
	if !r.OK {
		return next, r
	}
	if n > 0 {
		l.push(next.At, n)
	}
	return b.save(next, l), r
}

func (b *withList) Adjust(s State, at Instant, n int64) State {
	l := b.load(s)
	return b.save(b.adjustIn(l, s, at, n), l)
}
