package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// proxy is one of those that are measured.
type proxy struct {
	name   string
	limits bool
	// command returns how it is run, with its configuration in dir. An empty listen
	// lets it choose, and say so on its first line.
	command func(dir, listen, upstream string) (argv []string, err error)
	chooses bool // listens where it likes
	stores  bool // in the redis-server, whose figures are added to its own
}

// redisServer is the store of those that have one.
var redisServer = proxy{name: "redis-server", command: func(dir, listen, _ string) ([]string, error) {
	host, port, err := net.SplitHostPort(listen)
	return []string{"redis-server", "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", dir}, err
}}

// proxies are all that can be run here.
func (b *bench) proxies() []proxy {
	all := []proxy{
		{name: "gateway", limits: true, command: gatewayCommand(b.gateway, "", "admin: off\nlog: { access: off }\n")},
		{name: "gateway net_http", limits: true, command: gatewayCommand(b.gateway, "net_http", "admin: off\nlog: { access: off }\n")},
		{name: "gateway access log", limits: true, command: gatewayCommand(b.gateway, "", "admin: \"127.0.0.1:0\"\nlog: { access: json }\n")},
	}
	if b.store != nil {
		all = append(all, proxy{name: "gateway redis", limits: true, stores: true, command: gatewayCommand(b.gateway, "",
			fmt.Sprintf("admin: off\nlog: { access: off }\nstore: { redis: { url: \"redis://%s\", replicas: 1 } }\n", b.store.addr))})
	}
	if b.versus != "" {
		all = append(all, proxy{name: "the other gateway", limits: true, command: gatewayCommand(b.versus, "", "admin: off\nlog: { access: off }\n")})
	}
	all = append(all,
		proxy{name: base, command: self("reverseproxy"), chooses: true},
		proxy{name: limiting, limits: true, command: self("xrate"), chooses: true},
		proxy{name: "fasthttp + x/time/rate", limits: true, command: self("fasthttp"), chooses: true},
	)
	for _, p := range []proxy{
		{name: "nginx", limits: true, command: nginx}, {name: "haproxy", limits: true, command: haproxy},
		{name: "traefik", limits: true, command: traefik}, {name: "caddy", command: caddy("")},
	} {
		if _, err := exec.LookPath(p.name); err != nil {
			fmt.Fprintf(os.Stderr, "%s is not installed, and left out\n", p.name)
			continue
		}
		if p.name == "caddy" && caddyLimits() {
			p = proxy{name: "caddy + rate_limit", limits: true, command: caddy(caddyRates)}
		}
		all = append(all, p)
	}
	return all
}

func self(what string) func(dir, listen, upstream string) ([]string, error) {
	return func(_, _, upstream string) ([]string, error) {
		path, err := os.Executable()
		return []string{path, "-serve", what, "-upstream", upstream}, err
	}
}

func gatewayCommand(binary, transport, rest string) func(dir, listen, upstream string) ([]string, error) {
	return func(dir, listen, upstream string) ([]string, error) {
		if transport != "" {
			transport = ", transport: " + transport
		}
		path := filepath.Join(dir, "gateway.yaml")
		return []string{binary, "run", "-c", path}, os.WriteFile(path, fmt.Appendf(nil, `listen: %q
upstreams: { up: { servers: "http://%s"%s } }
routes: [{ upstream: up }]
rules:
  - { name: key, key: header.X-Api-Key, limit: 1000000/s }
  - { name: address, limit: 1000000/s }
  - { name: none, match: /refused, key: global, limit: 1/d }
%s`, listen, upstream, transport, rest), 0o600)
	}
}

func nginx(dir, listen, upstream string) ([]string, error) {
	path := filepath.Join(dir, "nginx.conf")
	return []string{"nginx", "-c", path, "-p", dir}, os.WriteFile(path, fmt.Appendf(nil, `daemon off; worker_processes 2; pid %[1]s/pid; error_log %[1]s/error crit;
events { worker_connections 4096; }
http {
 access_log off; keepalive_requests 1000000000; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
 fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
 limit_req_zone $http_x_api_key zone=a:10m rate=1000000r/s; limit_req_zone $server_port zone=b:1m rate=1r/m;
 limit_req_status 429; limit_req_log_level info;
 upstream u { server %[3]s; keepalive 512; keepalive_requests 1000000000; }
 server { listen %[2]s;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
  location / { limit_req zone=a burst=1000000 nodelay; proxy_pass http://u; }
  location /refused { limit_req zone=b; proxy_pass http://u; }
 }
}
`, dir, listen, upstream), 0o600)
}

func haproxy(dir, listen, upstream string) ([]string, error) {
	path := filepath.Join(dir, "haproxy.cfg")
	return []string{"haproxy", "-f", path}, os.WriteFile(path, fmt.Appendf(nil, `global
 nbthread 2
defaults
 mode http
 timeout connect 5s
 timeout client 60s
 timeout server 60s
 http-reuse always
frontend f
 bind %s
 stick-table type string len 32 size 100k expire 10m store http_req_rate(10s)
 http-request track-sc0 req.hdr(X-Api-Key)
 http-request deny deny_status 429 if { path /refused } { sc_http_req_rate(0) gt 1 }
 http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000000 }
 option forwardfor
 default_backend b
backend b
 server s %s
`, listen, upstream), 0o600)
}

// traefik refuses before it asks the limits that let pass, so that it need not give
// back what those have taken.
func traefik(dir, listen, upstream string) ([]string, error) {
	path, routes := filepath.Join(dir, "traefik.yaml"), filepath.Join(dir, "routes.yaml")
	return []string{"traefik", "--configFile=" + path}, errors.Join(os.WriteFile(path, fmt.Appendf(nil, `global: { checkNewVersion: false, sendAnonymousUsage: false }
log: { level: ERROR }
entryPoints: { web: { address: %q } }
serversTransport: { maxIdleConnsPerHost: 1024 }
providers: { file: { filename: %q, watch: false } }
`, listen, routes), 0o600), os.WriteFile(routes, fmt.Appendf(nil, `http:
  routers:
    all: { rule: "PathPrefix(%[1]s/%[1]s)", service: up, middlewares: [key, address] }
    refused: { rule: "PathPrefix(%[1]s/refused%[1]s)", service: up, middlewares: [none, key, address] }
  middlewares:
    key: { rateLimit: { average: 1000000, burst: 1000000, sourceCriterion: { requestHeaderName: X-Api-Key } } }
    address: { rateLimit: { average: 1000000, burst: 1000000 } }
    none: { rateLimit: { average: 1, period: 24h, sourceCriterion: { requestHost: true } } }
  services: { up: { loadBalancer: { servers: [{ url: "http://%[2]s" }] } } }
`, "`", upstream), 0o600))
}

// caddyLimits reports whether the caddy that is installed has been built with
// mholt/caddy-ratelimit.
func caddyLimits() bool {
	modules, err := exec.Command("caddy", "list-modules").Output()
	return err == nil && strings.Contains(string(modules), "http.handlers.rate_limit")
}

// caddyRates are two rules that match a request that passes, and one that refuses.
const caddyRates = `{"handler": "rate_limit", "rate_limits": {
   "key": {"key": "{http.request.header.X-Api-Key}", "window": "1s", "max_events": 200000},
   "address": {"key": "{http.request.remote.host}", "window": "1s", "max_events": 200000},
   "none": {"match": [{"path": ["/refused"]}], "key": "all", "window": "24h", "max_events": 1}
  }}, `

// caddy has no limits unless it is built with a module for them; limits is its handler.
func caddy(limits string) func(dir, listen, upstream string) ([]string, error) {
	return func(dir, listen, upstream string) ([]string, error) {
		path := filepath.Join(dir, "caddy.json")
		return []string{"caddy", "run", "--config", path}, os.WriteFile(path, fmt.Appendf(nil, `{
 "admin": {"disabled": true, "config": {"persist": false}},
 "storage": {"module": "file_system", "root": %q},
 "logging": {"logs": {"default": {"level": "ERROR"}}},
 "apps": {"http": {"servers": {"s": {"listen": [%q], "automatic_https": {"disable": true}, "routes": [{"handle": [%s{
  "handler": "reverse_proxy", "upstreams": [{"dial": %q}],
  "transport": {"protocol": "http", "compression": false, "keep_alive": {"max_idle_conns_per_host": 1024}}
 }]}]}}}}
}
`, dir, listen, limits, upstream), 0o600)
	}
}

// running is a proxy that runs.
type running struct {
	proxy
	addr         string
	cmd          *exec.Cmd
	store        *running // nil without one
	idle, loaded float64  // memory, in MB
}

// start runs p in front of upstream, where it has one, and waits until it answers.
func (b *bench) start(ctx context.Context, p proxy, upstream string) (*running, error) {
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &running{proxy: p, addr: l.Addr().String()}
	if p.stores {
		r.store = b.store
	}
	l.Close()
	argv, err := p.command(dir, r.addr, upstream)
	if err != nil {
		return nil, err
	}
	r.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(os.Interrupt) }
	r.cmd.WaitDelay = 5 * time.Second
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r.cmd.Stderr = log
	if p.chooses || p.name == "upstream" {
		out, err := r.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := r.cmd.Start(); err != nil {
			return nil, err
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("%s said no address: %w", p.name, err)
		}
		r.addr = strings.TrimSpace(line)
		return r, nil
	}
	r.cmd.Stdout = log
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		if err = answers(r.addr, upstream); err == nil {
			return r, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.end()
	said, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s does not answer: %w\n%s", p.name, err, said)
}

// answers returns an error while addr takes no connections, or, with an upstream, does
// not lead there: some read their routes only when they take connections already.
func answers(addr, upstream string) error {
	if upstream != "" {
		return load(addr, works[0], 1, 1)
	}
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err
}

// end ends r and waits for it.
func (r *running) end() {
	r.cmd.Process.Signal(os.Interrupt)
	done := make(chan struct{})
	go func() { r.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		r.cmd.Process.Kill()
		<-done
	}
}
