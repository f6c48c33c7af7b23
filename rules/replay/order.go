package replay

import "container/heap"

// window is how many lines are held back to bring them into the order of their
// instants: logs are written as requests end.
const window = 1 << 16

// windowBytes bounds what these lines take together.
const windowBytes = 64 << 20

// order hands out records in the order of their instants. Those that come in
// order, nearly all, wait in a queue; the others in a heap.
type order struct {
	queue []*Record // a ring
	head  int
	n     int
	odd   oddOnes
	bytes int // of all lines
}

// before is the order of decisions.
func (r *Record) before(o *Record) bool {
	if r.At != o.At {
		return r.At < o.At
	}
	return r.Seq < o.Seq
}

// oddOnes are a heap; of two alike the one that came first is first.
type oddOnes struct {
	list []oddOne
	next uint64
}

type oddOne struct {
	*Record
	came uint64
}

func (o *oddOnes) Len() int { return len(o.list) }
func (o *oddOnes) Less(i, j int) bool {
	a, b := o.list[i], o.list[j]
	return a.before(b.Record) || !b.before(a.Record) && a.came < b.came
}
func (o *oddOnes) Swap(i, j int) { o.list[i], o.list[j] = o.list[j], o.list[i] }
func (o *oddOnes) Push(x any)    { o.list = append(o.list, x.(oddOne)) }
func (o *oddOnes) Pop() any {
	last := o.list[len(o.list)-1]
	o.list[len(o.list)-1] = oddOne{}
	o.list = o.list[:len(o.list)-1]
	return last
}

func newOrder() *order { return &order{queue: make([]*Record, 1024)} }

// Len returns how many wait.
func (o *order) len() int { return o.n + len(o.odd.list) }

// add takes a record in.
func (o *order) add(r *Record) {
	o.bytes += len(r.buf)
	if o.n > 0 && r.before(o.at(o.n-1)) {
		o.odd.next++
		heap.Push(&o.odd, oddOne{r, o.odd.next})
		return
	}
	if o.n == len(o.queue) {
		grown := make([]*Record, 2*len(o.queue))
		for i := range o.n {
			grown[i] = o.at(i)
		}
		o.queue, o.head = grown, 0
	}
	o.queue[(o.head+o.n)&(len(o.queue)-1)] = r
	o.n++
}

func (o *order) at(i int) *Record { return o.queue[(o.head+i)&(len(o.queue)-1)] }

// take hands out the first one, or nil.
func (o *order) take() *Record {
	r := o.first()
	if r != nil {
		o.bytes -= len(r.buf)
	}
	return r
}

func (o *order) first() *Record {
	if len(o.odd.list) > 0 && (o.n == 0 || o.odd.list[0].before(o.at(0))) {
		return heap.Pop(&o.odd).(oddOne).Record
	}
	if o.n == 0 {
		return nil
	}
	r := o.at(0)
	o.queue[o.head] = nil
	o.head = (o.head + 1) & (len(o.queue) - 1)
	o.n--
	return r
}
