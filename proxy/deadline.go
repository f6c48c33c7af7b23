package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// readDeadline is the read deadline of a connection, which the system is told of
// late: net/http moves it half a dozen times in a request, and nearly always
// nobody waits by then. A deadline that comes earlier than the one that is wanted
// is left as it is; whoever it wakes sets the right one and goes on.
//
// The zero value is no deadline. It is safe for concurrent use.
type readDeadline struct {
	wanted atomic.Int64 // 0 is none
	armed  atomic.Int64 // what the system knows of; written under mu
	reads  atomic.Int32 // in progress
	mu     sync.Mutex
}

// epoch is where deadlines are counted from. They keep their monotonic clock.
var epoch = time.Now()

// kicked wakes who reads. It is no deadline that anybody asks for.
var kicked = time.Unix(2, 0)

func sinceEpoch(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if n := int64(t.Sub(epoch)); n != 0 {
		return n
	}
	return 1
}

// want sets the deadline; the zero time is none.
func (d *readDeadline) want(t time.Time, c net.Conn) error {
	d.wanted.Store(sinceEpoch(t))
	if d.reads.Load() > 0 {
		return d.arm(c)
	}
	return nil
}

// begin is to be called before a read of c, end behind it.
func (d *readDeadline) begin(c net.Conn) {
	d.reads.Add(1)
	if want, armed := d.wanted.Load(), d.armed.Load(); want != 0 && (armed == 0 || want < armed) {
		d.arm(c)
	}
}

func (d *readDeadline) end() { d.reads.Add(-1) }

// arm tells the system of the deadline as it is now.
func (d *readDeadline) arm(c net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.armLocked(c)
}

func (d *readDeadline) armLocked(c net.Conn) error {
	want := d.wanted.Load()
	if want == d.armed.Load() {
		return nil
	}
	d.armed.Store(want)
	if want == 0 {
		return c.SetReadDeadline(time.Time{})
	}
	return c.SetReadDeadline(epoch.Add(time.Duration(want)))
}

// early reports, of a read that has come to a deadline, that it was not the one
// that is wanted. That one is set then, and the read is to be tried again.
func (d *readDeadline) early(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.armed.Load() != d.wanted.Load() && d.armLocked(c) == nil
}

// kick wakes a read in progress; it looks again and goes on waiting.
func (d *readDeadline) kick(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed.Load() != sinceEpoch(kicked) {
		d.armed.Store(sinceEpoch(kicked))
		c.SetReadDeadline(kicked)
	}
}
