package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrailersPassAnnouncedOrNot(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(200)
		if r.URL.Path == "/body" {
			io.WriteString(w, "body")
		}
		w.Header().Set("Grpc-Status", "7")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", "no")
	}))
	want := http.Header{"Grpc-Status": {"7"}, "Grpc-Message": {"no"}}
	for _, server := range []string{up.URL, strings.Replace(up.URL, "http:", "h2c:", 1)} {
		gw, _, _ := front(t, server)
		for proto, c := range map[string]*http.Client{"HTTP/1.1": client(t), "HTTP/2": h2cClient(t)} {
			for _, path := range []string{"/body", "/none"} {
				res, _ := get(t, c, gw.URL+path)
				if diff := cmp.Diff(want, res.Trailer); diff != "" {
					t.Errorf("%s to %s%s: trailers (-want +got):\n%s", proto, server, path, diff)
				}
			}
		}
	}
}

// TestBidirectionalStreamFlowsBothWaysAtOnce is what gRPC does: each message is
// sent only when the one before was answered.
func TestBidirectionalStreamFlowsBothWaysAtOnce(t *testing.T) {
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		lines := bufio.NewReader(r.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			fmt.Fprintf(w, "re %s", line)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("Grpc-Status", "0")
	}))
	gw, _, p := front(t, strings.Replace(up.URL, "http:", "h2c:", 1))
	body, w := io.Pipe()
	req, _ := http.NewRequest("POST", gw.URL+"/pkg.Service/Method", body)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	res, err := h2cClient(t).Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("got %v, %v", res, err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for i := range 20 {
		go fmt.Fprintf(w, "message %d\n", i)
		line, err := lines.ReadString('\n')
		if want := fmt.Sprintf("re message %d\n", i); err != nil || line != want {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
	}
	w.Close()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Fatalf("at the end got %q, %v", rest, err)
	}
	if got := res.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("grpc-status: got %q, want 0", got)
	}
	eventually(t, "nothing in flight", func() bool { return p.Stats()[0].InFlight == 0 })
}

func TestTLSServerIsSpokenToInTheBestProtocolItKnows(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s", r.Proto, b)
		}))
		up.EnableHTTP2 = h2
		up.StartTLS()
		t.Cleanup(up.Close)
		p := newPool(t, spec(t, up.URL))
		p.servers[0].h1.TLSClientConfig = up.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		p.servers[0].h1.TLSClientConfig.NextProtos = nil
		gw, c := gateway(t, p, &door{}), client(t)
		want := map[bool]string{false: "HTTP/1.1 body", true: "HTTP/2.0 body"}[h2]
		for range 20 { // also over reused connections
			res, err := c.Post(gw.URL, "", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, res); got != want {
				t.Fatalf("HTTP/2 %v: got %q, want %q", h2, got, want)
			}
		}
	}
}

func TestUntrustedCertificateIsABadGateway(t *testing.T) {
	up := httptest.NewUnstartedServer(http.NotFoundHandler())
	up.Config.ErrorLog = discard
	up.StartTLS()
	t.Cleanup(up.Close)
	gw, d, _ := front(t, up.URL)
	if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d, want 502", res.StatusCode)
	}
	if errs := d.failures(); len(errs) != 1 || !is[*ConnectError](errs[0]) {
		t.Errorf("got %v, want a ConnectError", errs)
	}
}

func TestServerWithoutHTTP2IsABadGateway(t *testing.T) {
	gw, _, _ := front(t, "h2c://"+answering(t, "HTTP/1.1 400 Bad Request\r\n\r\n"))
	if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d, want 502", res.StatusCode)
	}
	gw, _, _ = front(t, "h2c://"+raw(t, func(c net.Conn, r *bufio.Reader) {}))
	if res, _ := get(t, client(t), gw.URL); res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d, want 502", res.StatusCode)
	}
}
