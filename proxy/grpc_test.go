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

func TestGRPCIsToldOfEveryRefusalInItsOwnWay(t *testing.T) {
	s := newSite(t, `
upstreams: { a: UPSTREAM, dead: "http://127.0.0.1:1" }
block: { header.X-Bad: "*" }
overload: { max_in_flight: 1000 }
body_limit: 100B
routes:
  - { match: "/dead/**", upstream: dead }
  - { match: "/large/**", upstream: a, max_body: 1B }
  - { match: "/**", upstream: a }
rules:
  - { name: calls, match: /calls/Do, limit: 1/h, reject: { status: 403, body: no, headers: { X-Why: "{rule}" } } }
  - { name: named, match: /named/Do, key: header.X-Key, missing: reject, limit: 9/h }
  - { name: login, match: /login/Do, key: body.username, limit: 9/h, fail: closed }
`, nil)
	call := func(c *http.Client, contentType, path string, header ...string) *http.Response {
		req, _ := http.NewRequest("POST", "http://"+s.addr+path, strings.NewReader("\x00\x00\x00\x00\x02hi"))
		req.Header.Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || len(body) > 0 || len(res.Trailer) > 0 {
			t.Errorf("%s %s: body %q %v, trailers %v", contentType, path, body, err, res.Trailer)
		}
		return res
	}
	if r := s.get("/calls/Do"); r.StatusCode != 200 { // all that follow are over the limit
		t.Fatal(r.StatusCode)
	}
	both(t, func(t *testing.T, c *http.Client) {
		for _, contentType := range []string{"application/grpc", "application/grpc+proto", "Application/GRPC;x=y", "application/grpc-web+proto", "application/grpc-web-text"} {
			for _, row := range []struct {
				path, code, retry, message string
				header                     []string
			}{
				{"/calls/Do", "8", "3600", `Over the limit of rule "calls"`, nil},
				{"/named/Do", "13", "", `Rule "named" needs header.X-Key`, nil},
				{"/login/Do", "13", "", `Rule "login" cannot tell body.username`, nil},
				{"/large/Do", "8", "", "longer than this route takes", nil},
				{"/dead/Do", "14", "", "cannot be reached", nil},
				{"/calls/Do", "7", "", "blocked", []string{"X-Bad", "1"}},
				{"/a//../Do", "13", "", "path", nil},
			} {
				r := call(c, contentType, row.path, row.header...)
				h := r.Header
				if r.StatusCode != 200 || h.Get("Grpc-Status") != row.code || !strings.Contains(h.Get("Grpc-Message"), row.message) || h.Get("Content-Type") != contentType || h.Get("X-Request-Id") == "" {
					t.Errorf("%s %s: %d %v, want grpc-status %s and %q", contentType, row.path, r.StatusCode, h, row.code, row.message)
				}
				// A clock goes on.
				if retry := h.Get("Retry-After"); retry != row.retry && (row.retry == "" || len(retry) != 4 || retry < "3500") {
					t.Errorf("%s %s: Retry-After %q, want %q", contentType, row.path, retry, row.retry)
				}
				if row.code == "8" && row.retry != "" && h.Get("X-Why") != "calls" {
					t.Errorf("%s: the headers of reject are not there: %v", row.path, h)
				}
			}
		}
		for _, contentType := range []string{"application/json", "application/grpcx", "application/gr", ""} {
			req, _ := http.NewRequest("POST", "http://"+s.addr+"/calls/Do", strings.NewReader("x"))
			req.Header.Set("Content-Type", contentType)
			if res, err := c.Do(req); err != nil || res.StatusCode != 403 {
				t.Errorf("%q: %v, %v; want the file's 403", contentType, res, err)
			} else {
				res.Body.Close()
			}
		}
	})
	if n := s.gateway.Current().rules.Rule("calls").Base.Live.Rejected.Load(); n != 18 {
		t.Errorf("the rule has refused %d, want 18", n)
	}
}
