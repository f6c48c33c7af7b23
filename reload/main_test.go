package reload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is what the tests look at in one line of the log.
type line struct {
	Level   string
	Msg     string
	Errors  []string
	Warning string
}

// journal is a log that can be read back.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

func (j *journal) lines(t testing.TB) []line {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []line
	for dec := json.NewDecoder(bytes.NewReader(j.buf.Bytes())); dec.More(); {
		var l line
		if err := dec.Decode(&l); err != nil {
			t.Fatalf("reading the log back: %v", err)
		}
		all = append(all, l)
	}
	return all
}

// applier is an Apply that keeps what it was given, and refuses what starts with "bad".
type applier struct {
	got chan string
}

func newApplier() *applier { return &applier{got: make(chan string, 1000)} }

func (a *applier) apply(_ context.Context, data []byte) (Change, error) {
	a.got <- string(data)
	if bytes.HasPrefix(data, []byte("bad")) {
		return Change{}, fmt.Errorf("gateway.yaml:1:1: %q is bad\n   1 | %[1]s", bytes.TrimSpace(data))
	}
	return Change{Text: "now " + string(bytes.TrimSpace(data)), Attrs: []slog.Attr{slog.Int("size", len(data))}}, nil
}

// next waits for the next content that Apply is given.
func (a *applier) next(t testing.TB) string {
	t.Helper()
	select {
	case s := <-a.got:
		return s
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was applied in 20 s")
		return ""
	}
}

// wants fails unless the next content that Apply is given is want.
func (a *applier) wants(t testing.TB, want string) {
	t.Helper()
	if got := a.next(t); got != want {
		t.Fatalf("applied %q, want %q", got, want)
	}
}

// nothing fails if Apply was given anything since the last look.
func (a *applier) nothing(t testing.TB) {
	t.Helper()
	select {
	case s := <-a.got:
		t.Fatalf("applied %q, want nothing applied", s)
	default:
	}
}
