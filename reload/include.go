package reload

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Included is a file that a pattern stands for.
type Included struct {
	Path string
	Data []byte // at most a byte more than a configuration may have
	Err  error  // of reading it, without the path
}

// ReadIncluded reads the files that a pattern stands for, sorted by name, as a Loop
// does, without one. A pattern is one of filepath.Match. It stands for no folder, and
// for no file that an editor or a package manager leaves beside the real one: hidden
// ones, unless the pattern begins its last name with a dot too, and backups.
func ReadIncluded(pattern string) []Included { return new(Loop).ReadIncluded(pattern) }

// ReadIncluded reads the files that a pattern stands for: of one that Include named,
// those that the content which is being looked at, or applied, was found with. It is
// for Beside, BesideWhole and Apply, and the caller does not change the data.
func (l *Loop) ReadIncluded(pattern string) []Included {
	files, looked := l.beside.listed[pattern]
	if !looked {
		files = (&beside{}).list(pattern)
	}
	list := make([]Included, len(files))
	for i, f := range files {
		list[i] = Included{Path: f.path, Data: f.view.data, Err: f.view.err}
	}
	return list
}

// glob returns the paths of the files that a pattern stands for, sorted.
func glob(pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	last := filepath.Base(pattern)
	named := !strings.ContainsAny(last, `*?[\`)
	paths = slices.DeleteFunc(paths, func(path string) bool {
		name := filepath.Base(path)
		if !named && (isLeftover(name) || strings.HasPrefix(name, ".") && !strings.HasPrefix(last, ".")) {
			return true
		}
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	})
	slices.Sort(paths)
	return paths
}

// leftovers are what the names of files end in that editors and package managers
// leave, or write for a moment.
var leftovers = []string{
	"~", ".bak", ".orig", ".old", ".save", ".swp", ".swo", ".swx", ".tmp", ".rej", ".rpmsave", ".rpmnew", ".rpmorig",
	".dpkg-old", ".dpkg-new", ".dpkg-dist", ".dpkg-tmp", ".dpkg-bak", ".ucf-old", ".ucf-new", ".ucf-dist", ".pacnew", ".pacsave",
}

func isLeftover(name string) bool {
	return strings.HasPrefix(name, "#") || slices.ContainsFunc(leftovers, func(end string) bool { return strings.HasSuffix(name, end) })
}

// expand looks at the files that the patterns of the content stand for, and returns
// the mark of the content with them: another file, or one less, is another mark.
func (b *beside) expand(main mark) mark {
	if b.patterns == nil {
		b.listed, b.included = nil, nil
		return main
	}
	sum := sha256.New()
	sum.Write(main.sum[:])
	listed := make(map[string][]*besideFile, len(b.patterns))
	old := b.included
	b.included = nil
	for _, pattern := range b.patterns {
		files := (&beside{included: slices.Concat(old, b.included)}).list(pattern)
		listed[pattern] = files
		for _, f := range files {
			io.WriteString(sum, f.path+"\x00")
			sum.Write([]byte{f.view.mark.kind})
			sum.Write(f.view.mark.sum[:])
			if !slices.Contains(b.included, f) {
				b.included = append(b.included, f)
			}
		}
		sum.Write([]byte{0})
	}
	b.listed = listed
	m := mark{kind: 'b'}
	sum.Sum(m.sum[:0])
	return m
}

// list looks at the files that a pattern stands for; those that b knows are taken for
// the same.
func (b *beside) list(pattern string) []*besideFile {
	var files []*besideFile
	for _, path := range glob(pattern) {
		f := &besideFile{path: path, included: true}
		if i := slices.IndexFunc(b.included, func(f *besideFile) bool { return f.path == path }); i >= 0 {
			f = b.included[i]
		}
		f.look()
		files = append(files, f)
	}
	return files
}

// watched returns a path in the folder in which files that the pattern stands for come
// and go, as far as that has no wildcard itself; deeper ones show at the next look.
func watched(pattern string) string {
	dir := filepath.Dir(pattern)
	for strings.ContainsAny(dir, `*?[\`) {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "*")
}
