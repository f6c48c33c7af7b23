package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gateway/proxy"
	"gateway/rules"
)

// Config is what the admin listener shows and can do. All fields but Dropped,
// AllDryRun, Connections, History, Logger, Token and Expiries are required.
type Config struct {
	// Gateway is the front door whose figures are shown.
	Gateway *proxy.Gateway
	// Ready says whether traffic is welcome.
	Ready func() bool
	// Reload reads the file now and returns what changed. Its error has the
	// errors of the file in it.
	Reload func(context.Context) (string, error)
	// Settings returns all settings in force without secrets, as YAML or as JSON.
	Settings func(asJSON bool) ([]byte, error)
	// DryRun makes a rule in force a dry run, or enforced, until the next reload; the
	// error says why it cannot be. A name that no rule has changes nothing.
	DryRun func(rule string, on bool) error
	// AllDryRun says that every rule is a dry run, whatever the file says.
	AllDryRun bool
	// Reloads returns how the reloads went so far.
	Reloads func() Reloads
	// Build says what runs.
	Build Build
	// Token returns the token that a request must carry, unless it only asks how the
	// gateway does; nil, and one that is not set, is none. Without one nobody but
	// this machine is answered.
	Token func() rules.Secret
	// Dropped returns how many lines of the program's own log were lost; nil is none.
	Dropped func() int64
	// History remembers how fast the counters of rules rise; nil knows of nothing.
	History *History
	// Logger gets a line for each key that is reset or blocked; nil discards it.
	Logger *slog.Logger
	// Connections reads the counters of the public connections; nil is none.
	Connections func() proxy.ConnectionStats
	// Expiries returns when the certificate of each domain ends, the zero time for
	// one that has none; nil is none at all.
	Expiries func() map[string]time.Time
	// Store returns how the store that gateways share does, nil where there is none.
	Store func() *StoreStatus
}

// Reloads says how the reloads went.
type Reloads struct {
	// OK says that the file as it was last seen is in force.
	OK bool
	// Since is when what is in force was loaded, in Unix seconds.
	Since float64
	// Counts has the number of reloads by result.
	Counts map[string]uint64
	// Error is what is wrong with the file as it was last seen; "" with OK.
	Error string
}

// Build says what runs.
type Build struct{ Version, Revision, GoVersion string }

// NewHandler returns the handler of the admin listener.
func NewHandler(c Config) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(c),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.Ready() {
			say(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		say(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		head(w, http.StatusOK, "application/json")
		json.NewEncoder(w).Encode(readStatus(c, time.Now()))
	})
	mux.HandleFunc("GET /{$}", servePage(c))
	keysHandler{c}.register(mux)
	mux.HandleFunc("POST /rules/{rule}", serveRule(c))
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		text, err := c.Reload(r.Context())
		if err != nil {
			say(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		say(w, http.StatusOK, text)
	})
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, r *http.Request) {
		asJSON := r.URL.Query().Get("format") == "json" || strings.HasPrefix(r.Header.Get("Accept"), "application/json")
		text, err := c.Settings(asJSON)
		if err != nil {
			say(w, http.StatusInternalServerError, err.Error())
			return
		}
		kind := "application/yaml"
		if asJSON {
			kind = "application/json"
		}
		head(w, http.StatusOK, kind)
		w.Write(text)
	})
	profiles(mux)
	return guard(c, mux)
}

// profiles serves those of the Go runtime: go tool pprof http://127.0.0.1:9900/debug/pprof/heap.
func profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

func say(w http.ResponseWriter, status int, text string) {
	head(w, status, "text/plain; charset=utf-8")
	fmt.Fprintln(w, strings.TrimRight(text, "\n"))
}

func head(w http.ResponseWriter, status int, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
}

// guard refuses whoever has not the token, and what a web page could make a
// browser send: a request under a name that is not this machine's, or from another
// origin. Whoever has the token is no web page.
func guard(c Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var token rules.Secret
		if c.Token != nil {
			token = c.Token()
		}
		trusted := token.Is(bearer(r))
		switch {
		case trusted || openTo(r):
		case token.IsSet():
			w.Header().Add("WWW-Authenticate", `Bearer realm="gateway"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="gateway", charset="UTF-8"`)
			say(w, http.StatusUnauthorized, "this needs the token of the admin listener: Authorization: Bearer …")
			return
		case !overLoopback(r):
			say(w, http.StatusForbidden, "without a token the admin listener answers to this machine only")
			return
		}
		// What everybody may ask who reaches the listener has the name that others have
		// for this machine.
		if public := openTo(r) && !overLoopback(r); !trusted && !public && !isLocal(r.Host) {
			say(w, http.StatusForbidden, "the admin listener answers to localhost and to IP addresses only, not to "+fmt.Sprintf("%q", r.Host))
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			u, err := url.Parse(origin)
			if err != nil || u.Host != r.Host {
				say(w, http.StatusForbidden, "requests from other origins are refused")
				return
			}
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			say(w, http.StatusForbidden, "requests from other sites are refused")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// openTo reports whether everybody may make the request who reaches the listener:
// it asks how the gateway does.
func openTo(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
		return true
	}
	return false
}

// bearer returns the token that a request carries, or "". A browser sends it as the
// password of any name, and to no page of another name or address than it was
// asked for at.
func bearer(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// overLoopback reports whether the request came to an address that only this
// machine reaches.
func overLoopback(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// isLocal says that host is localhost or an address: a name an attacker's DNS
// can point here is neither.
func isLocal(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil
}
