package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"gateway/limit"
)

// File is one log.
type File struct {
	// Name is what it was called on the command line, "-" for the standard input.
	Name string
	// Format is what its lines are, nil for an empty file.
	Format *Format
	// Lines counts its lines, empty ones left out, Unread those that could not be read.
	Lines, Unread int64
	// Damage says why the file could not be read to its end; "" when it was.
	Damage string

	size    int64 // in bytes, compressed; 0 if it is not known
	once    bool  // it can be read only once
	begin   limit.Instant
	reading reading
	in      *input // nil while it is not open
	line    int64  // number of the last one read, empty ones too
	page    *page  // that its next record goes to
}

// reading is what the lines of one log are read with.
type reading struct {
	stamp     timeCache
	wants     *wanted
	unescaped []byte // scratch for texts of one line
}

// input is a file that is open.
type input struct {
	*splitter
	closers []io.Closer
}

// readAtOnce is how many bytes of a compressed file are read at once.
const readAtOnce = 256 << 10

// maxWindow bounds what a zstd file makes its reader remember, in bytes: twice what
// zstd asks for itself unless it is told to by --long.
const maxWindow = 256 << 20

// unpacked says for people what is wrong with a compressed file.
type unpacked struct{ r io.Reader }

// Read implements io.Reader.
func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	return n, faultOfPacked(err)
}

func faultOfPacked(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the compressed data is cut off: %w", err)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("it was compressed with a window of more than %d MiB; pipe it in: zstd -dc --long=31 … | gateway replay -", maxWindow>>20)
	}
	return err
}

// counted counts what is read of a file, for the progress.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

// Read implements io.Reader.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// open opens the file and undoes its compression, which is found out from its
// first bytes.
func (f *File) open(stdin io.Reader, read *atomic.Int64) (*input, error) {
	in := &input{}
	var raw io.Reader = stdin
	f.once = true
	if f.Name != "-" {
		file, err := os.Open(f.Name)
		if err != nil {
			return nil, err
		}
		in.closers = append(in.closers, file)
		info, err := file.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a folder; name its files", f.Name)
		}
		if err != nil {
			in.close()
			return nil, err
		}
		f.once = !info.Mode().IsRegular()
		if !f.once && f.size == 0 {
			f.size = info.Size()
		}
		raw = file
	}
	// A splitter asks for more at once than this holds, so that nothing is copied twice.
	head := bufio.NewReaderSize(counted{raw, read}, 512)
	magic, _ := head.Peek(4)
	var plain io.Reader = head
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bufio.NewReaderSize(head, readAtOnce))
		if err != nil {
			in.close()
			return nil, fmt.Errorf("%s cannot be read: %w", f.Name, faultOfPacked(err))
		}
		in.closers = append(in.closers, z)
		plain = unpacked{z}
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(bufio.NewReaderSize(head, readAtOnce), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			in.close()
			return nil, fmt.Errorf("%s cannot be read: %w", f.Name, faultOfPacked(err))
		}
		in.closers = append(in.closers, z.IOReadCloser())
		plain = unpacked{z}
	case bytes.HasPrefix(magic, []byte("BZh")) || bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X'}) || bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		in.close()
		return nil, fmt.Errorf("%s is compressed in a way that is not known here; gzip and zstd are. Pipe it in: … | gateway replay -", f.Name)
	}
	in.splitter = newSplitter(plain)
	return in, nil
}

func (in *input) close() {
	for i := len(in.closers) - 1; i >= 0; i-- {
		in.closers[i].Close()
	}
}
