package reload

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// includesOf returns the patterns that content names: what follows "include " on a line.
func includesOf(data []byte) (patterns []string) {
	for line := range strings.Lines(string(data)) {
		if pattern, ok := strings.CutPrefix(strings.TrimSpace(line), "include "); ok {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// withInclude makes a Loop take in the files that its content includes, and follow
// those that these name: what it applies is what all of them hold.
func withInclude(l *Loop) {
	apply := l.Apply
	whole := func(data []byte) ([]byte, error) {
		all := bytes.Clone(data)
		for _, pattern := range includesOf(data) {
			for _, f := range l.ReadIncluded(pattern) {
				if f.Err != nil {
					return nil, f.Err
				}
				all = append(all, f.Data...)
			}
		}
		return all, nil
	}
	l.Include = includesOf
	l.Beside = func(data []byte) []string {
		all, _ := whole(data)
		return besideOf(all)
	}
	l.Apply = func(ctx context.Context, data []byte) (Change, error) {
		all, err := whole(data)
		if err != nil {
			return Change{}, err
		}
		for _, path := range besideOf(all) {
			text, err := l.ReadFile(path)
			if err != nil {
				return Change{}, err
			}
			all = append(all, text...)
		}
		if bytes.Contains(all, []byte("broken")) {
			return Change{}, errors.New("broken")
		}
		return apply(ctx, all)
	}
}

func TestWhatComesAndGoesInAFolderThatIsIncludedIsNoticed(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()+"/main.yaml"
	main := "include " + dir + "/*.yaml\n"
	write(t, path, main)
	r := onFile(t, path, withInclude)
	r.wants(t, main)
	write(t, dir+"/b.yaml", "b\n")
	r.wants(t, main+"b\n")
	write(t, dir+"/a.yaml", "a\n")
	r.wants(t, main+"a\nb\n")
	for _, name := range []string{".hidden.yaml", "a.yaml~", "c.txt", "#a.yaml#", ".a.yaml.swp", "a.yaml.bak"} {
		write(t, dir+"/"+name, "no\n")
	}
	mkdir(t, dir+"/folder.yaml")
	if out, err := r.Trigger(t.Context()); out.Result != Unchanged || err != nil {
		t.Errorf("Trigger = %v, %v; want unchanged", out, err)
	}
	do(t, os.Rename(dir+"/a.yaml", dir+"/z.yaml")) // the same, in another order
	r.wants(t, main+"b\na\n")
	write(t, dir+"/z.yaml.new", "z\n")
	do(t, os.Rename(dir+"/z.yaml.new", dir+"/z.yaml"))
	r.wants(t, main+"b\nz\n")
	do(t, os.Remove(dir+"/b.yaml"))
	r.wants(t, main+"z\n")
	do(t, os.Remove(dir+"/z.yaml"))
	r.wants(t, main)
	r.nothing(t)
}

// A file that an included one names is followed too, and a fault in an included file
// is mended there, though nothing else that it names is known meanwhile.
func TestAnIncludedFileIsMendedWhereItIsBroken(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()+"/main.yaml"
	main, part := "include "+dir+"/*.yaml\n", "file "+dir+"/keys\n"
	write(t, path, main)
	write(t, dir+"/a.yaml", part)
	write(t, dir+"/keys", "1\n")
	r := onFile(t, path, withInclude)
	r.wants(t, main+part+"1\n")
	write(t, dir+"/keys", "2\n")
	r.wants(t, main+part+"2\n")
	write(t, dir+"/a.yaml", "broken\n")
	for deadline := time.Now().Add(20 * time.Second); r.Status().Reloads[Refused] == 0; time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatal("that the included file is broken is not noticed")
		}
	}
	write(t, dir+"/a.yaml", part+"mended\n")
	r.wants(t, main+part+"mended\n2\n")
	write(t, dir+"/keys", "3\n")
	r.wants(t, main+part+"mended\n3\n")
}

// Several saves in one go are one change.
func TestSeveralIncludedFilesAreAppliedTogether(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()+"/main.yaml"
	main := "include " + dir + "/*.yaml\n"
	write(t, path, main)
	r := onFile(t, path, withInclude)
	r.wants(t, main)
	for n := range 20 {
		write(t, dir+"/"+string(rune('a'+n))+".yaml", string(rune('a'+n))+"\n")
	}
	want := main
	for n := range 20 {
		want += string(rune('a'+n)) + "\n"
	}
	for { // on a busy machine the saves may take longer than it takes to settle
		if got := r.next(t); got == want {
			break
		} else if !strings.HasPrefix(want, got) {
			t.Fatalf("applied %q", got)
		}
	}
}

func TestReadIncludedListsWhatCountsInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"20-b.yaml", "10-a.yaml", ".x.yaml", "c.yaml~", "c.yaml.dpkg-new", "c.yaml.rpmsave", "#c.yaml", "plain", "d.yaml.tmp"} {
		write(t, dir+"/"+name, name+"\n")
	}
	mkdir(t, dir+"/sub")
	write(t, dir+"/sub/s.yaml", "s\n")
	do(t, os.Symlink(dir+"/sub/s.yaml", dir+"/30-link.yaml"))
	do(t, os.Symlink(dir+"/nowhere", dir+"/40-dangling.yaml"))
	for pattern, want := range map[string][]string{
		"*.yaml":   {"10-a.yaml", "20-b.yaml", "30-link.yaml", "40-dangling.yaml!"},
		"*":        {"10-a.yaml", "20-b.yaml", "30-link.yaml", "40-dangling.yaml!", "plain"},
		".*.yaml":  {".x.yaml"},
		"c.yaml~":  {"c.yaml~"}, // named in full
		"*/s.yaml": {"sub/s.yaml"},
		"none*":    nil,
		"[":        nil,
	} {
		var got []string
		for _, f := range ReadIncluded(dir + "/" + pattern) {
			name := strings.TrimPrefix(f.Path, dir+"/")
			if f.Err != nil {
				name += "!"
			}
			got = append(got, name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
