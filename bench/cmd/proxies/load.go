package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// work is what the requests of one measurement are.
type work struct {
	name    string
	request string
	status  int
	limited bool // for those proxies that limit
}

var works = []work{
	{"allowed", "GET /allowed?x=1 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\nX-Api-Key: one\r\n\r\n", 200, false},
	{"refused", "GET /refused HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\nX-Api-Key: one\r\n\r\n", 429, true},
	{"posted", "POST /allowed HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"some\":\"thing\"}\n", 200, false},
}

// mayPass is how many requests pass before a limit refuses the rest.
const mayPass = 5

// load sends so many requests to addr over so many connections, each of which
// sends the next when it has the answer.
func load(addr string, w work, requests, conns int) error {
	var sent, passed atomic.Int64
	return onEach(addr, conns, func(_ int, c net.Conn, r *bufio.Reader) error {
		for sent.Add(1) <= int64(requests) {
			if _, err := io.WriteString(c, w.request); err != nil {
				return err
			}
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, res.Body)
			switch {
			case err != nil:
				return err
			case res.StatusCode == 200 && w.status == 429 && passed.Add(1) <= mayPass:
			case res.StatusCode != w.status:
				return fmt.Errorf("status %d, want %d", res.StatusCode, w.status)
			case w.status == 200 && n != answerSize:
				return errors.New("an answer of another length")
			}
			if res.Close {
				return errors.New("the proxy closes its connections")
			}
		}
		return nil
	})
}

// onEach has do use each of so many connections to addr, all at once, for five minutes
// at most. The error is one of those that they returned.
func onEach(addr string, conns int, do func(i int, c net.Conn, r *bufio.Reader) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, conns)
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				errs <- err
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Minute))
			if err := do(i, c, bufio.NewReader(c)); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}
