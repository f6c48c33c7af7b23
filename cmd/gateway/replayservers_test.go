package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oddRequests are sent byte for byte to servers that others have made: what they
// write into their logs must be read, to the last line.
var oddRequests = []struct {
	text    string
	request bool // rules are asked about it
}{
	{"GET / HTTP/1.1\r\nHost: api.example.com\r\n", true},
	{"GET /a?b=c&d=%20e HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: say \"hi\" \\ there\r\n", true},
	{"GET /caf%C3%A9/%22quoted%22 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: caf\xc3\xa9 [x]\r\nReferer: http://www.example.com/?\"q\"\r\n", true},
	{"HEAD /head HTTP/1.1\r\nHost: api.example.com\r\n", true},
	{"POST /login HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 3\r\n\r\nabc", true},
	{"DELETE /things/7 HTTP/1.0\r\nHost: api.example.com\r\n", true},
	{"GET http://api.example.com/absolute?x HTTP/1.1\r\nHost: api.example.com\r\n", true},
	{"GET /" + strings.Repeat("long/", 300) + " HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: " + strings.Repeat("u", 2000) + "\r\n", true},
	{"GET //double/./dots/../x HTTP/1.1\r\nHost: api.example.com\r\n", true},
	{"GET /key HTTP/1.1\r\nHost: api.example.com\r\nX-API-Key: k-1\r\n", true},
	{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage of a TLS handshake\r\n", false},
	{"BREW\r\n", false},
}

const serverRules = `
upstream: http://127.0.0.1:1
rules:
  - name: per-ip
    limit: 5/h
  - name: slots
    concurrency: 100
`

// started runs a server until stop is called, and waits until it takes connections.
func started(t *testing.T, addr string, out io.Writer, name string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			cmd.Process.Kill()
			<-ended
			t.Errorf("%s did not end", name)
		}
	}
	t.Cleanup(stop)
	eventually(t, name+" listens", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("%s ended: %v", name, err)
		default:
		}
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return stop
}

// sendOdd sends each of the odd requests on a connection of its own.
func sendOdd(t *testing.T, addr string) {
	t.Helper()
	for _, one := range oddRequests {
		c, err := net.Dial("tcp", addr)
		do(t, err)
		c.SetDeadline(time.Now().Add(patience))
		text := one.text
		if !strings.Contains(text, "\r\n\r\n") {
			text += "Connection: close\r\n\r\n"
		}
		_, err = io.WriteString(c, text)
		do(t, err)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			res.Body.Close()
		} else if one.request {
			t.Errorf("%.40q: %v", one.text, err)
		}
		c.Close()
	}
}

// expectAll replays a log and wants all of it to be read.
func expectAll(t *testing.T, format string, durations bool, log string, more ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, serverRules)
	rep := replayed(t, append([]string{log, "-c", path}, more...)...)
	want := int64(0)
	for _, one := range oddRequests {
		if one.request {
			want++
		}
	}
	if rep.LinesUnread != 0 || rep.Files[0].Format != format {
		t.Errorf("%s: %d lines unread: %+v", rep.Files[0].Format, rep.LinesUnread, rep.Unread)
	}
	r := rep.Rules[0]
	if r.Requests != want || r.Refused != want-5 || r.Clients != 1 || len(r.Top) != 1 || r.Top[0].Key != "127.0.0.1" {
		t.Errorf("%s: %+v, want %d requests, %d refused", format, r, want, want-5)
	}
	if rep.Rules[1].Judged != durations {
		t.Errorf("%s: requests in progress judged: %v", format, rep.Rules[1].Judged)
	}
	if took := time.Since(rep.To); took < -time.Minute || took > time.Hour {
		t.Errorf("%s: the last request was %v ago", format, took)
	}
}

func TestLogsOfNginxAreReadCompletely(t *testing.T) {
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	write(t, filepath.Join(dir, "nginx.conf"), `
daemon off;
worker_processes 1;
pid `+dir+`/pid;
error_log `+dir+`/error.log;
events { worker_connections 64; }
http {
	client_body_temp_path `+dir+`/body;
	proxy_temp_path `+dir+`/proxy;
	fastcgi_temp_path `+dir+`/fastcgi;
	uwsgi_temp_path `+dir+`/uwsgi;
	scgi_temp_path `+dir+`/scgi;
	log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"';
	log_format own '$remote_addr [$time_iso8601] $request_time "$request" $status "$http_x_api_key"';
	log_format common '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent';
	access_log `+dir+`/combined.log combined;
	access_log `+dir+`/main.log main;
	access_log `+dir+`/own.log own;
	access_log `+dir+`/common.log common;
	access_log `+dir+`/zipped.log.gz combined gzip;
	large_client_header_buffers 4 16k;
	server { listen `+addr+`; location / { return 200 "ok\n"; } }
}
`)
	var out output
	stop := started(t, addr, &out, "nginx", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", filepath.Join(dir, "nginx.conf"))
	sendOdd(t, addr)
	stop() // which flushes what is buffered
	expectAll(t, "combined", false, filepath.Join(dir, "combined.log"))
	expectAll(t, "common", false, filepath.Join(dir, "common.log"))
	expectAll(t, "nginx main", false, filepath.Join(dir, "main.log"))
	expectAll(t, "combined", false, filepath.Join(dir, "zipped.log.gz"))
	expectAll(t, "--format", true, filepath.Join(dir, "own.log"), "--format", `$remote_addr [$time_iso8601] $request_time "$request" $status "$http_x_api_key"`)
}

func TestLogsOfCaddyAreReadCompletely(t *testing.T) {
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	write(t, filepath.Join(dir, "Caddyfile"), `
{
	admin off
	auto_https off
}
http://`+addr[strings.LastIndexByte(addr, ':'):]+` {
	bind 127.0.0.1
	log {
		output file `+dir+`/access.log
	}
	respond "ok"
}
`)
	var out output
	stop := started(t, addr, &out, "caddy", "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile")
	sendOdd(t, addr)
	stop()
	if t.Failed() {
		t.Log(out.String())
	}
	expectAll(t, "Caddy JSON", true, filepath.Join(dir, "access.log"))
}

func TestLogsOfHAProxyAreReadCompletely(t *testing.T) {
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	write(t, filepath.Join(dir, "haproxy.cfg"), `
global
	log stdout format raw local0
defaults
	mode http
	log global
	option httplog
	timeout client 10s
	timeout server 10s
	timeout connect 10s
	timeout http-request 10s
frontend in
	bind `+addr+`
	capture request header User-Agent len 32
	http-request return status 200 content-type text/plain string ok
`)
	var out output
	stop := started(t, addr, &out, "haproxy", "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
	sendOdd(t, addr)
	eventually(t, "each request is in the log", func() bool { // which is written behind the answer, and not when it is killed
		asked := 0
		for _, line := range out.lines() {
			if strings.Contains(line, " in ") && !strings.Contains(line, "<BADREQ>") {
				asked++
			}
		}
		return asked >= 10
	})
	stop()
	var log strings.Builder
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "[") { // what it says of itself
			log.WriteString(line)
		}
	}
	path := filepath.Join(dir, "access.log")
	write(t, path, log.String())
	expectAll(t, "HAProxy HTTP", true, path)
}
