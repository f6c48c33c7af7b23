//go:build !unix

package proxy

import "net"

// rawIO is for systems whose sockets can be used directly.
type rawIO struct{ raw *struct{} }

const (
	nothingThere = iota
	bytesThere
	endThere
)

func (r *rawIO) open(net.Conn)             {}
func (r *rawIO) read([]byte) (int, error)  { panic("proxy: no direct reads here") }
func (r *rawIO) write([]byte) (int, error) { panic("proxy: no direct writes here") }
func (r *rawIO) look() int                 { return nothingThere }
func (r *rawIO) wait() (int, error)        { return nothingThere, net.ErrClosed }
