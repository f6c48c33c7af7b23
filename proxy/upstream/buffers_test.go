package upstream

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// steps is a reader that gives so much at a time, or as much as is asked for, and
// notes how much that was.
type steps struct {
	data  []byte
	most  []int // of each Read; the last holds for all that follow
	err   error
	asked []int
}

func (s *steps) Read(p []byte) (int, error) {
	s.asked = append(s.asked, len(p))
	if len(s.data) == 0 {
		return 0, s.err
	}
	n := copy(p[:min(len(p), s.most[0])], s.data)
	s.data = s.data[n:]
	if len(s.most) > 1 {
		s.most = s.most[1:]
	}
	return n, nil
}

func TestABodyGoesThroughALargeBufferWhileItComesFast(t *testing.T) {
	data := make([]byte, 3*largeSize+5)
	for i := range data {
		data[i] = byte(i * 7 / 5)
	}
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		most []int
		err  error
		used int // buffers that others use
		want []int
	}{
		"fast":           {most: []int{largeSize}, err: io.EOF, want: []int{bufferSize, largeSize, largeSize, largeSize}},
		"slow":           {most: []int{bufferSize - 1}, err: io.EOF, want: []int{bufferSize, bufferSize, bufferSize}},
		"slow in midway": {most: []int{bufferSize, largeSize, 100, largeSize}, err: io.EOF, want: []int{bufferSize, largeSize, largeSize, bufferSize, largeSize}},
		"none is free":   {most: []int{largeSize}, err: io.EOF, used: largeMost, want: []int{bufferSize, bufferSize, bufferSize}},
		"broken":         {most: []int{largeSize}, err: broken, want: []int{bufferSize, largeSize}},
	} {
		t.Run(name, func(t *testing.T) {
			for range row.used {
				defer largeBuffers.put(largeBuffers.get())
			}
			src, dst := &steps{data: data, most: row.most, err: row.err}, &bytes.Buffer{}
			n, err := copyBody(dst, src)
			if row.err == io.EOF && err != nil || row.err != io.EOF && err != row.err {
				t.Errorf("error %v", err)
			}
			if n != int64(len(data)) || !bytes.Equal(dst.Bytes(), data) {
				t.Errorf("%d bytes of %d arrived, or others", n, len(data))
			}
			for i, want := range row.want {
				if src.asked[i] != want {
					t.Fatalf("read %d asked for %d bytes, want %d", i, src.asked[i], want)
				}
			}
		})
	}
	if n := largeBuffers.used.Load(); n != 0 {
		t.Errorf("%d buffers are in use at the end", n)
	}
}

// A writer that takes no more ends the copy, and the buffer is free again.
func TestABodyThatNobodyTakesHoldsNoBuffer(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		io.CopyN(io.Discard, r, bufferSize+1)
		r.CloseWithError(io.ErrClosedPipe)
	}()
	n, err := copyBody(w, &steps{data: make([]byte, 2*largeSize), most: []int{largeSize}, err: io.EOF})
	if err != io.ErrClosedPipe || n != bufferSize+1 || largeBuffers.used.Load() != 0 {
		t.Errorf("%d bytes, %v, %d buffers in use", n, err, largeBuffers.used.Load())
	}
}
