package certs

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap/zapcore"
)

// bridge is a zapcore.Core that writes what certmagic has to say to a slog.Logger.
// What matters to an operator this package says itself, in its own words, so the
// library's level is lowered, and a message comes once in a while at most. It is
// safe for concurrent use.
type bridge struct {
	log    *slog.Logger
	fields []zapcore.Field
	said   *lately
}

func newBridge(log *slog.Logger) *bridge {
	return &bridge{log: log, said: newLately()}
}

// spokenFor are messages of events that this package logs in its own words, or that
// anybody on the network can bring about.
var spokenFor = []string{
	"could not get certificate from issuer", "will retry", "tls-alpn challenge", "looking up info for HTTP challenge",
	"certificate is in emergency renewal window; expiration imminent",
}

// level is that of slog for an entry: the library's information is detail to us.
func level(e zapcore.Entry) slog.Level {
	switch {
	case e.Level <= zapcore.InfoLevel, slices.Contains(spokenFor, e.Message):
		return slog.LevelDebug
	case e.Level == zapcore.WarnLevel:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// idle reports whether an error is none: what was not to be done was not done, or it
// was logged by us when it happened. The library does not wrap, so its text is what
// there is.
func idle(err string) bool {
	return strings.Contains(err, errTooSoon.Error()) || strings.Contains(err, errOffline.Error()) ||
		strings.Contains(err, "] Renew: ") && !strings.Contains(err, "saving assets")
}

// Enabled implements zapcore.LevelEnabler.
func (b *bridge) Enabled(l zapcore.Level) bool {
	return b.log.Enabled(context.Background(), level(zapcore.Entry{Level: l}))
}

// With implements zapcore.Core.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{log: b.log, fields: slices.Concat(b.fields, fields), said: b.said}
}

// Check implements zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.log.Enabled(context.Background(), level(e)) {
		return c.AddCore(e, b)
	}
	return c
}

// Write implements zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	attrs := []slog.Attr{slog.String("from", e.LoggerName)}
	about := ""
	for _, f := range slices.Concat(b.fields, fields) {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			if idle(err.Error()) {
				return nil
			}
			attrs = append(attrs, slog.String("err", err.Error()))
			continue
		}
		f.AddTo(values)
		v := values.Fields[f.Key]
		if name, ok := v.(string); ok && f.Key == "identifier" {
			about = name
		}
		attrs = append(attrs, slog.Any(f.Key, v))
	}
	at := level(e)
	if at > slog.LevelDebug && !b.said.first(e.Message+" "+about, time.Now()) {
		return nil
	}
	b.log.LogAttrs(context.Background(), at, e.Message, attrs...)
	return nil
}

// Sync implements zapcore.Core.
func (b *bridge) Sync() error { return nil }

// lately knows what was said in the last minute. The zero value is not ready.
type lately struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newLately() *lately { return &lately{at: map[string]time.Time{}} }

const (
	quiet      = time.Minute
	rememberAt = 1000 // texts at most; then all are forgotten
)

// first reports whether text was not said in the last minute, and notes that it is.
func (l *lately) first(text string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.at[text]; ok && now.Sub(at) < quiet {
		return false
	}
	if len(l.at) >= rememberAt {
		clear(l.at)
	}
	l.at[text] = now
	return true
}
