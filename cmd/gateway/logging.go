package main

import (
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	upstreams "gateway/proxy/upstream"
)

// logger is the program's log, whose level and format change with the file.
type logger struct {
	*slog.Logger
	out     io.Writer
	queue   *logQueue // to out
	level   slog.LevelVar
	handler *atomic.Pointer[slog.Handler]
	colour  bool
}

// newLogger returns a logger that writes to out from the time its queue is started. color is auto, always or never.
func newLogger(out io.Writer, color string) *logger {
	l := &logger{out: out, queue: newLogQueue(out), handler: new(atomic.Pointer[slog.Handler]), colour: useColour(out, color)}
	l.configure("info", "auto")
	l.Logger = slog.New(liveHandler{current: l.handler})
	// net/http's transport has nowhere else to say that a server talks out of turn.
	log.SetFlags(0)
	log.SetOutput(plain{slog.NewLogLogger(l.Handler(), slog.LevelDebug).Writer()})
	return l
}

// plain passes lines of net/http on without the words of servers in them.
type plain struct{ out io.Writer }

// Write implements io.Writer.
func (p plain) Write(line []byte) (int, error) {
	_, err := io.WriteString(p.out, upstreams.Plain(string(line)))
	return len(line), err
}

func useColour(out io.Writer, color string) bool {
	switch color {
	case "always":
		return true
	case "never":
		return false
	}
	return isTerminal(out) && os.Getenv("NO_COLOR") == ""
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// configure changes level and format (auto, text or json) from the next line on.
func (l *logger) configure(level, format string) {
	l.level.UnmarshalText([]byte(level)) // package rules lets only good ones through
	var h slog.Handler
	if format == "text" || format == "auto" && isTerminal(l.out) {
		h = tint.NewTextHandler(l.queue, &tint.Options{Level: &l.level, TimeFormat: time.TimeOnly, NoColor: !l.colour})
	} else {
		h = slog.NewJSONHandler(l.queue, &slog.HandlerOptions{Level: &l.level, ReplaceAttr: inSeconds})
	}
	l.handler.Store(&h)
}

// inSeconds writes a duration in seconds, as the access log does, where slog's JSON
// would write nanoseconds.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key, a.Value.Duration().Seconds())
	}
	return a
}

// liveHandler passes everything on to the handler of the moment.
type liveHandler struct {
	current *atomic.Pointer[slog.Handler]
	wrap    func(slog.Handler) slog.Handler // WithAttrs and WithGroup so far; nil is none
}

func (h liveHandler) handler() slog.Handler {
	if h.wrap == nil {
		return *h.current.Load()
	}
	return h.wrap(*h.current.Load())
}

// Enabled implements slog.Handler.
func (h liveHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (*h.current.Load()).Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h liveHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.handler().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h liveHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(n slog.Handler) slog.Handler { return n.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h liveHandler) WithGroup(name string) slog.Handler {
	return h.with(func(n slog.Handler) slog.Handler { return n.WithGroup(name) })
}

func (h liveHandler) with(more func(slog.Handler) slog.Handler) slog.Handler {
	before := h.wrap
	return liveHandler{h.current, func(n slog.Handler) slog.Handler {
		if before != nil {
			n = before(n)
		}
		return more(n)
	}}
}
