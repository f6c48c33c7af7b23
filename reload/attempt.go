package reload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// unfinishedWarning is said of content that was used though it may be half a file.
func unfinishedWarning(v view) string {
	return cmp.Or(v.which, "the file") + " has no newline at its end; it was used as it is"
}

// attempt acts on a view that has settled, counts it and writes its one log line.
func (l *Loop) attempt(ctx context.Context, v view, asked bool) answer {
	start := time.Now()
	a := l.judge(ctx, v, asked)
	if a.err != nil && ctx.Err() != nil { // the program is stopping: that says nothing about the file
		return answer{err: ErrStopped}
	}
	l.count(a.outcome.Result)
	l.log(ctx, v, a, asked, time.Since(start))
	return a
}

// judge acts on v and notes the outcome.
func (l *Loop) judge(ctx context.Context, v view, asked bool) answer {
	var a answer
	switch {
	case v.err != nil:
		a.outcome.Result, a.err = Unreadable, v.err
	case v.mark == l.settled.runs && !(asked && l.Stale != nil && l.Stale()):
		a.outcome.Result = Unchanged
	default:
		a.outcome.Change, a.err = l.Apply(ctx, v.data)
		a.outcome.Result = Applied
		if a.err != nil {
			a.outcome = Outcome{Result: Refused}
		} else if v.unfinished {
			a.outcome.Warning = unfinishedWarning(v)
		}
	}
	l.held = nil
	applied := a.outcome.Result == Applied
	l.settled.judge(v, applied)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.OK, l.status.Err = a.err == nil, a.err
	if applied {
		l.status.Since, l.status.Hash = time.Now(), cmp.Or(fmt.Sprintf("%.12s", a.outcome.Change.Hash), v.sum.String())
	}
	a.outcome.Since = l.status.Since
	return a
}

func (l *Loop) count(r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status.Reloads == nil {
		l.status.Reloads = make(map[Result]uint64)
	}
	l.status.Reloads[r]++
}

// log writes the line of one attempt.
func (l *Loop) log(ctx context.Context, v view, a answer, asked bool, took time.Duration) {
	attrs := []slog.Attr{slog.String("file", l.Path)}
	switch {
	case v.err != nil:
	case a.err == nil:
		attrs = append(attrs, slog.String("hash", l.Status().Hash)) // of what runs
	default:
		attrs = append(attrs, slog.String("hash", v.sum.String()))
	}
	level, msg := slog.LevelInfo, "configuration reloaded"
	switch a.outcome.Result {
	case Applied:
		attrs = append(attrs, slog.Duration("duration", took))
		attrs = append(attrs, a.outcome.Change.Attrs...)
	case Unchanged:
		msg = "configuration is again what runs" // after content that was not
		if asked {
			msg = "configuration unchanged"
		}
	case Refused:
		level, msg = slog.LevelError, "configuration refused; the running settings are unchanged"
		attrs = append(attrs, slog.Any("errors", messages(a.err)))
	case Unreadable:
		level, msg = slog.LevelError, "configuration unreadable; the running settings are unchanged"
		attrs = append(attrs, slog.Any("errors", messages(a.err)))
	}
	if a.outcome.Warning != "" {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("warning", a.outcome.Warning))
	}
	l.Logger.LogAttrs(ctx, level, msg, attrs...)
}

// messages returns the first line of each error in a list of errors, or of err
// itself: the lines after the first show the place in the file.
func messages(err error) []string {
	all := []error{err}
	var list interface{ Unwrap() []error }
	if errors.As(err, &list) {
		all = list.Unwrap()
	}
	lines := make([]string, 0, len(all))
	for _, e := range all {
		line, _, _ := strings.Cut(e.Error(), "\n")
		lines = append(lines, line)
	}
	return lines
}
