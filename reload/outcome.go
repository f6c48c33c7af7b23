package reload

import (
	"log/slog"
	"maps"
	"time"
)

// Result says how an attempt to reload ended. Its text is the label of metrics.
type Result string

// The ways an attempt ends.
const (
	Applied    Result = "applied"    // new content runs
	Refused    Result = "refused"    // Apply returned an error; what ran, runs
	Unreadable Result = "unreadable" // the file is missing or cannot be read; what ran, runs
	Unchanged  Result = "unchanged"  // the file holds what runs
)

// Change is what applying new content changed. The zero Change is a change with
// nothing to say about it.
type Change struct {
	Text string // for people, one or more lines; the answer to who asked
	// Hash names what was applied, when that is more than the content of the file;
	// empty is the SHA-256 of that. Its first 12 digits are logged.
	Hash  string
	Attrs []slog.Attr // for the log line
}

// Outcome is how an attempt ended, for who asked for it.
type Outcome struct {
	Result  Result
	Change  Change    // with Applied
	Warning string    // what is odd about the file though it was applied; empty: nothing
	Since   time.Time // when what runs was applied; zero when nothing runs
}

// String is the outcome in words, without a final newline; of one that came with
// an error, only its Result.
func (o Outcome) String() string {
	text := string(o.Result)
	switch {
	case o.Result == Unchanged:
		text = "unchanged: the file holds what runs since " + o.Since.Format(time.RFC3339)
	case o.Result == Applied && o.Change.Text != "":
		text = o.Change.Text
	}
	if o.Warning != "" {
		text += "\nwarning: " + o.Warning
	}
	return text
}

// Status is what there is to know about reloads at one moment.
type Status struct {
	// OK says that the file, as last judged, is what runs. False before the first success.
	OK bool
	// Err is what was wrong with the file as last judged; nil when OK.
	Err error
	// Since is when what runs was applied; zero when nothing runs yet.
	Since time.Time
	// Hash names what runs: the first 12 digits of Change.Hash, or of the SHA-256 of
	// the content in hexadecimal; empty when nothing runs yet.
	Hash string
	// Reloads counts attempts after the first load. It has every Result.
	Reloads map[Result]uint64
}

// Status returns a copy of the state of the loop.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Reloads = map[Result]uint64{Applied: 0, Refused: 0, Unreadable: 0, Unchanged: 0}
	maps.Copy(s.Reloads, l.status.Reloads)
	return s
}
