package reload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// maxBytes is the most that is read of the file: one more than a configuration may
// have, so that Apply can see that it is too large.
const maxBytes = 2<<20 + 1

// view is what one look at the file found: content, or the error of reading it.
type view struct {
	mark       mark
	data       []byte
	err        error
	unfinished bool      // the last byte is not a newline
	sum        mark      // of the content of the configuration alone
	at         time.Time // when the last of its files was read

	beside []besideView // what the files that it names hold, a part of mark
	absent bool         // one of them cannot be read
	which  string       // the one that is unfinished; "" is the configuration
}

// mark tells views apart: equal marks, equal content or equal error. The zero mark
// is no view at all.
type mark struct {
	kind byte // 'c' content, 'e' error, 'b' content and that of files beside it
	sum  [sha256.Size]byte
}

// String returns the first 12 hexadecimal digits of the SHA-256, as sha256sum prints them.
func (m mark) String() string {
	return hex.EncodeToString(m.sum[:6])
}

// readFile looks at the file at path.
func readFile(path string) view {
	data, err := readAtMost(path, maxBytes)
	at := time.Now()
	var v view
	if err != nil {
		v = failedView(fmt.Errorf("reading the configuration: %w", err))
	} else {
		v = contentView(data)
	}
	v.at = at
	return v
}

// contentView is the view of a file that holds data.
func contentView(data []byte) view {
	n := len(data)
	m := mark{'c', sha256.Sum256(data)}
	return view{
		mark:       m,
		sum:        m,
		data:       data,
		unfinished: n < maxBytes && (n == 0 || data[n-1] != '\n'), // what was cut off has no last byte
	}
}

// failedView is the view of a file that cannot be read.
func failedView(err error) view {
	return view{mark: mark{'e', sha256.Sum256([]byte(err.Error()))}, err: err}
}

// readAtMost reads the first n bytes of the regular file at path. It opens without
// blocking: a pipe in the file's place must not stop the loop.
func readAtMost(path string, n int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &os.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	// Of a size that is right but for a file that just grows; io.ReadAll would make
	// a dozen, each larger than the last.
	all := bytes.NewBuffer(make([]byte, 0, min(info.Size(), n)+bytes.MinRead))
	_, err = all.ReadFrom(io.LimitReader(f, n))
	return all.Bytes(), err
}
