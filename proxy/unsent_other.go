//go:build !linux

package proxy

import "net"

func boundUnsent(net.Conn) {}

func untaken(net.Conn) int { return 0 }

func hungUp(net.Conn) bool { return false }
