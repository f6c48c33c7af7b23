package reload

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

var event = fsnotify.Event{Name: "x", Op: fsnotify.Write}

// pumped is a pump with its channels in the hands of a test.
type pumped struct {
	events  chan fsnotify.Event
	errs    chan error
	changed chan struct{}
	running sync.WaitGroup
}

func newPumped() *pumped {
	p := &pumped{events: make(chan fsnotify.Event), errs: make(chan error), changed: make(chan struct{}, 1)}
	p.running.Go(func() { pump(p.events, p.errs, p.changed) })
	return p
}

// drain returns how many values changed had.
func (p *pumped) drain() int {
	n := 0
	for {
		select {
		case <-p.changed:
			n++
		default:
			return n
		}
	}
}

// stop closes the channels in the order fsnotify does.
func (p *pumped) stop() {
	close(p.errs)
	close(p.events)
	p.running.Wait()
}

func TestPumpTakesABurstOfEventsAsOne(t *testing.T) {
	inFolder := func(t *testing.T, test func(f *pumped)) {
		synctest.Test(t, func(t *testing.T) {
			f := newPumped()
			test(f)
			f.stop()
		})
	}
	inFolder(t, func(f *pumped) {
		f.events <- event
		synctest.Wait()
		same(t, "changes after one event", f.drain(), 1) // at once
		for range 1000 {
			f.events <- event
		}
		time.Sleep(gather)
		synctest.Wait()
		same(t, "changes after a burst", f.drain(), 1)
		time.Sleep(time.Second)
		same(t, "changes after silence", f.drain(), 0)
	})
	inFolder(t, func(f *pumped) {
		f.errs <- errors.New("queue overflow")
		synctest.Wait()
		same(t, "changes after an error", f.drain(), 1)
	})
}

// newWatched watches the folders of path, until the test ends.
func newWatched(t *testing.T, path string) *folders {
	t.Helper()
	f := newFolders(path, fsnotify.NewWatcher, (&journal{}).logger())
	t.Cleanup(f.close)
	f.refresh()
	return f
}

// tells fails unless doing act makes f tell of a change.
func tells(t *testing.T, f *folders, act func()) {
	t.Helper()
	for quiet := false; !quiet; { // what is left of the acts before
		select {
		case <-f.changed:
		case <-time.After(3 * gather):
			quiet = true
		}
	}
	act()
	select {
	case <-f.changed:
	case <-time.After(20 * time.Second):
		t.Fatal("no change was told of in 20 s")
	}
}

func TestFolderThatWentAwayAndCameBackIsWatchedAgain(t *testing.T) {
	root := t.TempDir()
	dir, path := filepath.Join(root, "etc"), filepath.Join(root, "etc", "gateway.yaml")
	mkdir(t, dir)
	write(t, path, "a\n")
	f := newWatched(t, path)

	tells(t, f, func() { rename(t, dir, dir+".away") })
	f.refresh()
	rename(t, dir+".away", dir)
	f.refresh() // as the next poll does
	tells(t, f, func() { write(t, path, "b\n") })

	tells(t, f, func() { rename(t, dir, dir+".old") })
	mkdir(t, dir) // another folder of this name
	f.refresh()
	tells(t, f, func() { write(t, path, "c\n") })

	tells(t, f, func() { removeAll(t, dir) })
	f.refresh()
	mkdir(t, dir)
	f.refresh()
	tells(t, f, func() { write(t, path, "d\n") })
}

func TestFolderOfTheTargetIsWatchedWhileTheTargetIsGone(t *testing.T) {
	root := t.TempDir()
	target, path := filepath.Join(root, "data", "file.yaml"), filepath.Join(root, "etc", "gateway.yaml")
	mkdir(t, filepath.Dir(target))
	mkdir(t, filepath.Dir(path))
	write(t, target, "a\n")
	symlink(t, target, path)
	f := newWatched(t, path)
	tells(t, f, func() { removeAll(t, target) })
	f.refresh()
	tells(t, f, func() { write(t, target, "b\n") })
}

func TestFolderThePathNoLongerLeadsToIsLetGo(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "etc", "gateway.yaml")
	mkdir(t, filepath.Dir(path))
	for _, name := range []string{"one", "two"} {
		mkdir(t, filepath.Join(root, name))
		write(t, filepath.Join(root, name, "f"), name+"\n")
	}
	symlink(t, filepath.Join(root, "one", "f"), path)
	f := newWatched(t, path)
	symlink(t, filepath.Join(root, "two", "f"), path+".new")
	rename(t, path+".new", path)
	f.refresh()
	clean, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "watched", f.watched, []string{filepath.Join(clean, "etc"), filepath.Join(clean, "two")})
	same(t, "watched by fsnotify", len(f.watcher.WatchList()), 2)
}

func TestMissingWatcherIsWarnedOfOnceAndTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "a\n")
	log := &journal{}
	exhausted := true
	f := newFolders(path, func() (*fsnotify.Watcher, error) {
		if exhausted {
			return nil, os.NewSyscallError("inotify_init1", syscall.EMFILE)
		}
		return fsnotify.NewWatcher()
	}, log.logger())
	defer f.close()
	for range 5 {
		f.refresh()
	}
	exhausted = false
	f.refresh()
	tells(t, f, func() { write(t, path, "b\n") })
	same(t, "log", log.lines(t), []line{
		{Level: "WARN", Msg: "cannot watch the configuration's folder; looking at the file now and then instead"},
		{Level: "INFO", Msg: "watching the configuration's folder again"},
	})
}

func TestFolderThatDoesNotExistIsNoReasonToWarn(t *testing.T) {
	log := &journal{}
	f := newFolders(filepath.Join(t.TempDir(), "none", "gateway.yaml"), fsnotify.NewWatcher, log.logger())
	defer f.close()
	f.refresh()
	same(t, "log", log.lines(t), []line(nil))
}
