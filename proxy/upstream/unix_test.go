package upstream

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"gateway/rules"
)

// socket starts a server on a unix socket.
func socket(t testing.TB, h http.Handler) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return path
}

func TestUnixSockets(t *testing.T) {
	path := socket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, r.Method+" "+r.RequestURI+" "+r.Host+" "+string(body))
	}))
	for base, want := range map[string]string{"": "/x%2Fy?q", ":/base": "/base/x%2Fy?q"} {
		for _, host := range []string{"preserve", "upstream"} {
			f, err := rules.Parse("test.yaml", []byte("upstreams: { api: { servers: 'unix:"+path+base+"', health: /up, host: "+host+" } }\nrules: []\n"))
			if err != nil {
				t.Fatal(err)
			}
			p := newPool(t, &f.Upstreams[0])
			gw := gateway(t, p, &door{})
			wantHost := gw.Listener.Addr().String()
			if host == "upstream" {
				wantHost = "localhost"
			}
			if _, got := get(t, client(t), gw.URL+"/x%2Fy?q"); got != "GET "+want+" "+wantHost+" " {
				t.Errorf("%q: got %q", base, got)
			}
			if err := p.check(t.Context(), p.servers[0]); err != nil {
				t.Errorf("check: %v", err)
			}
			if got := p.Stats()[0].URL.Redacted(); got != "unix:"+path+base {
				t.Errorf("it is called %s", got)
			}
		}
	}
	gone := spec(t)
	gone.Servers = []rules.Server{{URL: spec(t, "unix:/nowhere").Servers[0].URL, Socket: "/nowhere/s"}}
	gw := gateway(t, newPool(t, gone), &door{})
	if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusBadGateway {
		t.Errorf("no socket: got %d, want 502", res.StatusCode)
	}
}
