package replay

import (
	"bytes"
	"errors"
	"io"
)

const (
	maxLine  = 1 << 20   // bytes; what is longer is no line of a log
	peekSize = 256 << 10 // in which a format is found out
	peekMost = 200       // lines that are looked at for it
)

// splitter splits what it reads into lines, in a buffer that fits into the caches
// and grows for long lines alone.
type splitter struct {
	in       io.Reader
	buf      []byte
	from, to int   // what of buf has been read and not handed out
	err      error // why there is no more to read
	long     bool  // what comes next is the rest of a line that is too long
}

func newSplitter(in io.Reader) *splitter { return &splitter{in: in, buf: make([]byte, peekSize)} }

var errLong = errors.New("the line is too long")

// next returns the next line without its end, which stays valid until the call
// after. whole is false for a last line that has no end. Of a line that is too long
// it returns the beginning, and errLong.
func (s *splitter) next() (line []byte, whole bool, err error) {
	if s.long {
		s.skip()
	}
	for seen := 0; ; {
		if i := bytes.IndexByte(s.buf[s.from+seen:s.to], '\n'); i >= 0 {
			line = s.buf[s.from : s.from+seen+i]
			s.from += seen + i + 1
			return trimmed(line), true, nil
		}
		seen = s.to - s.from
		if seen < maxLine && s.err == nil {
			s.fill()
			continue
		}
		line = s.buf[s.from:s.to]
		s.from = s.to
		switch {
		case seen >= maxLine:
			s.long = true
			return line, true, errLong
		case seen > 0 && errors.Is(s.err, io.EOF):
			return trimmed(line), false, nil
		}
		return nil, false, s.err
	}
}

// trimmed returns a line without what editors and Windows put around it: a byte-order
// mark at the start of a file, or of one of several that were put together, and a
// carriage return.
func trimmed(line []byte) []byte {
	if len(line) >= 3 && line[0] == 0xef && line[1] == 0xbb && line[2] == 0xbf {
		line = line[3:]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// skip passes over the rest of a line that is too long.
func (s *splitter) skip() {
	for s.long = false; ; s.fill() {
		i := bytes.IndexByte(s.buf[s.from:s.to], '\n')
		if i >= 0 {
			s.from += i + 1
			return
		}
		if s.from = s.to; s.err != nil {
			return
		}
	}
}

// fill reads more into buf, which keeps what has not been handed out.
func (s *splitter) fill() {
	switch {
	case s.from == s.to:
		s.from, s.to = 0, 0
	case s.to < len(s.buf):
	case s.from > 0:
		s.to = copy(s.buf, s.buf[s.from:])
		s.from = 0
	default:
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for range 100 {
		n, err := s.in.Read(s.buf[s.to:])
		s.to, s.err = s.to+n, err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

// sample returns the first lines, which next returns too.
func (s *splitter) sample() [][]byte {
	for ends := 0; s.err == nil && s.to < len(s.buf) && ends < peekMost; {
		before := s.to
		s.fill()
		ends += bytes.Count(s.buf[before:s.to], []byte("\n"))
	}
	var lines [][]byte
	for head := s.buf[:s.to]; len(head) > 0 && len(lines) < peekMost; {
		line, rest, whole := bytes.Cut(head, []byte("\n"))
		if !whole && len(lines) > 0 {
			break
		}
		if line = trimmed(line); len(line) > 0 {
			lines = append(lines, line)
		}
		head = rest
	}
	return lines
}
