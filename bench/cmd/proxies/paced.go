package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// paced is the work whose figure is a time, not what it costs: requests that pass,
// sent at a pace that all of the proxies keep up with.
const paced = "paced"

const perSecond = 3000

// latency sends n requests to addr, perSecond of them over all of conns connections, and
// returns the median of the times until the answers were there. A request is timed
// from when it was written, so that a late sender adds nothing.
func latency(addr string, n, conns int) (time.Duration, error) {
	var wg sync.WaitGroup
	took, errs := make([][]time.Duration, conns), make(chan error, conns)
	begin := time.Now()
	for i := range conns {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				errs <- err
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			r := bufio.NewReader(c)
			for k := i; k < n; k += conns {
				time.Sleep(time.Until(begin.Add(time.Duration(k) * time.Second / perSecond)))
				sent := time.Now()
				if _, err := io.WriteString(c, works[0].request); err != nil {
					errs <- err
					return
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					errs <- err
					return
				}
				if got, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 || got != answerSize {
					errs <- fmt.Errorf("status %d with %d bytes: %w", res.StatusCode, got, err)
					return
				}
				took[i] = append(took[i], time.Since(sent))
			}
		})
	}
	wg.Wait()
	close(errs)
	all := slices.Concat(took...)
	if len(all) == 0 {
		return 0, <-errs
	}
	slices.Sort(all)
	return all[len(all)/2], <-errs
}
