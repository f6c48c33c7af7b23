package proxy

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// spare holds file descriptors open that nobody needs, to have some to give when
// the process has none left: those who look after the gateway must get in then
// of all times. It is safe for concurrent use; the zero spare holds none.
type spare struct {
	mu    sync.Mutex
	want  int
	files []*os.File

	open func() (*os.File, error) // takes one; nil is the usual way
}

// keep makes want the number of descriptors that are held.
func (s *spare) keep(want int) {
	s.mu.Lock()
	s.want = want
	for len(s.files) > want {
		s.drop()
	}
	s.mu.Unlock()
	s.fill()
}

// fill takes what is missing, as far as it can be had, and reports whether nothing
// is missing any more.
func (s *spare) fill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.files) < s.want {
		take := s.open
		if take == nil {
			take = func() (*os.File, error) { return os.Open(os.DevNull) }
		}
		f, err := take()
		if err != nil {
			return false
		}
		s.files = append(s.files, f)
	}
	return true
}

// lend gives one back to the process if err says that it has none left, and
// reports whether to try again.
func (s *spare) lend(err error) bool {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) == 0 {
		return false
	}
	s.drop()
	return true
}

func (s *spare) drop() {
	last := len(s.files) - 1
	s.files[last].Close()
	s.files = s.files[:last]
}
