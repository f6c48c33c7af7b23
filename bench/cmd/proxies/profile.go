package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// profile records for so long where the processor time of the gateway goes while it
// does all works at once, with an access log, into the file at path. The compiler
// makes of it what is faster for that.
func (b *bench) profile(ctx context.Context, path string, span time.Duration) error {
	end, err := b.prepare(ctx)
	if err != nil {
		return err
	}
	defer end()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin := l.Addr().String()
	l.Close()
	r, err := b.start(ctx, proxy{name: "gateway", command: gatewayCommand(b.gateway, "", fmt.Sprintf("admin: %q\nlog: { access: json }\n", admin))}, b.upstream.addr)
	if err != nil {
		return err
	}
	defer r.end()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, len(works))
	for _, w := range works {
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				err = load(r.addr, w, b.requests, max(1, b.conns/len(works)))
			}
			stop() // nothing to be profiled any more
			done <- err
		}()
	}
	profile, err := download(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, int(span.Seconds())))
	stop()
	for range works {
		err = errors.Join(err, <-done)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, profile, 0o666)
}

func download(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, res.StatusCode, body)
	}
	return body, err
}
