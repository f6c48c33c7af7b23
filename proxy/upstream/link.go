package upstream

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// errNotQuiet says that a kept connection is closed, or that bytes came on it that
// belong to no request. Nothing was sent on it.
var errNotQuiet = errors.New("the kept connection is not quiet")

// errLongHeader says that the header of an answer is too long.
var errLongHeader = errors.New("the header of the answer is too long")

// link is a connection to a server. It carries one exchange at a time.
type link struct {
	host   string
	own    *conn
	net    net.Conn        // what is read and written
	raw    syscall.RawConn // the socket
	reused bool
	since  int64 // when it became idle
	armed  int64 // the deadline of reads that the system knows of; 0 is none

	br     *bufio.Reader // during an exchange
	left   int64         // how many bytes may be read
	sawEOF bool

	wrote    int64 // in this exchange
	writeErr error
	put      func(fd uintptr) bool // takeOut, made once
	out      []byte                // what takeOut has still to write
	outErr   error
	bounded  bool // the write that waits has a deadline

	wait func(fd uintptr) bool // ready, made once
	x    *exchange             // whose reads have to be looked after; else nil
	asks *exchange             // whose request is to be sent, once nothing is left of the last answer
	into []byte                // what ready reads into
	n    int                   // what ready has read
	err  error
}

// newLink makes a link of what dialer has dialled.
func newLink(c net.Conn, host string) *link {
	own := c.(*conn)
	own.direct = true
	l := &link{host: host, own: own, net: own.Conn}
	if s, ok := l.net.(syscall.Conn); ok {
		l.raw, _ = s.SyscallConn()
	}
	l.wait, l.put = l.ready, l.takeOut
	return l
}

// readers are what answers are read through. Connections have one while they are
// in use only.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// begin prepares l for an exchange.
func (l *link) begin(x *exchange) {
	l.br = readers.Get().(*bufio.Reader)
	l.br.Reset(l)
	l.left = maxAnswerHeader
	l.wrote, l.writeErr = 0, nil
	if x.flight != nil {
		l.x = x
	} else {
		l.disarm()
	}
}

// rest ends an exchange. It is called once, by whom reads.
func (l *link) rest() {
	l.br.Reset(nil)
	readers.Put(l.br)
	l.br, l.asks = nil, nil
	if l.x != nil { // else a body may still be being written, and that looks here: see beginWait
		l.x = nil
	}
}

// unbound lifts the bound of what may be read: an answer's body is as long as it
// likes.
func (l *link) unbound() { l.left = math.MaxInt64 }

// clean reports whether nothing was read behind the answer.
func (l *link) clean() bool { return !l.sawEOF && l.br.Buffered() == 0 }

// Read reads from the server, for br. If a request waits to be sent, it is sent
// first.
func (l *link) Read(p []byte) (n int, err error) {
	if l.left <= 0 {
		return 0, errLongHeader
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	if l.x != nil {
		l.x.beginRead()
	}
	for {
		if l.asks != nil {
			n, err = l.askFirst(p)
		} else {
			n, err = l.net.Read(p)
		}
		if err == nil || n > 0 || l.armed == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		l.armed = 0
		if err = l.x.due(); err != nil {
			break
		}
	}
	if err == io.EOF {
		l.sawEOF = true
	}
	l.left -= int64(n)
	return n, err
}

// Write writes to the server.
func (l *link) Write(p []byte) (int, error) {
	n, err := l.write(p)
	l.wrote += int64(n)
	if err != nil {
		l.writeErr = err
	}
	return n, err
}

// bound sees to it that a read waits no longer than until then. The deadline of the
// last exchange comes before it, mostly, and is left as it is: telling the system
// of another one costs more than to wake for nothing now and then.
func (l *link) bound(then int64) {
	if l.armed == 0 || then < l.armed {
		l.armed = then
		l.net.SetReadDeadline(epoch.Add(time.Duration(then)))
	}
}

// disarm takes the deadline away.
func (l *link) disarm() {
	if l.armed != 0 {
		l.armed = 0
		l.net.SetReadDeadline(time.Time{})
	}
}

// close closes the connection, from any goroutine, also more than once.
func (l *link) close() { l.own.Close() }
