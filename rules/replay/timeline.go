package replay

import (
	"time"

	"gateway/limit"
)

// timeline is the time that a log spans, in steps of equal length that grow with
// it: at most so many, so that it takes the same memory for an hour as for a year.
type timeline struct {
	begin limit.Instant
	step  time.Duration // 0 before the first record

	last   limit.Instant // that was asked for, and
	number int           // its step
}

const mostSteps = 480

// Step counts the requests of a rule in one step of time.
type Step struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
}

// at returns the number of the step of an instant; the steps double until there
// are few enough.
func (t *timeline) at(at limit.Instant) int {
	if at == t.last && t.step > 0 {
		return t.number
	}
	if t.step == 0 {
		t.step = time.Second
		t.begin = at - at%limit.Instant(time.Minute)
	}
	for at.Sub(t.begin) >= mostSteps*t.step {
		t.step *= 2
	}
	t.last, t.number = at, int(max(0, at.Sub(t.begin))/t.step)
	return t.number
}

// steps are the counts of a rule over a timeline.
type steps struct {
	step time.Duration
	list []Step
}

// add counts requests in a step of t.
func (s *steps) add(t *timeline, step int, requests, refused int64) {
	s.fold(t)
	for step >= len(s.list) {
		s.list = append(s.list, Step{})
	}
	s.list[step].Requests += requests
	s.list[step].Refused += refused
}

// fold brings the list to the steps of t.
func (s *steps) fold(t *timeline) {
	if s.step == 0 {
		s.step = t.step
	}
	for ; s.step < t.step; s.step *= 2 {
		for i, one := range s.list {
			if i%2 == 0 {
				s.list[i/2] = one
				continue
			}
			s.list[i/2].Requests += one.Requests
			s.list[i/2].Refused += one.Refused
		}
		s.list = s.list[:(len(s.list)+1)/2]
	}
}
