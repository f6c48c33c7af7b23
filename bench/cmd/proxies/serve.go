package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// answerSize is the length of the upstream's answers.
const answerSize = 1024

// be is one of the servers until ctx ends. It prints its address.
func be(ctx context.Context, what, upstream string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var h http.Handler
	switch what {
	case "upstream":
		body := make([]byte, answerSize)
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			switch r.URL.Path {
			case "/down":
				n, _ := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64)
				w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
				io.CopyN(w, zeros{}, n)
				return
			case "/up":
				w.Header().Set("X-Received", strconv.FormatInt(n, 10))
			}
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Write(body)
		})
	case "reverseproxy":
		h = bare(upstream)
	case "xrate":
		h = limited(bare(upstream))
	case "fasthttp":
		fmt.Println(l.Addr())
		return serveFast(ctx, l, upstream)
	default:
		return fmt.Errorf("-serve %q: must be upstream, reverseproxy, xrate or fasthttp", what)
	}
	fmt.Println(l.Addr())
	s := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// bufferPool is a httputil.BufferPool.
type bufferPool struct{ sync.Pool }

func (b *bufferPool) Get() []byte    { return *b.Pool.Get().(*[]byte) }
func (b *bufferPool) Put(buf []byte) { b.Pool.Put(&buf) }

// bare is a ReverseProxy with what is known to make it fast: a pool of buffers and
// enough idle connections.
func bare(upstream string) http.Handler {
	target := &url.URL{Scheme: "http", Host: upstream}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
		BufferPool: &bufferPool{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}},
	}
}

// limited puts a Go limiter for each key, in a sync.Map, before h.
func limited(h http.Handler) http.Handler {
	var all sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, key := rate.Limit(1e9), r.Header.Get("X-Api-Key")
		if r.URL.Path == "/refused" {
			limit, key = rate.Every(time.Hour), "refused "+key
		}
		l, ok := all.Load(key)
		if !ok {
			l, _ = all.LoadOrStore(key, rate.NewLimiter(limit, 1))
		}
		if !l.(*rate.Limiter).Allow() && limit < 1 {
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		h.ServeHTTP(w, r)
	})
}
