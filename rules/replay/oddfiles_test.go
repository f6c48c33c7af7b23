package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"
)

// packed compresses text as a command of that name does; "" leaves it as it is.
func packed(t *testing.T, how string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var z io.WriteCloser
	switch how {
	case "":
		return text
	case "gzip":
		z = gzip.NewWriter(&b)
	case "zstd":
		var err error
		if z, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ways are those of packed.
var ways = []string{"", "gzip", "zstd"}

// replayOf decides the requests of a log by rules that look at nothing but addresses.
func replayOf(t *testing.T, log io.Reader) (*Report, error) {
	t.Helper()
	r, err := Open([]string{"-"}, Options{Stdin: log})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := NewRun(setOf(t, threeRules), "")
	for {
		batch, err := r.Next()
		if err == io.EOF {
			return s.Report(r, Wanted{"clients", 0.001}, 10), nil
		}
		s.Do(batch, nil)
		r.Free(batch)
	}
}

// A byte-order mark is no part of the first line, whatever the format and however it
// is compressed; nor is the one of a second file that was put behind the first.
func TestAByteOrderMarkIsNoPartOfALine(t *testing.T) {
	const mark = "\ufeff"
	for _, c := range lines {
		for _, how := range ways {
			log := mark + c.line + "\r\n" + c.line + "\n" + mark + c.line + "\n" + mark + "\n"
			rep, err := replayOf(t, bytes.NewReader(packed(t, how, []byte(log))))
			if err != nil {
				t.Errorf("%s %s: %v", c.name, how, err)
				continue
			}
			if rep.Lines != 3 || rep.LinesUnread != 0 || rep.Requests != 3 || rep.Files[0].Format != c.format {
				t.Errorf("%s %s: %d lines, %d unread, %d requests, %s: %v", c.name, how, rep.Lines, rep.LinesUnread, rep.Requests, rep.Files[0].Format, rep.Unread)
			}
		}
	}
}

// A log in UTF-16 is told how to be turned into one that can be read.
func TestTextInUTF16IsCalledThat(t *testing.T) {
	for _, mark := range []string{"", "\ufeff"} {
		units := utf16.Encode([]rune(mark + string(combinedLog(5))))
		little, big := make([]byte, 0, 2*len(units)), make([]byte, 0, 2*len(units))
		for _, u := range units {
			little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
		}
		for name, log := range map[string][]byte{"little": little, "big": big} {
			_, err := replayOf(t, bytes.NewReader(log))
			const want = "- is UTF-16 text; turn it into UTF-8: iconv -f UTF-16 -t UTF-8 - | gateway replay -"
			if err == nil || err.Error() != want {
				t.Errorf("%s endian, mark %q: %v", name, mark, err)
			}
		}
	}
}

// A compressed file that is cut off or broken is never taken for a short one.
func TestABrokenFileIsNotAShortOne(t *testing.T) {
	log := combinedLog(3000)
	for _, how := range ways[1:] {
		whole := packed(t, how, log)
		for _, n := range []int{12, 20, 30, len(whole) / 3, len(whole) / 2, len(whole) - 9, len(whole) - 1} {
			for _, broken := range []bool{false, true} {
				bad := bytes.Clone(whole[:n])
				if broken {
					bad = append(bad, bytes.Repeat([]byte("broken"), 100)...)
				}
				path := filepath.Join(t.TempDir(), "access.log")
				if err := os.WriteFile(path, bad, 0o600); err != nil {
					t.Fatal(err)
				}
				r, err := Open([]string{path}, Options{})
				if err != nil {
					if !strings.Contains(err.Error(), "access.log cannot be read: ") {
						t.Errorf("%s, %d bytes, broken %v: %v", how, n, broken, err)
					}
					continue
				}
				s := NewRun(setOf(t, threeRules), "")
				for b, err := r.Next(); err == nil; b, err = r.Next() {
					s.Do(b, nil)
					r.Free(b)
				}
				rep := s.Report(r, Wanted{"clients", 0.001}, 10)
				r.Close()
				if !rep.Damaged || !strings.Contains(rep.Files[0].Damage, "cannot be read any further") {
					t.Errorf("%s, %d bytes, broken %v: %d lines and no word of it: %+v", how, n, broken, rep.Lines, rep.Files)
				}
			}
		}
	}
	// A frame that says to remember 2 GiB.
	_, err := replayOf(t, strings.NewReader("\x28\xb5\x2f\xfd\x00\xa8\x29\x00\x00hello"))
	if err == nil || !strings.Contains(err.Error(), "a window of more than 256 MiB; pipe it in: zstd -dc --long=31") {
		t.Errorf("a window of 2 GiB: %v", err)
	}
}

// endless gives n times the same byte.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.left -= n
	return int(n), nil
}

// allocatedBy returns how many bytes do allocates, what it gives back included.
func allocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A line without an end takes no more memory than a long one, and is one line that
// cannot be read.
func TestALineWithoutAnEndTakesNoMemory(t *testing.T) {
	const long = 24 << 20
	log := combinedLog(100)
	for _, how := range ways {
		tail := []byte("\n" + string(log))
		var in io.Reader = io.MultiReader(bytes.NewReader(log), &endless{long}, bytes.NewReader(tail))
		if how != "" {
			var b bytes.Buffer
			z := io.WriteCloser(gzip.NewWriter(&b))
			if how == "zstd" {
				var err error
				if z, err = zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := io.Copy(z, in); err != nil {
				t.Fatal(err)
			}
			z.Close()
			in = bytes.NewReader(b.Bytes())
		}
		var rep *Report
		var err error
		took := allocatedBy(func() { rep, err = replayOf(t, in) })
		if err != nil {
			t.Fatal(err)
		}
		if rep.Lines != 201 || rep.LinesUnread != 1 || rep.Requests != 200 || rep.Unread[0].Reason != "longer than 1048576 bytes" || rep.Unread[0].Line != 101 {
			t.Errorf("%s: %d lines, %d unread, %d requests: %v", how, rep.Lines, rep.LinesUnread, rep.Requests, rep.Unread)
		}
		if took > 16<<20 {
			t.Errorf("%s: a line of %d MiB took %d MiB", how, long>>20, took>>20)
		}
	}
	if _, err := replayOf(t, &endless{long}); err == nil || !strings.Contains(err.Error(), "no known format of access logs") {
		t.Errorf("nothing but one line without an end: %v", err)
	}
}

// Lines of nearly a MiB each wait in so many bytes, not in so many lines.
func TestLongLinesWaitInFewBytes(t *testing.T) {
	const each, lines = 900 << 10, 220 // of which the window holds a third
	line := `203.0.113.9 - - [01/Oct/2026:00:00:01 +0000] "GET /` + strings.Repeat("x", each) + ` HTTP/1.1" 200 1 "-" "-"` + "\n"
	in, out := io.Pipe()
	go func() {
		out.Write(combinedLog(1)) // by which the format is found out
		for range lines {
			io.WriteString(out, line)
		}
		out.Close()
	}()
	r, err := Open([]string{"-"}, Options{Stdin: in})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that what is in use is needed
	n, most := 0, uint64(0)
	for b, err := r.Next(); err == nil; b, err = r.Next() {
		n += len(b)
		r.Free(b)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	if n != 1+lines {
		t.Errorf("%d records of %d lines", n, 1+lines)
	}
	if most > 140<<20 {
		t.Errorf("%d MiB in use for a window of %d MiB", most>>20, windowBytes>>20)
	}
	t.Attr("memory", fmt.Sprintf("%d MiB in use for a window of %d MiB", most>>20, windowBytes>>20))
}

// Many frames with nothing in them are passed over, in whatever number.
func TestManyFramesAreOneLog(t *testing.T) {
	for _, how := range ways[1:] {
		nothing := packed(t, how, nil)
		if len(nothing) == 0 { // a writer that writes no frame for nothing
			nothing = []byte("\x50\x2a\x4d\x18\x00\x00\x00\x00") // a frame to be skipped
		}
		var b bytes.Buffer
		log := combinedLog(50)
		for i, line := range bytes.SplitAfter(log, []byte("\n")) {
			if i == 0 {
				b.Write(packed(t, how, nil))
			}
			b.Write(bytes.Repeat(nothing, 200))
			if half := len(line) / 2; half > 0 {
				b.Write(packed(t, how, line[:half]))
				b.Write(packed(t, how, line[half:]))
			}
		}
		in := b.Bytes()
		if how == "zstd" && !bytes.HasPrefix(in, []byte("\x28\xb5\x2f\xfd")) {
			in = append(packed(t, how, log), in...)
		}
		rep, err := replayOf(t, bytes.NewReader(in))
		if err != nil {
			t.Errorf("%s: %v", how, err)
			continue
		}
		if rep.Lines%50 != 0 || rep.Lines == 0 || rep.LinesUnread != 0 || rep.Damaged {
			t.Errorf("%s: %s", how, fmt.Sprint(rep.Lines, rep.LinesUnread, rep.Files, rep.Unread))
		}
	}
}
