package replay

import "gateway/limit"

// window is how many lines are held back to bring them into the order of their
// instants: logs are written as requests end.
const window = 1<<16 - 1

// windowBytes bounds what the texts of these lines take together.
const windowBytes = 64 << 20

// order hands out records in the order of their instants. Those that come in
// order, nearly all, wait in a queue; the others in a heap.
type order struct {
	queue []waiting // a ring
	head  int
	n     int
	last  waiting // the latest in the queue
	odd   oddOnes
	bytes int // of all texts
}

// waiting is a record with what its place in the order depends on, since the record
// itself is not in the caches any more when its turn comes.
type waiting struct {
	at   limit.Instant
	seq  uint64
	size int // of its texts
	rec  *Record
}

// before is the order of decisions.
func (w *waiting) before(o *waiting) bool {
	if w.at != o.at {
		return w.at < o.at
	}
	return w.seq < o.seq
}

// oddOnes are a heap; of two alike the one that came first is first.
type oddOnes struct {
	list []oddOne
	next uint64
}

type oddOne struct {
	waiting
	came uint64
}

func (a *oddOne) before(b *oddOne) bool {
	return a.waiting.before(&b.waiting) || !b.waiting.before(&a.waiting) && a.came < b.came
}

// push takes one in. It is container/heap's, which would allocate for each.
func (o *oddOnes) push(w waiting) {
	o.next++
	one := oddOne{w, o.next}
	i := len(o.list)
	for o.list = append(o.list, one); i > 0; {
		up := (i - 1) / 2
		if !one.before(&o.list[up]) {
			break
		}
		o.list[i] = o.list[up]
		i = up
	}
	o.list[i] = one
}

// pop hands out the first; there must be one.
func (o *oddOnes) pop() waiting {
	first := o.list[0].waiting
	n := len(o.list) - 1
	last := o.list[n]
	o.list[n] = oddOne{}
	o.list = o.list[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && o.list[down+1].before(&o.list[down]) {
			down++
		}
		if !o.list[down].before(&last) {
			break
		}
		o.list[i] = o.list[down]
		i = down
	}
	o.list[i] = last
	return first
}

func newOrder() *order { return &order{queue: make([]waiting, 1024)} }

// len returns how many wait.
func (o *order) len() int { return o.n + len(o.odd.list) }

// add takes a record in.
func (o *order) add(w waiting) {
	o.bytes += w.size
	if o.n > 0 && w.before(&o.last) {
		o.odd.push(w)
		return
	}
	if o.n == len(o.queue) {
		grown := make([]waiting, 2*len(o.queue))
		for i := range o.n {
			grown[i] = *o.at(i)
		}
		o.queue, o.head = grown, 0
	}
	o.n++
	o.last = w
	*o.at(o.n - 1) = w
}

func (o *order) at(i int) *waiting { return &o.queue[(o.head+i)&(len(o.queue)-1)] }

// take hands out the first one, or one without a record.
func (o *order) take() waiting {
	w := o.first()
	o.bytes -= w.size
	return w
}

func (o *order) first() waiting {
	if len(o.odd.list) > 0 && (o.n == 0 || o.odd.list[0].waiting.before(o.at(0))) {
		return o.odd.pop()
	}
	if o.n == 0 {
		return waiting{}
	}
	w := *o.at(0)
	o.at(0).rec = nil
	o.head = (o.head + 1) & (len(o.queue) - 1)
	o.n--
	return w
}
