package reload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// onDisk is a Loop that runs on a real file.
type onDisk struct {
	*Loop
	*applier
	*journal
}

// onFile runs a Loop on the file at path until the test ends. Unless change says
// otherwise it does not poll, so that what is seen was told by the kernel, and has
// the patience not to mind a machine that stops in the middle of a save.
func onFile(t *testing.T, path string, change func(*Loop)) *onDisk {
	t.Helper()
	r := &onDisk{applier: newApplier(), journal: &journal{}}
	r.Loop = &Loop{Path: path, Apply: r.apply, Logger: r.logger(), Unfinished: time.Hour, Missing: time.Hour, Poll: time.Hour}
	if change != nil {
		change(r.Loop)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return r
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	do(t, os.WriteFile(path, []byte(text), 0o644))
}
func rename(t testing.TB, from, to string)  { t.Helper(); do(t, os.Rename(from, to)) }
func mkdir(t testing.TB, path string)       { t.Helper(); do(t, os.MkdirAll(path, 0o755)) }
func symlink(t testing.TB, to, path string) { t.Helper(); do(t, os.Symlink(to, path)) }
func removeAll(t testing.TB, path string)   { t.Helper(); do(t, os.RemoveAll(path)) }

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// styles are the ways files are saved: n is the number of the save, dir holds the
// file gateway.yaml, made by setUp where it is not a plain file.
type style struct {
	name  string
	setUp func(t *testing.T, dir, text string)
	save  func(t *testing.T, dir, text string, n int)
}

var styles = []style{
	{name: "truncated and written in place", save: func(t *testing.T, dir, text string, _ int) {
		write(t, dir+"/gateway.yaml", text)
	}},
	{name: "renamed over", save: func(t *testing.T, dir, text string, _ int) {
		write(t, dir+"/.gateway.yaml.tmp", text)
		rename(t, dir+"/.gateway.yaml.tmp", dir+"/gateway.yaml")
	}},
	{name: "moved to a backup and written anew", save: func(t *testing.T, dir, text string, _ int) {
		rename(t, dir+"/gateway.yaml", dir+"/gateway.yaml~")
		write(t, dir+"/gateway.yaml", text)
		do(t, os.Remove(dir+"/gateway.yaml~"))
	}},
	{name: "deleted and created", save: func(t *testing.T, dir, text string, _ int) {
		do(t, os.Remove(dir+"/gateway.yaml"))
		write(t, dir+"/gateway.yaml", text)
	}},
	{name: "ConfigMap exchanged", setUp: func(t *testing.T, dir, text string) {
		configMap(t, dir, text, 0)
		symlink(t, "..data/gateway.yaml", dir+"/gateway.yaml")
	}, save: configMap},
	{name: "link pointed elsewhere", setUp: func(t *testing.T, dir, text string) {
		mkdir(t, dir+"/v0")
		write(t, dir+"/v0/file.yaml", text)
		symlink(t, dir+"/v0/file.yaml", dir+"/gateway.yaml")
	}, save: func(t *testing.T, dir, text string, n int) {
		target := fmt.Sprintf("%s/v%d/file.yaml", dir, n)
		mkdir(t, filepath.Dir(target))
		write(t, target, text)
		do(t, os.Remove(dir+"/gateway.yaml"))
		symlink(t, target, dir+"/gateway.yaml")
	}},
	{name: "target of a link written", setUp: func(t *testing.T, dir, text string) {
		mkdir(t, dir+"/data")
		write(t, dir+"/data/file.yaml", text)
		symlink(t, "data/file.yaml", dir+"/gateway.yaml")
	}, save: func(t *testing.T, dir, text string, n int) {
		if n%2 == 0 {
			write(t, dir+"/data/file.yaml", text)
			return
		}
		write(t, dir+"/data/tmp", text)
		rename(t, dir+"/data/tmp", dir+"/data/file.yaml")
	}},
	{name: "cp", save: func(t *testing.T, dir, text string, _ int) {
		write(t, dir+"/source", text)
		run(t, "cp", dir+"/source", dir+"/gateway.yaml")
	}},
	{name: "sed -i", save: func(t *testing.T, dir, text string, _ int) {
		run(t, "sed", "-i", "s/.*/"+strings.TrimSpace(text)+"/", dir+"/gateway.yaml")
	}},
	{name: "hard link exchanged", save: func(t *testing.T, dir, text string, n int) {
		name := fmt.Sprintf("%s/version%d", dir, n)
		write(t, name, text)
		run(t, "ln", "-f", name, dir+"/gateway.yaml")
	}},
}

// configMap exchanges the content of a mounted ConfigMap the way a kubelet does.
func configMap(t *testing.T, dir, text string, n int) {
	version := fmt.Sprintf("..version%d", n)
	mkdir(t, dir+"/"+version)
	write(t, dir+"/"+version+"/gateway.yaml", text)
	symlink(t, version, dir+"/..data_tmp")
	rename(t, dir+"/..data_tmp", dir+"/..data")
	if n > 0 {
		removeAll(t, fmt.Sprintf("%s/..version%d", dir, n-1))
	}
}

func TestEveryWayToSaveIsSeenEveryTime(t *testing.T) {
	var seen atomic.Int64
	t.Run("styles", func(t *testing.T) {
		for _, style := range styles {
			t.Run(style.name, func(t *testing.T) {
				t.Parallel()
				everySaveIsSeen(t, style, &seen)
			})
		}
	})
	t.Attr("S29", fmt.Sprintf("%d of %d saves applied, %d ways", seen.Load(), 10*len(styles), len(styles)))
}

func everySaveIsSeen(t *testing.T, style style, seen *atomic.Int64) {
	dir := t.TempDir()
	if style.setUp == nil {
		write(t, dir+"/gateway.yaml", "limit: 0\n")
	} else {
		style.setUp(t, dir, "limit: 0\n")
	}
	// A short settle time: no half of a save is a file that could be applied.
	r := onFile(t, dir+"/gateway.yaml", func(l *Loop) { l.Settle = 30 * ms })
	r.wants(t, "limit: 0\n")
	for n := 1; n <= 10; n++ {
		text := fmt.Sprintf("limit: %d\n", n)
		style.save(t, dir, text, n)
		r.wants(t, text)
		seen.Add(1)
	}
	if _, err := r.Trigger(t.Context()); err != nil { // and with that, the last line is written
		t.Fatal(err)
	}
	if got := len(r.lines(t)); got != 12 {
		t.Errorf("%d lines for the first load, 10 saves and unchanged, want 12:\n%v", got, r.lines(t))
	}
}

func TestTouchAndChmodAndANeighbourDoNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "a\n")
	r := onFile(t, path, nil)
	r.wants(t, "a\n")
	run(t, "touch", path)
	do(t, os.Chmod(path, 0o600))
	write(t, path+".neighbour", "b\n")
	write(t, path, "a\n")
	write(t, path, "c\n")
	r.wants(t, "c\n")
	if _, err := r.Trigger(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "lines", len(r.lines(t)), 3)
	r.nothing(t)
}

func TestFileThatIsAbsentAtTheStartIsAppliedWhenItComes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	r := onFile(t, path, func(l *Loop) { l.Missing = 50 * ms })
	outcome, err := r.Trigger(t.Context())
	if outcome.Result != Unreadable || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Trigger = %v, %v; want a file that does not exist", outcome, err)
	}
	write(t, path, "a\n")
	r.wants(t, "a\n")
}

func TestFolderRenamedAwayAndBackIsFollowed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "etc")
	mkdir(t, dir)
	write(t, dir+"/gateway.yaml", "0\n")
	r := onFile(t, dir+"/gateway.yaml", func(l *Loop) { l.Poll = 200 * ms })
	r.wants(t, "0\n")
	for n := 1; n <= 5; n++ {
		text := fmt.Sprintf("%d\n", n)
		rename(t, dir, dir+".away")
		write(t, dir+".away/gateway.yaml", text)
		rename(t, dir+".away", dir)
		r.wants(t, text)
		write(t, dir+"/gateway.yaml", "still "+text)
		r.wants(t, "still "+text)
	}
}

func TestPollingFollowsTheFileWhereNothingCanBeWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "0\n")
	r := onFile(t, path, func(l *Loop) {
		l.Poll = 50 * ms
		l.newWatcher = func() (*fsnotify.Watcher, error) { return nil, os.ErrPermission }
	})
	r.wants(t, "0\n")
	for n := 1; n <= 5; n++ {
		write(t, path, fmt.Sprintf("%d\n", n))
		r.wants(t, fmt.Sprintf("%d\n", n))
	}
	warnings := 0
	for _, l := range r.lines(t) {
		if l.Level == "WARN" {
			warnings++
		}
	}
	same(t, "warnings", warnings, 1)
}

func TestHalfWrittenFileIsNeverAppliedWithinThePatience(t *testing.T) {
	const whole = "rules:\n- one\n- two\n"
	var all []*onDisk
	for _, first := range []string{"", "rules:\n- on", "rules:\n- one\n"} {
		for _, pause := range []time.Duration{0, 50 * ms, 200 * ms} {
			path := filepath.Join(t.TempDir(), "gateway.yaml")
			// Far more than the pauses, so that a slow machine does not matter.
			all = append(all, onFile(t, path, func(l *Loop) { l.Settle = 1500 * ms }))
			write(t, path, first)
			time.Sleep(pause)
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			do(t, err)
			_, err = f.WriteString(whole[len(first):])
			do(t, err)
			do(t, f.Close())
		}
	}
	for _, r := range all {
		r.wants(t, whole)
	}
	t.Attr("S31", fmt.Sprintf("0 halves of %d files applied, on disk", len(all)))
}

func TestHalfThatOutlastsThePatienceIsFollowedByTheWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "a\n")
	r := onFile(t, path, func(l *Loop) { l.Unfinished = 200 * ms })
	r.wants(t, "a\n")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	do(t, err)
	defer f.Close()
	for _, part := range []struct{ add, want string }{{"b\n", "a\nb\n"}, {"c", "a\nb\nc"}, {"\n", "a\nb\nc\n"}} {
		_, err = f.WriteString(part.add)
		do(t, err)
		r.wants(t, part.want)
	}
}

func TestHundredSavesAndBrokenOnesLeaveNoGoroutine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "0\n")
	r := onFile(t, path, func(l *Loop) { l.Settle = ms })
	r.wants(t, "0\n")
	for n := range 100 {
		text := fmt.Sprintf("good %d\n", n)
		if n%2 == 1 {
			text = fmt.Sprintf("bad %d\n", n)
		}
		write(t, path+".tmp", text)
		rename(t, path+".tmp", path)
		r.wants(t, text)
	}
}
