package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// echo is an upstream's WebSocket, as far as a gateway can tell: a handshake,
// then bytes that come back as they are. Frames are none of the gateway's business.
func echo(w http.ResponseWriter, r *http.Request) {
	c, brw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	defer c.Close()
	fmt.Fprintf(brw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	brw.Flush()
	io.Copy(c, brw)
}

// webSocket is the client's end.
type webSocket struct {
	net.Conn
	in *bufio.Reader
}

func dialWebSocket(t testing.TB, addr, path string) *webSocket {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	do(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path, addr)
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, &http.Request{Method: "GET"})
	do(t, err)
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("handshake: status %d, want 101", res.StatusCode)
	}
	return &webSocket{c, in}
}

// exchange sends text and must get it back.
func (w *webSocket) exchange(t testing.TB, text string) {
	t.Helper()
	_, err := io.WriteString(w, text)
	do(t, err)
	b := make([]byte, len(text))
	if _, err := io.ReadFull(w.in, b); err != nil || string(b) != text {
		t.Fatalf("got %q (%v), want %q back", b, err, text)
	}
}
