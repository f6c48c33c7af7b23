package reload

import "time"

// settling decides when what is seen of a file is worth acting on. It is a pure
// state machine: it reads no file and no clock.
type settling struct {
	settle, unfinished, missing time.Duration // how long each kind of view must last

	seen   mark      // what the last look found
	since  time.Time // when it was found first
	judged mark      // what was acted on last; the zero mark is nothing yet
	runs   mark      // what was applied last; the zero mark is nothing yet
}

// see takes what a look found in files that were read at the time now. ready says to act on it, then call
// judge; otherwise wait says in how long to look again, where 0 is not until
// something else is a reason to. asked says that somebody waits for an outcome, so
// that what has been judged already is judged again.
func (s *settling) see(v view, now time.Time, asked bool) (wait time.Duration, ready bool) {
	if v.mark != s.seen {
		s.seen, s.since = v.mark, now
	}
	if v.mark == s.judged && !asked {
		return 0, false
	}
	wait = s.patience(v) - now.Sub(s.since)
	return max(wait, 0), wait <= 0
}

// patience is how long v must be seen unchanged.
func (s *settling) patience(v view) time.Duration {
	switch {
	case v.err != nil || v.absent:
		return s.missing
	case v.unfinished && v.mark != s.runs:
		return s.unfinished
	default:
		return s.settle
	}
}

// judge notes that v has been acted on, and with applied that it now runs.
func (s *settling) judge(v view, applied bool) {
	s.judged = v.mark
	if applied {
		s.runs = v.mark
	}
}
