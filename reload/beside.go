package reload

import (
	"crypto/sha256"
	"errors"
	"os"
	"slices"
	"time"
)

const (
	// maxBeside is the most that is read of a file beside the configuration: one
	// more than such a file may have, so that Apply can see that it is too large.
	maxBeside = 64<<20 + 1
	// alwaysRead is how large such a file may be and still be read at every look.
	// A larger one is read when its size, its time or the file itself is another.
	alwaysRead = 1 << 20
	// doubt is how old a file's time must be to say anything: two saves right
	// after one another may have the same.
	doubt = 2 * time.Second
)

// beside looks at the files that the configuration names. It is used by one
// goroutine.
type beside struct {
	names func(data []byte) []string // Loop.Beside
	whole func(data []byte) []string // Loop.BesideWhole
	of    mark                       // the content whose files these are, with what it includes
	files []*besideFile

	include  func(data []byte) []string // Loop.Include
	main     mark                       // the content whose patterns these are
	patterns []string
	included []*besideFile            // each once
	listed   map[string][]*besideFile // by pattern
}

// besideFile is one such file.
type besideFile struct {
	path  string
	whole bool // it need not end with a newline

	included bool        // it is a part of the configuration: its data is kept
	info     os.FileInfo // of when it was read; nil when it could not be
	read     time.Time
	view     view // without the data
}

// look returns v with what the files hold that its content names.
func (b *beside) look(v view) view {
	if v.err != nil {
		return v
	}
	if b.include != nil && v.mark != b.main {
		b.main, b.patterns = v.mark, b.include(v.data)
	}
	of := b.expand(v.mark)
	if of != b.of {
		b.of = of
		old := b.files
		b.files = slices.Clone(b.included)
		b.rename(old, b.names, v.data, false)
		b.rename(old, b.whole, v.data, true)
	}
	if len(b.files) == 0 && b.patterns == nil {
		return v
	}
	sum := sha256.New()
	sum.Write(of.sum[:])
	for _, f := range b.files {
		if !f.included {
			f.look()
		}
		sum.Write([]byte{f.view.mark.kind})
		sum.Write(f.view.mark.sum[:])
		v.beside = append(v.beside, besideView{f.path, f.view.mark, f.most()})
		v.absent = v.absent || f.view.err != nil
		if f.view.unfinished && !f.whole && !v.unfinished {
			v.unfinished, v.which = true, f.path
		}
	}
	v.mark, v.at = mark{kind: 'b'}, time.Now()
	sum.Sum(v.mark.sum[:0])
	return v
}

// rename adds the files that names finds in data to those that are looked at. What
// is known of old ones is kept.
func (b *beside) rename(old []*besideFile, names func([]byte) []string, data []byte, whole bool) {
	if names == nil {
		return
	}
	for _, path := range names(data) {
		if slices.ContainsFunc(b.files, func(f *besideFile) bool { return f.path == path }) {
			continue
		}
		f := &besideFile{path: path}
		if i := slices.IndexFunc(old, func(f *besideFile) bool { return f.path == path }); i >= 0 {
			f = old[i]
		}
		f.whole = whole
		b.files = append(b.files, f)
	}
}

// paths returns the files that are looked at, and one more in each folder in which
// there may come another.
func (b *beside) paths() []string {
	paths := make([]string, 0, len(b.files)+len(b.patterns))
	for _, f := range b.files {
		paths = append(paths, f.path)
	}
	for _, pattern := range b.patterns {
		paths = append(paths, watched(pattern))
	}
	return paths
}

// look reads the file, unless it is large and plainly the same.
func (f *besideFile) look() {
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && info.Size() > alwaysRead && info.Size() == f.info.Size() &&
		info.ModTime().Equal(f.info.ModTime()) && os.SameFile(info, f.info) && f.read.Sub(info.ModTime()) > doubt {
		return
	}
	f.info, f.read = nil, time.Now()
	f.view = readBeside(f.path, f.most())
	if err == nil && f.view.err == nil {
		f.info = info
	}
	if !f.included {
		f.view.data = nil
	}
}

// most is the most that is read of the file.
func (f *besideFile) most() int64 {
	if f.included {
		return maxBytes
	}
	return maxBeside
}

// readBeside reads at most so much of a file beside the configuration.
func readBeside(path string, most int64) view {
	data, err := readAtMost(path, most)
	if err != nil {
		return failedView(bare(err))
	}
	v, n := contentView(data), len(data)
	v.unfinished = int64(n) < most && (n == 0 || data[n-1] != '\n')
	return v
}

// bare returns what went wrong with a file without the file's path.
func bare(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// besideView is what a look found in a file beside the configuration.
type besideView struct {
	path string
	mark mark
	most int64
}

// hold reads the files that v has found, for Apply, and reports whether they hold
// what v found.
func (l *Loop) hold(v view) bool {
	l.held = make(map[string]view, len(v.beside))
	for _, b := range v.beside {
		now := readBeside(b.path, b.most)
		if now.mark != b.mark {
			return false
		}
		l.held[b.path] = now
	}
	return true
}

// ReadFile returns what the file at path holds: of a file that Beside named, what
// it held when the content that is being applied was judged, so that one which
// just then is being saved is not read half. The error does not name the path. It
// is for Apply, and the caller does not change the data.
func (l *Loop) ReadFile(path string) ([]byte, error) {
	v, held := l.held[path]
	if !held {
		v = readBeside(path, maxBeside)
	}
	return v.data, v.err
}

// ReadFile reads a file as a Loop does, without one.
func ReadFile(path string) ([]byte, error) { return new(Loop).ReadFile(path) }
