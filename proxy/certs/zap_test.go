package certs

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestWhatTheLibrarySaysBecomesSlog(t *testing.T) {
	j := &journal{}
	log := slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
	z := zap.New(newBridge(log)).Named("renew").With(zap.String("identifier", "a.example.com"))

	z.Info("acquiring lock", zap.Int("n", 3), zap.Duration("left", time.Minute), zap.Strings("names", []string{"a", "b"}))
	line := j.with("acquiring lock")[0]
	for key, want := range map[string]any{"level": "DEBUG", "from": "renew", "identifier": "a.example.com", "n": 3.0, "left": float64(time.Minute)} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if names, _ := line["names"].([]any); len(names) != 2 || names[1] != "b" {
		t.Errorf("names are %v", line["names"])
	}

	z.Error("saving", zap.Error(errors.New("disk full")))
	if line := j.with("saving")[0]; line["level"] != "WARN" || line["err"] != "disk full" {
		t.Errorf("an error became %v", line)
	}
	z.Warn("odd")
	if line := j.with("odd")[0]; line["level"] != "INFO" {
		t.Errorf("a warning became %v", line)
	}
	z.Error("tls-alpn challenge", zap.Error(errors.New("no information found")))
	if line := j.with("tls-alpn challenge")[0]; line["level"] != "DEBUG" {
		t.Errorf("what anybody can bring about became %v", line)
	}
}

func TestTheLibraryDoesNotRepeatItself(t *testing.T) {
	j := &journal{}
	b := newBridge(slog.New(slog.NewJSONHandler(j, nil)))
	z := zap.New(b)
	for range 100 {
		z.Error("storage", zap.String("identifier", "a"))
		z.Error("storage", zap.String("identifier", "b"))
		z.Debug("quiet")
		z.Info("quiet")
		z.Error("job failed", zap.Error(errors.New("[a] [a] Renew: renewing certificate aborted by event handler: "+errTooSoon.Error())))
		z.Error("job failed", zap.Error(errors.New("[a] [a] Renew: authorization failed"))) // said by us
	}
	if n := strings.Count(j.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want one for each domain:\n%s", n, j)
	}
	z.Error("job failed", zap.Error(errors.New("[a] Renew: saving assets: disk full")))
	if len(j.with("job failed")) != 1 {
		t.Error("that a certificate could not be kept is not said")
	}
	now := time.Now()
	if !b.said.first("x", now) || b.said.first("x", now.Add(59*time.Second)) || !b.said.first("x", now.Add(61*time.Second)) {
		t.Error("a text is not said once a minute")
	}
	for i := range 5000 {
		b.said.first(strings.Repeat("y", i%2000), now)
	}
	if len(b.said.at) > rememberAt {
		t.Errorf("%d texts are remembered", len(b.said.at))
	}
}
