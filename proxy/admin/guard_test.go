package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"gateway/rules"
)

// Without a token nobody but this machine is answered, whatever address the
// listener has got: that of a connection counts.
func TestWithoutATokenOtherMachinesAreRefused(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	h := guard(Config{Token: func() rules.Secret { return rules.Secret{} }}, next)
	for _, tt := range []struct {
		local, path string
		want        int
	}{
		{"127.0.0.1", "/reload", 204}, {"127.9.9.9", "/reload", 204}, {"::1", "/reload", 204},
		{"10.1.2.3", "/reload", 403}, {"2001:db8::1", "/reload", 403}, {"0.0.0.0", "/reload", 403},
		{"10.1.2.3", "/healthz", 204}, {"10.1.2.3", "/readyz", 204}, {"10.1.2.3", "/metrics", 204},
		{"10.1.2.3", "/metrics/", 403}, {"10.1.2.3", "/Healthz", 403}, {"10.1.2.3", "", 403},
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+tt.path, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(tt.local)})))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s at %s: %d, want %d", tt.path, tt.local, w.Code, tt.want)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://127.0.0.1/reload", nil)
	if h.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("where the address is not known: %d, want 403", w.Code)
	}
}

// Over an address that other machines reach, what needs no token is answered under
// whatever name they have for this one: Prometheus scrapes gateway:9900. All else, and
// all over loopback, a web page could ask for that has made a name point here.
func TestAnotherNameReachesWhatIsOpenToOtherMachines(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	file, err := rules.Parse("gateway.yaml", []byte("upstream: http://127.0.0.1:1\nrules: []\nadmin: { listen: \":9900\", token: t0ken }\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := guard(Config{Token: func() rules.Secret { return file.Admin.Token }}, next)
	for _, tt := range []struct {
		local, path, token string
		want               int
	}{
		{"10.1.2.3", "/metrics", "", 204}, {"10.1.2.3", "/healthz", "", 204}, {"10.1.2.3", "/readyz", "", 204},
		{"10.1.2.3", "/status", "", 401}, {"10.1.2.3", "/status", "t0ken", 204}, {"10.1.2.3", "/debug/pprof/", "", 401},
		{"127.0.0.1", "/metrics", "", 403}, {"127.0.0.1", "/healthz", "", 403}, {"127.0.0.1", "/metrics", "t0ken", 204},
	} {
		r := httptest.NewRequest("GET", "http://gateway.internal:9900"+tt.path, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(tt.local)})))
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s at %s with token %q: %d, want %d", tt.path, tt.local, tt.token, w.Code, tt.want)
		}
		r.Header.Set("Origin", "http://evil.example")
		w = httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code < 400 {
			t.Errorf("%s at %s of another origin: %d", tt.path, tt.local, w.Code)
		}
	}
}
