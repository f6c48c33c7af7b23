package replay

import (
	"bytes"
	"errors"
	"time"
)

// haproxyCut is how long the lines are at least that HAProxy cuts: at 1024 bytes
// unless told otherwise.
const haproxyCut = 1000

var errHAProxy = errors.New("not a line of option httplog")

// parseHAProxy reads HAProxy's HTTP log, with or without what syslog puts before it:
//
//	haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"
//
// Its times are those of the clock on its wall, without a zone.
func parseHAProxy(line []byte, r *Record, _ *reading) error {
	open := bytes.Index(line, []byte(" ["))
	for open >= 0 { // syslog's own time may stand in brackets too
		rest := line[open+2:]
		if len(rest) > 24 && rest[24] == ']' && rest[23] != ' ' && rest[2] == '/' {
			break
		}
		next := bytes.Index(rest, []byte(" ["))
		if next < 0 {
			return errHAProxy
		}
		open += 2 + next
	}
	if open < 0 {
		return errHAProxy
	}
	client := line[bytes.LastIndexByte(line[:open], ' ')+1 : open]
	if i := bytes.LastIndexByte(client, ':'); i > 0 && client[0] != '[' {
		client = client[:i]
	}
	var err error
	if r.Client, err = parseClient(client); err != nil {
		return err
	}
	if r.At, err = clfTime(line[open+2:open+26], nil); err != nil {
		return err
	}
	rest := line[open+27:]
	next := func() []byte {
		rest = bytes.TrimLeft(rest, " ")
		i := bytes.IndexByte(rest, ' ')
		if i < 0 {
			i = len(rest)
		}
		word := rest[:i]
		rest = rest[i:]
		return word
	}
	next()           // frontend
	next()           // backend/server
	timers := next() // TR/Tw/Tc/Tr/Ta
	total := bytes.TrimPrefix(timers[bytes.LastIndexByte(timers, '/')+1:], []byte("+"))
	if bytes.Count(timers, []byte("/")) != 4 {
		return errHAProxy
	}
	if string(total) != "-1" {
		d, ok := durationIn(total, time.Millisecond)
		if !ok {
			return errDuration
		}
		r.more().Duration = d
	}
	if r.Status, err = parseStatus(next()); err != nil {
		return err
	}
	quote := bytes.IndexByte(rest, '"')
	last := bytes.LastIndexByte(rest, '"')
	if quote >= 0 && last == quote && len(line) >= haproxyCut {
		last = len(rest) // so long a request has lost its end already when it was logged
	}
	if quote < 0 || last == quote {
		return errors.New("the request is missing or cut off")
	}
	// option httpslog writes more behind it, without quotes
	request := rest[quote+1 : last]
	if string(request) == "<BADREQ>" {
		r.NoRequest = true
		return nil
	}
	r.request(request)
	return nil
}
