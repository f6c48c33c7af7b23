package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// speaking starts a server that speaks HTTP/2 from the first byte.
func speaking(t testing.TB, h http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http:", "h2c:", 1)
}

// call makes a unary gRPC call of which nothing but the framing of HTTP matters.
func (s *site) call(c *http.Client, path string) (*http.Response, string) {
	s.t.Helper()
	req, _ := http.NewRequest("POST", "http://"+s.addr+path, strings.NewReader("\x00\x00\x00\x00\x02hi"))
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	res, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(body)
}

func TestGRPCCallsKeepTheirStatus(t *testing.T) {
	up := speaking(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" {
			http.Error(w, "no gRPC", 500)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		if r.URL.Path == "/pkg.Service/Missing" { // trailers only
			w.Header().Set("Grpc-Status", "5")
			w.Header().Set("Grpc-Message", "not there")
			return
		}
		io.Copy(w, r.Body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "fine")
	})
	s := newSite(t, "upstream: "+up+"\nrules: [{ name: calls, limit: 3/h }]\n", nil)
	c := h2c(t)
	res, body := s.call(c, "/pkg.Service/Echo")
	if res.StatusCode != 200 || body != "\x00\x00\x00\x00\x02hi" || res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("Grpc-Message") != "fine" {
		t.Errorf("%d %q, trailers %v", res.StatusCode, body, res.Trailer)
	}
	if got := res.Header.Values("RateLimit"); len(got) != 1 || got[0] != `"calls";r=2;t=1200` {
		t.Errorf("RateLimit %q", got)
	}
	res, _ = s.call(c, "/pkg.Service/Missing")
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "5" || res.Header.Get("Grpc-Message") != "not there" {
		t.Errorf("trailers only: %d %v %v", res.StatusCode, res.Header, res.Trailer)
	}
	s.call(c, "/pkg.Service/Echo")
	res, _ = s.call(c, "/pkg.Service/Echo")
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "8" || res.Header.Get("Retry-After") != "1200" || !strings.Contains(res.Header.Get("Grpc-Message"), "calls") {
		t.Errorf("over the limit: %d %v", res.StatusCode, res.Header)
	}
	if res.Header.Get("Content-Type") != "application/grpc" {
		t.Errorf("Content-Type %q", res.Header.Get("Content-Type"))
	}
	// The same rule refuses an ordinary request with 429.
	if r := s.get("/"); r.StatusCode != 429 {
		t.Errorf("JSON over the limit: %d, want 429", r.StatusCode)
	}
}

func TestGRPCHearsOfADeadUpstreamAsUnavailable(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSite(t, "upstream: h2c://127.0.0.1:1\nrules: []\n", nil)
	res, _ := s.call(h2c(t), "/pkg.Service/Echo")
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "14" {
		t.Errorf("%d %v, want grpc-status 14", res.StatusCode, res.Header)
	}
	namesNoAddress(t, res.Header.Get("Grpc-Message"))
}
