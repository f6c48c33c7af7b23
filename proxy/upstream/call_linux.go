//go:build !race

package upstream

import (
	"syscall"
	"unsafe"
)

// quick is the most that a call may move that the scheduler is not told of: it holds
// its processor meanwhile.
const quick = 64 << 10

// ReadSocket is read(2) of a socket that does not block, as all sockets of package net
// do not. It goes on when it is interrupted.
//
// The scheduler of the runtime does not hear of it, nor of WriteSocket. It would take
// the processor from under a call of more than 20 µs, which one to a socket often is
// on a busy machine, give it to another thread, and look every 20 µs for the next:
// together that costs as much as the calls. They wait for nobody, so there is nothing
// to be had from it, but where one moves so much that others should go on meanwhile.
func ReadSocket(fd uintptr, p []byte) (int, error) {
	if len(p) > quick {
		return told(syscall.Read, fd, p)
	}
	return untold(syscall.SYS_READ, fd, p)
}

// WriteSocket is write(2), otherwise as ReadSocket.
func WriteSocket(fd uintptr, p []byte) (int, error) {
	if len(p) > quick {
		return told(syscall.Write, fd, p)
	}
	return untold(syscall.SYS_WRITE, fd, p)
}

func untold(number, fd uintptr, p []byte) (int, error) {
	for {
		n, _, err := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch err {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}
