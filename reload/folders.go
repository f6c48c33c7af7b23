package reload

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// gather is how long events are taken as one. It bounds the looks a busy folder
// causes: at most one in this time.
const gather = 10 * time.Millisecond

// folders watches the folders in which a change of the file at path, or of those
// beside it, can show: that of the path as given and that of the file the path
// leads to. Only changed may be used by a goroutine other than the one that calls
// refresh and close.
type folders struct {
	changed chan struct{} // has a value when something happened since it was last emptied

	path       string
	beside     []string
	newWatcher func() (*fsnotify.Watcher, error)
	logger     *slog.Logger

	watcher *fsnotify.Watcher // nil while there is none
	watched []string
	targets map[string]string // by path: the folder of the file the path led to last
	warned  bool              // said that there is no watching
	pumping sync.WaitGroup
}

// newFolders watches nothing until refresh is called.
func newFolders(path string, newWatcher func() (*fsnotify.Watcher, error), logger *slog.Logger) *folders {
	return &folders{
		changed: make(chan struct{}, 1), path: path, newWatcher: newWatcher, logger: logger, targets: map[string]string{},
	}
}

// add makes paths the files beside it, and reports whether that is any change.
func (f *folders) add(paths []string) bool {
	if slices.Equal(paths, f.beside) {
		return false
	}
	f.beside = paths
	for path := range f.targets {
		if path != f.path && !slices.Contains(paths, path) {
			delete(f.targets, path)
		}
	}
	return true
}

// refresh sees to it that the folders where a change can show now are watched. It
// is called before every look, since with any event a folder may have been moved
// away, or the path may lead elsewhere. Where watching is not possible it says so
// once and leaves the matter to polling.
func (f *folders) refresh() {
	err := f.watch(f.wanted())
	switch {
	case err != nil && !f.warned:
		f.logger.Warn("cannot watch the configuration's folder; looking at the file now and then instead",
			"file", f.path, "err", err)
	case err == nil && f.warned:
		f.logger.Info("watching the configuration's folder again", "file", f.path)
	}
	f.warned = err != nil
}

// wanted returns the folders to watch that exist, without symbolic links, so that
// a link in the path that comes to lead elsewhere changes their names.
func (f *folders) wanted() []string {
	var dirs []string
	add := func(dir string) {
		if dir, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, path := range append([]string{f.path}, f.beside...) {
		add(filepath.Dir(path))
		// While the file is gone its last folder stays watched: it may come back there.
		if file, err := filepath.EvalSymlinks(path); err == nil {
			f.targets[path] = filepath.Dir(file)
		}
		if target := f.targets[path]; target != "" {
			add(target)
		}
	}
	return dirs
}

// watch makes dirs what is watched. A folder that is watched already is added once
// more: that costs a system call, changes nothing for the same folder, and watches
// the right one where another has taken its name.
func (f *folders) watch(dirs []string) error {
	if f.watcher == nil {
		w, err := f.newWatcher()
		if err != nil {
			return err
		}
		f.watcher = w
		f.pumping.Go(func() { pump(w.Events, w.Errors, f.changed) })
	}
	for _, dir := range f.watched {
		if !slices.Contains(dirs, dir) {
			_ = f.watcher.Remove(dir) // an error says that it is gone already
		}
	}
	f.watched = f.watched[:0]
	for _, dir := range dirs {
		if err := f.watcher.Add(dir); errors.Is(err, fs.ErrNotExist) {
			continue // gone just now; the file's absence will be reported
		} else if err != nil {
			return err
		}
		f.watched = append(f.watched, dir)
	}
	return nil
}

// close ends the watching and waits for its goroutine.
func (f *folders) close() {
	if f.watcher != nil {
		_ = f.watcher.Close()
	}
	f.pumping.Wait()
}

// pump turns events into values of changed until events is closed. Any event will
// do, and so will an error: it may be that of a full queue, in which events were lost.
func pump(events <-chan fsnotify.Event, errs <-chan error, changed chan<- struct{}) {
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		case _, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
		}
		notify(changed)
		if swallow(events, time.After(gather)) {
			notify(changed)
		}
	}
}

// swallow takes events until the time is up, and reports whether there were any.
func swallow(events <-chan fsnotify.Event, up <-chan time.Time) (more bool) {
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return more
			}
			more = true
		case <-up:
			return more
		}
	}
}

// notify puts a value in changed unless there is one.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
