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
	var wg sync.WaitGroup
	errs := make(chan error, conns)
	for range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				errs <- err
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			r := bufio.NewReader(c)
			for sent.Add(1) <= int64(requests) {
				if _, err := io.WriteString(c, w.request); err != nil {
					errs <- err
					return
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					errs <- err
					return
				}
				n, err := io.Copy(io.Discard, res.Body)
				switch {
				case err != nil:
					errs <- err
					return
				case res.StatusCode == 200 && w.status == 429 && passed.Add(1) <= mayPass:
				case res.StatusCode != w.status:
					errs <- fmt.Errorf("status %d, want %d", res.StatusCode, w.status)
					return
				case w.status == 200 && n != answerSize:
					errs <- errors.New("an answer of another length")
					return
				}
				if res.Close {
					errs <- errors.New("the proxy closes its connections")
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}
