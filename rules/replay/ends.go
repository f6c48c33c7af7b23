package replay

import (
	"container/heap"

	"gateway/limit"
	"gateway/rules"
)

// end is a settlement that is to come: the end of a request, for one rule.
type end struct {
	at    limit.Instant
	seq   uint64
	came  uint64
	grant limit.Grant
	claim *limit.Claim
	rule  *ruleRun
	// Of the answer: what it gives back.
	answer rules.Answer
	said   int64 // units, negative for nothing said
	slots  bool
	// trial says that it is of a candidate, refused that the request was refused.
	trial, refused bool
}

// ends are a heap by the order of decisions.
type ends struct {
	list []*end
	came uint64
	free []*end
	most int // that wait
	cut  int64
}

// mostEnds bounds the requests in progress: each takes about a kilobyte. When there
// are more, the one that would end first ends early, and is counted in cut.
const mostEnds = 1 << 18

// Len implements heap.Interface.
func (e *ends) Len() int { return len(e.list) }

// Less implements heap.Interface.
func (e *ends) Less(i, j int) bool {
	a, b := e.list[i], e.list[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.seq != b.seq:
		return a.seq < b.seq
	}
	return a.came < b.came
}

// Swap implements heap.Interface.
func (e *ends) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }

// Push implements heap.Interface.
func (e *ends) Push(x any) { e.list = append(e.list, x.(*end)) }

// Pop implements heap.Interface.
func (e *ends) Pop() any {
	n := len(e.list) - 1
	x := e.list[n]
	e.list[n] = nil
	e.list = e.list[:n]
	return x
}

func (e *ends) add(x *end) {
	e.came++
	x.came = e.came
	heap.Push(e, x)
}

// due reports whether the first end comes before the decision of r. Of an end and a
// decision at the same instant whose order is not known the end is first.
func (e *ends) due(r *Record) bool {
	if len(e.list) == 0 {
		return false
	}
	first := e.list[0]
	return first.at < r.At || first.at == r.At && (r.Seq == 0 || first.seq < r.Seq)
}

// settleBefore settles what ends before the decision of r, and what there are too many of.
func (e *ends) settleBefore(r *Record) {
	for e.due(r) {
		e.settle()
	}
	for len(e.list) > e.most {
		e.cut++
		e.settle()
	}
}

// settle settles the first end.
func (e *ends) settle() {
	x := heap.Pop(e).(*end)
	x.grant.Done(x.at, x.outcome)
	kept := x.claim.N - x.claim.Returned
	if x.slots {
		kept = x.claim.N
	}
	if !x.trial {
		x.rule.units += kept
	}
	*x = end{}
	if len(e.free) < 1024 {
		e.free = append(e.free, x)
	}
}

func (e *ends) blank() *end {
	if n := len(e.free); n > 0 {
		x := e.free[n-1]
		e.free = e.free[:n-1]
		return x
	}
	return &end{}
}

func (x *end) outcome(c *limit.Claim) int64 {
	r := x.rule.rule
	if x.refused { // nobody knows what the answer would have been
		if r.Count != nil {
			return c.N
		}
		return 0
	}
	if x.said >= 0 && !x.answer.ClientFailed {
		return c.N - min(x.said, r.CostFrom.Max)
	}
	return r.Settle(c.N, x.answer)
}
