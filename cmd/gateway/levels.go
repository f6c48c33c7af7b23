package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// levels keeps what clients have used in a file, for the next start. Its methods
// must not run at the same time.
type levels struct {
	path string // "" keeps nothing
	log  *slog.Logger
	now  func() limit.Instant
	set  func() *rules.Set

	mine    *os.File // the file as it was read or written last, locked; nil is none
	changed bool     // what it should hold, since it was written last
	failing bool     // to write it; it has been said
}

// Writing takes at most a hundredth of the time, and comes at least each five minutes.
const (
	writeShare = 100
	oftenest   = 10 * time.Second
	rarest     = 5 * time.Minute
)

// check makes sure that the file can be written. It leaves nothing behind but the
// folder, and changes nothing that the file holds.
func (l *levels) check() error {
	if l.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return bare(err)
	}
	if info, err := os.Stat(l.path); err == nil && !info.Mode().IsRegular() {
		return errNoFile
	}
	f, err := l.temporary()
	if errors.Is(err, errTaken) {
		return nil // the other one can, and may be about to end
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return bare(os.Remove(f.Name()))
}

// load makes the keys of set, which is not in service yet, go on where the last
// process was, and says how that went. It never fails: then all start afresh.
func (l *levels) load(set *rules.Set) {
	if l.path == "" {
		return
	}
	read, err := l.read(set)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	file := slog.String("file", l.path)
	if err != nil {
		l.log.Warn("levels of the last run cannot be used: every client starts afresh", file, "err", err)
		return
	}
	attrs := []any{file, "keys", read.Keys, "age", read.Age.Round(time.Second)}
	if len(read.Afresh) > 0 {
		attrs = append(attrs, "afresh", strings.Join(read.Afresh, ", "))
	}
	l.log.Info("levels of the last run go on", attrs...)
	if read.Age < 0 {
		l.log.Warn("the clock is behind that of the last run: no time counts as gone by since", file, "by", -read.Age)
	}
	if read.Lost > 0 {
		l.log.Warn("some levels of the last run found no place: raise max_keys or max_memory", file, "keys", read.Lost)
	}
}

func (l *levels) read(set *rules.Set) (rules.LevelsRead, error) {
	f, err := l.take()
	if err != nil {
		return rules.LevelsRead{}, err
	}
	l.mine = f
	info, err := f.Stat()
	if err != nil {
		return rules.LevelsRead{}, bare(err)
	}
	return set.ReadLevels(f, info.Size(), l.now())
}

var errNoFile = errors.New("it is no file")

// errTaken says that the file is another's.
var errTaken = errors.New("another gateway keeps its levels there: give each a file of its own")

// take opens the file and locks it.
func (l *levels) take() (*os.File, error) {
	info, err := os.Stat(l.path)
	switch {
	case err != nil:
		return nil, bare(err)
	case !info.Mode().IsRegular(): // to open a pipe might wait for ever
		return nil, errNoFile
	}
	f, err := os.OpenFile(l.path, os.O_RDONLY, 0)
	if err != nil {
		return nil, bare(err)
	}
	return f, lock(f)
}

// lock locks f for this process, or closes it.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		f.Close()
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errTaken
	}
	return err // a file system without locks says so: better no levels than two gateways in one file
}

// run writes the file now and then until ctx ends.
func (l *levels) run(ctx context.Context) {
	if l.path == "" {
		return
	}
	wait := oftenest
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		began := time.Now()
		l.save()
		wait = min(max(oftenest, writeShare*time.Since(began)), rarest)
	}
}

// save writes the file, if anything was decided since it was written. A failure is said
// once, and leaves what is there as it is.
func (l *levels) save() {
	if l.set().Budget().Changed() {
		l.changed = true
	}
	if l.path == "" || l.mine != nil && !l.changed && !l.failing {
		return
	}
	err := l.write()
	switch {
	case err == nil && l.failing:
		l.log.Info("levels are kept again", "file", l.path)
	case err != nil && !l.failing:
		l.log.Warn("levels cannot be kept: after a restart clients are where they were before, or start afresh", "file", l.path, "err", err)
	}
	if l.failing = err != nil; err == nil {
		l.changed = false
	}
}

// write writes the levels of now in the place of the file, as a whole or not at all.
func (l *levels) write() (err error) {
	if err := l.own(); err != nil {
		return err
	}
	f, err := l.temporary()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			f.Close()
		}
	}()
	if _, err := l.set().WriteLevels(f, l.now()); err != nil {
		return bare(err)
	}
	if err := f.Sync(); err != nil {
		return bare(err)
	}
	if err := os.Rename(f.Name(), l.path); err != nil {
		return bare(err)
	}
	if l.mine != nil {
		l.mine.Close()
	}
	l.mine = f
	if dir, err := os.Open(filepath.Dir(l.path)); err == nil { // the name, too
		dir.Sync()
		dir.Close()
	}
	return nil
}

// own makes sure that the file, if there is one, is not another's.
func (l *levels) own() error {
	there, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return bare(err)
	}
	if l.mine != nil {
		if info, err := l.mine.Stat(); err == nil && os.SameFile(info, there) {
			return nil
		}
	}
	f, err := l.take()
	if err != nil {
		return err
	}
	if l.mine != nil {
		l.mine.Close()
	}
	l.mine = f
	return nil
}

// temporary opens an empty file beside the file, locked, for nobody else to read.
func (l *levels) temporary() (*os.File, error) {
	name := filepath.Join(filepath.Dir(l.path), "."+filepath.Base(l.path)+".new")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, bare(err)
	}
	if err := lock(f); err != nil {
		return nil, err
	}
	err = f.Chmod(0o600)
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, bare(err)
	}
	return f, nil
}

// stateProblem places what is wrong with the file of levels in the configuration.
func stateProblem(file *rules.File, err error) error {
	return rules.ErrorList{file.State.Error(fmt.Sprintf("state %q: %v", file.State.Path, err), "name a file that the gateway may write, or state: off")}
}

// bare returns the cause of an error of the file system, without the path.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

// restartNeeded returns what of a new version of the file cannot change while the
// gateway runs, as an error in it.
func restartNeeded(running, file *rules.File) error {
	if running.State.Path == file.State.Path {
		return nil
	}
	msg, hint := needsRestart("state")
	if file.State.Pos.Line > 0 {
		return rules.ErrorList{file.State.Error(msg, hint)}
	}
	return rules.ErrorList{&rules.Error{Pos: rules.Pos{File: file.Name, Line: 1, Col: 1}, Len: 1, Msg: msg, Hint: hint}}
}

// needsRestart says that a setting has changed that cannot while the gateway runs, and
// what to do.
func needsRestart(setting string) (msg, hint string) {
	return setting + " has changed: that needs a restart", "restart the gateway, or put it back as it was"
}
