//go:build unix && (!linux || race)

package upstream

import "syscall"

// The race detector has to see these calls: what was done before a write has been done
// before what was written is read.

// ReadSocket is read(2) of a socket that does not block. It goes on when it is
// interrupted.
func ReadSocket(fd uintptr, p []byte) (int, error) { return told(syscall.Read, fd, p) }

// WriteSocket is write(2), otherwise as ReadSocket.
func WriteSocket(fd uintptr, p []byte) (int, error) { return told(syscall.Write, fd, p) }
