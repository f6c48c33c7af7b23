package reload

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// unstarted is a Loop on a new file with this content, not yet run.
func unstarted(t *testing.T, text string) (*Loop, *applier) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, text)
	a := newApplier()
	return &Loop{Path: path, Apply: a.apply}, a
}

func TestLoadAppliesAndRunThenFindsNothingNew(t *testing.T) {
	l, a := unstarted(t, "a\n")
	outcome, err := l.Load(t.Context())
	if outcome.Result != Applied || err != nil || outcome.String() != "now a" {
		t.Fatalf("Load = %v, %v; want applied", outcome, err)
	}
	a.wants(t, "a\n")
	s := l.Status()
	// echo a | sha256sum
	if !s.OK || s.Hash != "87428fc52280" || s.Since.IsZero() {
		t.Errorf("status = %+v, want OK, the hash and the time", s)
	}
	same(t, "reloads", s.Reloads, map[Result]uint64{Applied: 0, Refused: 0, Unreadable: 0, Unchanged: 0})

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	if outcome, err := l.Trigger(t.Context()); outcome.Result != Unchanged || err != nil {
		t.Errorf("Trigger = %v, %v; want unchanged", outcome, err)
	}
	a.nothing(t)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if _, err := l.Trigger(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Trigger after the end = %v, want ErrStopped", err)
	}
	if err := l.Run(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("second Run = %v, want ErrRunning", err)
	}
	if _, err := l.Load(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("Load after Run = %v, want ErrRunning", err)
	}
}

func TestLoadReturnsTheErrorOfApply(t *testing.T) {
	l, _ := unstarted(t, "bad\n")
	outcome, err := l.Load(t.Context())
	if outcome.Result != Refused || err == nil || l.Status().OK {
		t.Errorf("Load = %v, %v, status %+v; want refused", outcome, err, l.Status())
	}
}

func TestLoadWaitsForAnUnfinishedFileAndThenUsesIt(t *testing.T) {
	l, a := unstarted(t, "a")
	l.Unfinished = 30 * ms
	outcome, err := l.Load(t.Context())
	if outcome.Warning != unfinishedWarning(view{}) || err != nil {
		t.Errorf("Load = %v, %v; want a warning", outcome, err)
	}
	a.wants(t, "a")

	l, a = unstarted(t, "a")
	l.Unfinished = 1 << 40 // minutes: only the newline ends it
	go os.WriteFile(l.Path, []byte("ab\n"), 0o644)
	if outcome, err := l.Load(t.Context()); outcome.Warning != "" || err != nil {
		t.Errorf("Load = %v, %v; want no warning", outcome, err)
	}
	a.wants(t, "ab\n")
}

func TestLoadEndsWithItsContext(t *testing.T) {
	l, _ := unstarted(t, "a")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := l.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Load = %v, want canceled", err)
	}
}

func TestWhatIsNoReadableFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	symlink(t, "nowhere", dir+"/dangling")
	symlink(t, "loop", dir+"/loop")
	do(t, syscall.Mkfifo(dir+"/pipe", 0o644))
	for name, want := range map[string]error{
		"absent":   fs.ErrNotExist,
		"dangling": fs.ErrNotExist,
		"loop":     syscall.ELOOP,
		"":         syscall.EISDIR,
		"pipe":     nil,
	} {
		l := &Loop{Path: filepath.Join(dir, name), Apply: newApplier().apply}
		outcome, err := l.Load(t.Context())
		if outcome.Result != Unreadable || err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("Load of %q = %v, %v; want unreadable, %v", name, outcome, err, want)
		}
	}
}

func TestTooMuchContentReachesApplyCutOffJustAboveTheLimit(t *testing.T) {
	l, a := unstarted(t, string(bytes.Repeat([]byte("x\n"), 3<<20)))
	if _, err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(a.next(t)); got != 2<<20+1 {
		t.Errorf("Apply got %d bytes, want 2 MiB and one", got)
	}
}

func TestLoopWithoutPathOrApplyIsAMistakeOfTheProgram(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_, _ = (&Loop{Path: "gateway.yaml"}).Load(t.Context())
}
