//go:build !unix

package upstream

// canBeDirect says whether sockets can be asked here what they hold.
const canBeDirect = false

func (l *link) askFirst([]byte) (int, error) { panic("upstream: no direct connections here") }

func (l *link) ready(uintptr) bool { return true }

func (l *link) takeOut(uintptr) bool { return true }

func (l *link) write(p []byte) (int, error) { return l.net.Write(p) }

func (l *link) quiet() bool { return false }
