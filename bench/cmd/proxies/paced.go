package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
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
	took, begin := make([][]time.Duration, conns), time.Now()
	err := onEach(addr, conns, func(i int, c net.Conn, r *bufio.Reader) error {
		for k := i; k < n; k += conns {
			time.Sleep(time.Until(begin.Add(time.Duration(k) * time.Second / perSecond)))
			sent := time.Now()
			if _, err := io.WriteString(c, works[0].request); err != nil {
				return err
			}
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				return err
			}
			if got, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 || got != answerSize {
				return fmt.Errorf("status %d with %d bytes: %v", res.StatusCode, got, err)
			}
			took[i] = append(took[i], time.Since(sent))
		}
		return nil
	})
	all := slices.Concat(took...)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
