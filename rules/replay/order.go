package replay

import (
	"container/heap"

	"gateway/limit"
)

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
	size int // of its texts
	rec  *Record
}

// before is the order of decisions.
func (w *waiting) before(o *waiting) bool {
	if w.at != o.at {
		return w.at < o.at
	}
	return w.rec.Seq < o.rec.Seq
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

func (o *oddOnes) Len() int { return len(o.list) }
func (o *oddOnes) Less(i, j int) bool {
	a, b := &o.list[i], &o.list[j]
	return a.before(&b.waiting) || !b.before(&a.waiting) && a.came < b.came
}
func (o *oddOnes) Swap(i, j int) { o.list[i], o.list[j] = o.list[j], o.list[i] }
func (o *oddOnes) Push(x any)    { o.list = append(o.list, x.(oddOne)) }
func (o *oddOnes) Pop() any {
	last := o.list[len(o.list)-1]
	o.list[len(o.list)-1] = oddOne{}
	o.list = o.list[:len(o.list)-1]
	return last
}

func newOrder() *order { return &order{queue: make([]waiting, 1024)} }

// Len returns how many wait.
func (o *order) len() int { return o.n + len(o.odd.list) }

// add takes a record in.
func (o *order) add(w waiting) {
	o.bytes += w.size
	if o.n > 0 && w.before(&o.last) {
		o.odd.next++
		heap.Push(&o.odd, oddOne{w, o.odd.next})
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
	if len(o.odd.list) > 0 && (o.n == 0 || o.odd.list[0].before(o.at(0))) {
		return heap.Pop(&o.odd).(oddOne).waiting
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
