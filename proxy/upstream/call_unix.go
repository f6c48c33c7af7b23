//go:build unix

package upstream

import "syscall"

// told is a call of package syscall, which the scheduler is told of. It goes on when
// it is interrupted.
func told(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		if n, err := call(int(fd), p); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
