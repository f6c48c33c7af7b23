package reload

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// besideOf returns the paths that content names: what follows "file " on a line.
func besideOf(data []byte) (paths []string) {
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "file "); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// withBeside makes a Loop follow the files that its content names: what it applies
// is what these hold.
func withBeside(l *Loop) {
	apply := l.Apply
	l.Beside = besideOf
	l.Apply = func(ctx context.Context, data []byte) (Change, error) {
		all := bytes.Clone(data)
		for _, path := range besideOf(data) {
			text, err := l.ReadFile(path)
			if err != nil {
				return Change{}, fmt.Errorf("gateway.yaml:1:1: %s: %w", filepath.Base(path), err)
			}
			all = append(all, text...)
		}
		return apply(ctx, all)
	}
}

func TestEverySaveOfAFileBesideIsNoticed(t *testing.T) {
	for _, style := range styles {
		t.Run(strings.ReplaceAll(style.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			dir, path := t.TempDir(), filepath.Join(t.TempDir(), "main.yaml")
			if style.setUp != nil {
				style.setUp(t, dir, "0\n")
			} else {
				write(t, dir+"/gateway.yaml", "0\n")
			}
			main := "file " + dir + "/gateway.yaml\n"
			write(t, path, main)
			r := onFile(t, path, withBeside)
			r.wants(t, main+"0\n")
			for n := 1; n < 4; n++ {
				text := fmt.Sprintf("%d\n", n)
				style.save(t, dir, text, n)
				r.wants(t, main+text)
			}
			if out, err := r.Trigger(t.Context()); out.Result != Unchanged || err != nil {
				t.Errorf("Trigger = %v, %v; want unchanged", out, err)
			}
			r.nothing(t)
		})
	}
}

func TestAFileNamedLaterIsFollowedFromThenOn(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "main.yaml")
	for _, name := range []string{"a", "b"} {
		mkdir(t, dir+"/"+name)
		write(t, dir+"/"+name+"/keys", name+"1\n")
	}
	a, b := "file "+dir+"/a/keys\n", "file "+dir+"/b/keys\n"
	write(t, path, a)
	r := onFile(t, path, withBeside)
	r.wants(t, a+"a1\n")
	write(t, path, a+b)
	r.wants(t, a+b+"a1\nb1\n")
	write(t, dir+"/b/keys", "b2\n")
	r.wants(t, a+b+"a1\nb2\n")
	write(t, path, b)
	r.wants(t, b+"b2\n")
	write(t, dir+"/a/keys", "a2\n") // nobody names it any more
	write(t, dir+"/b/keys", "b3\n")
	r.wants(t, b+"b3\n")
	write(t, dir+"/b/keys", "b3\n")
	if out, err := r.Trigger(t.Context()); out.Result != Unchanged || err != nil {
		t.Errorf("Trigger = %v, %v; want unchanged", out, err)
	}
	r.nothing(t)
	for _, l := range r.lines(t) {
		if l.Level != "INFO" {
			t.Errorf("log line %+v", l)
		}
	}
}

func TestAFileBesideThatIsGoneIsReportedOnceAndTakenWhenItIsBack(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "main.yaml")
	write(t, dir+"/keys", "1\n")
	main := "file " + dir + "/keys\n"
	write(t, path, main)
	r := onFile(t, path, func(l *Loop) {
		withBeside(l)
		l.Missing, l.Poll = 10*ms, 10*ms
	})
	r.wants(t, main+"1\n")
	do(t, os.Remove(dir+"/keys"))
	for deadline := time.Now().Add(20 * time.Second); r.Status().Reloads[Refused] == 0; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatal("that the file is gone is not noticed")
		}
	}
	if s := r.Status(); s.OK || s.Reloads[Refused] != 1 || !strings.Contains(s.Err.Error(), "keys: no such file") {
		t.Errorf("status %+v", s)
	}
	write(t, dir+"/keys", "1\n")
	for deadline := time.Now().Add(20 * time.Second); !r.Status().OK; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatal("that the file is back is not noticed")
		}
	}
	write(t, dir+"/keys", "2\n")
	r.wants(t, main+"2\n")
}

func TestAFileBesideWithoutAFinalNewlineIsNamed(t *testing.T) {
	dir := t.TempDir()
	l, a := unstarted(t, "file "+dir+"/keys\n")
	withBeside(l)
	l.Unfinished = 10 * ms
	write(t, dir+"/keys", "half")
	out, err := l.Load(t.Context())
	if want := dir + "/keys has no newline at its end; it was used as it is"; err != nil || out.Warning != want {
		t.Errorf("Load = %+v, %v; want the warning %q", out, err, want)
	}
	a.wants(t, "file "+dir+"/keys\nhalf")
	// The hash is that of the configuration alone: echo "file …" | sha256sum.
	if want := contentView([]byte("file " + dir + "/keys\n")).mark.String(); l.Status().Hash != want {
		t.Errorf("hash %s, want %s", l.Status().Hash, want)
	}
}

func TestLoadWithoutAFileBesideIsAnErrorAtOnce(t *testing.T) {
	l, _ := unstarted(t, "file /nowhere/keys\n")
	withBeside(l)
	if out, err := l.Load(t.Context()); out.Result != Refused || err == nil || err.Error() != "gateway.yaml:1:1: keys: no such file or directory" {
		t.Errorf("Load = %v, %v; want refused", out, err)
	}
}

// Apply gets what was judged, or is not called: never what somebody is writing.
func TestApplyReadsWhatWasJudged(t *testing.T) {
	dir := t.TempDir()
	l, _ := unstarted(t, "file "+dir+"/keys\n")
	l.Beside = besideOf
	l.init()
	write(t, dir+"/keys", "whole\n")
	v := l.look()
	write(t, dir+"/keys", "ha")
	if l.hold(v) {
		t.Error("a file that has changed since is held")
	}
	v = l.look()
	if !l.hold(v) {
		t.Error("a file that has not changed is not held")
	}
	write(t, dir+"/keys", "")
	if data, err := l.ReadFile(dir + "/keys"); string(data) != "ha" || err != nil {
		t.Errorf("read %q, %v; want what was held", data, err)
	}
	write(t, dir+"/other", "o")
	if data, err := l.ReadFile(dir + "/other"); string(data) != "o" || err != nil {
		t.Errorf("read %q, %v; want a file nobody named as it is", data, err)
	}
	for _, path := range []string{dir, dir + "/none"} {
		if data, err := ReadFile(path); err == nil || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: read %q, %v; want an error without the path", path, data, err)
		}
	}
}

// A large file is not read at every look, and a change of it is seen all the same.
func TestALargeFileBesideIsReadWhenItHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	text := strings.Repeat("k", alwaysRead) + "\n"
	old := time.Now().Add(-time.Hour)
	save := func(text string, at time.Time) {
		t.Helper()
		write(t, path, text)
		do(t, os.Chtimes(path, at, at))
	}
	save(text, old)
	f := besideFile{path: path}
	f.look()
	first := f.view.mark
	f.view.mark = mark{kind: 'x'} // seen again only if it is read
	if f.look(); f.view.mark.kind != 'x' {
		t.Error("a large file that has not changed is read again")
	}
	for name, change := range map[string]func(){
		"its time": func() { save("x"+text[1:], old.Add(1)) },
		"its size": func() { save("x"+text, old) },
		"another in its place": func() {
			do(t, os.Rename(path, path+"~"))
			save("x"+text[1:], old)
		},
	} {
		save(text, old)
		f := besideFile{path: path}
		f.look()
		change()
		if f.look(); f.view.mark == first || f.view.mark.kind != 'c' {
			t.Errorf("%s: the change is not seen", name)
		}
	}
	// Two saves within the grain of the clock have one time: a young one says nothing.
	now := time.Now()
	save(text, now)
	young := besideFile{path: path}
	young.look()
	save("x"+text[1:], now)
	if young.look(); young.view.mark == first {
		t.Error("the second of two saves at the same time is not seen")
	}
	do(t, os.Remove(path))
	if young.look(); young.view.err == nil {
		t.Error("that the file is gone is not seen")
	}
	save(text, old)
	if young.look(); young.view.mark != first {
		t.Error("that the file is back is not seen")
	}
}

// A secret often stands in its file without a newline. Nothing is waited for then,
// and nothing said.
func TestAWholeFileBesideNeedsNoNewline(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "main.yaml")
	write(t, dir+"/token", "one")
	main := "file " + dir + "/token\n"
	write(t, path, main)
	r := onFile(t, path, func(l *Loop) {
		withBeside(l)
		l.Beside, l.BesideWhole = nil, besideOf
		l.Unfinished = time.Hour
	})
	r.wants(t, main+"one")
	write(t, dir+"/token", "two")
	r.wants(t, main+"two")
	out, err := r.Trigger(t.Context())
	if out.Result != Unchanged || err != nil {
		t.Errorf("Trigger = %v, %v; want unchanged", out, err)
	}
	for _, line := range r.lines(t) {
		if line.Warning != "" {
			t.Errorf("the log warns: %+v", line)
		}
	}
}
