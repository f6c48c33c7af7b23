package replay

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// allLines reads all lines of in.
func allLines(in io.Reader) (lines []string, whole bool, err error) {
	s := newSplitter(in)
	s.sample() // takes nothing away
	for {
		line, w, err := s.next()
		switch {
		case errors.Is(err, errLong):
			lines = append(lines, "too long")
		case err != nil:
			return lines, whole, err
		default:
			lines, whole = append(lines, string(line)), w
		}
	}
}

// Lines are what is between the ends of lines, however long they are and in however
// small pieces they come.
func TestLinesAreSplitWhereverTheReadsEnd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	lengths := []int{0, 1, 2, 100, 200, peekSize - 1, peekSize, peekSize + 1, 2*peekSize - 1, maxLine - 1, maxLine, maxLine + 1, 3*maxLine + 7}
	for round := range 12 {
		var log bytes.Buffer
		var want []string
		for range 30 {
			n := r.IntN(300)
			if r.IntN(4) == 0 {
				n = lengths[r.IntN(len(lengths))]
			}
			line := strings.Repeat("x", n)
			end := []string{"\n", "\r\n"}[r.IntN(2)]
			log.WriteString(line + end)
			if n+len(end)-1 >= maxLine {
				line = "too long"
			}
			want = append(want, line)
		}
		last := round%2 == 0
		if last {
			log.WriteString("the last")
			want = append(want, "the last")
		}
		for name, in := range map[string]io.Reader{
			"at once": bytes.NewReader(log.Bytes()), "in halves": iotest.HalfReader(bytes.NewReader(log.Bytes())),
			"the end with the rest": iotest.DataErrReader(bytes.NewReader(log.Bytes())), "in pieces": &pieces{log.Bytes(), r},
		} {
			got, whole, err := allLines(in)
			if !errors.Is(err, io.EOF) || whole == last {
				t.Fatalf("%s: whole is %v, %v", name, whole, err)
			}
			if len(got) != len(want) {
				t.Fatalf("%s: %d lines, want %d", name, len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: line %d has %d bytes, want %d", name, i+1, len(got[i]), len(want[i]))
				}
			}
		}
	}
}

// pieces reads a few bytes at a time, and sometimes none.
type pieces struct {
	rest []byte
	r    *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.r.IntN(50_000))], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func TestAFaultOfTheFileIsNoEndOfALine(t *testing.T) {
	broken := errors.New("broken")
	got, _, err := allLines(io.MultiReader(strings.NewReader("one\ntw"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(got) != 1 || got[0] != "one" {
		t.Errorf("%q, %v", got, err)
	}
	got, _, err = allLines(io.MultiReader(strings.NewReader(strings.Repeat("x", 2*maxLine)), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || len(got) != 1 || got[0] != "too long" {
		t.Errorf("of a line that is too long: %q, %v", got, err)
	}
	if _, _, err = allLines(nothing{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("of a file that gives nothing: %v", err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
