package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"
)

// serveFast is a proxy that has nothing of net/http, with a Go limiter for each key,
// until ctx ends: what a server in Go can come to that leaves much of HTTP out.
func serveFast(ctx context.Context, l net.Listener, upstream string) error {
	client := &fasthttp.HostClient{
		Addr: upstream, MaxConns: 1024, MaxIdleConnDuration: time.Minute, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true,
	}
	var all sync.Map
	s := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
		limit, key := rate.Limit(1e9), string(ctx.Request.Header.Peek("X-Api-Key"))
		if string(ctx.Path()) == "/refused" {
			limit, key = rate.Every(time.Hour), "refused "+key
		}
		v, ok := all.Load(key)
		if !ok {
			v, _ = all.LoadOrStore(key, rate.NewLimiter(limit, 1))
		}
		if !v.(*rate.Limiter).Allow() && limit < 1 {
			ctx.Response.Header.Set("Retry-After", "3600")
			ctx.Error("too many requests", fasthttp.StatusTooManyRequests)
			return
		}
		ctx.Request.Header.Del("Connection")
		ctx.Request.Header.Set("X-Forwarded-For", ctx.RemoteIP().String())
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error("bad gateway", fasthttp.StatusBadGateway)
		}
		ctx.Response.Header.Del("Connection")
	}}
	defer context.AfterFunc(ctx, func() { s.Shutdown() })()
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
