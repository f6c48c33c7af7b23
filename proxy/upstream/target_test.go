package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// targets starts a raw server that reports the target of each request.
func targets(t *testing.T) (addr string, got <-chan string) {
	seen := make(chan string, 100)
	return raw(t, func(c net.Conn, r *bufio.Reader) {
		for {
			head, err := header(r)
			if err != nil {
				return
			}
			line, _, _ := strings.Cut(head, "\r\n")
			seen <- strings.Split(line, " ")[1]
			io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}), seen
}

func TestTargetReachesTheUpstreamByteForByte(t *testing.T) {
	addr, got := targets(t)
	tests := []struct{ base, target, want string }{
		// P11: neither a slash too many nor one lost.
		{"", "/", "/"},
		{"", "/x", "/x"},
		{"", "/x/", "/x/"},
		{"", "//x", "//x"},
		{"/base", "/", "/base/"},
		{"/base", "/x", "/base/x"},
		{"/base", "/x/", "/base/x/"},
		{"/base", "//x", "/base//x"},
		{"/base/", "/", "/base/"},
		{"/base/", "/x", "/base/x"},
		{"/base/", "/x/", "/base/x/"},
		{"/base/", "//x", "/base//x"},
		{"/b%2Fc", "/x", "/b%2Fc/x"},

		// Spellings are the client's.
		{"", "/a%2Fb%41%5c;v=1/./../%2e%2e/%zz", ""}, // refused by net/http
		{"", "/a%2Fb%41%5c;v=1/./../%2e%2e/", "/a%2Fb%41%5c;v=1/./../%2e%2e/"},
		{"", "//a%2Fb//%41/", "//a%2Fb//%41/"},
		{"", "///", "///"},
		{"", `/a|b"<>^{}\caf` + "\xc3\xa9", `/a|b"<>^{}\caf` + "\xc3\xa9"},
		{"", "//a|b", "//a%7Cb"},
		{"", "/admin#x", "/admin%23x"},
		{"", "/*", "/*"},
		{"/base", "//a|b", "/base//a|b"},

		// P13: the query too.
		{"", "/s?a=1;b=2&c=%zz&d=&e&a=3", "/s?a=1;b=2&c=%zz&d=&e&a=3"},
		{"/base", "/s?a=1;b=2&c=%zz&d=&e&a=3", "/base/s?a=1;b=2&c=%zz&d=&e&a=3"},
		{"", "/s?", "/s?"},
		{"", "/s?a?b", "/s?a?b"},
		{"", "//x?y//z", "//x?y//z"},

		// The absolute form is for proxies.
		{"", "http://h.example/x%2F?q", "/x%2F?q"},
		{"", "http://h.example//x", "//x"},
		{"", "http://h.example", "/"},
		{"", "http://h.example?q", "/?q"},
	}
	for _, test := range tests {
		t.Run(test.base+" "+test.target, func(t *testing.T) {
			gw, _, _ := front(t, "http://"+addr+test.base)
			c, r := dial(t, gw)
			send(t, c, "GET "+test.target+" HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n")
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if res.StatusCode != 400 {
					t.Errorf("got %d, want 400", res.StatusCode)
				}
				return
			}
			if got := receive(t, "the request", got); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestStrippedPathMeetsTheBasePath(t *testing.T) {
	addr, got := targets(t)
	tests := []struct{ base, stripped, want string }{
		{"/base", "", "/base"},
		{"/base/", "", "/base"},
		{"/base", "/", "/base/"},
		{"/base", "/x", "/base/x"},
		{"/base", "//x", "/base//x"},
		{"/base", "x", "/base/x"},
		{"", "", "/"},
		{"", "/", "/"},
		{"", "//x", "//x"},
		{"", "x", "/x"},
	}
	for _, test := range tests {
		p := newPool(t, spec(t, "http://"+addr+test.base))
		server, _ := p.Pick(0)
		r := httptest.NewRequest("GET", "/api/anything?q=;", nil)
		p.Forward(httptest.NewRecorder(), r, &Request{Front: &door{}, Server: server, Path: test.stripped})
		if got := receive(t, "the request", got); got != test.want+"?q=;" {
			t.Errorf("base %q, path %q: got %q, want %q", test.base, test.stripped, got, test.want+"?q=;")
		}
	}
}

func TestTargetIsTheSameOverHTTP2(t *testing.T) {
	got := make(chan string, 1)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r.RequestURI }))
	gw, _, _ := front(t, strings.Replace(up.URL, "http:", "h2c:", 1)+"/base")
	for _, target := range []string{"/a%2Fb//%41/?x=;&c=%zz", "//x", `/a|b`} {
		c, r := dial(t, gw)
		send(t, c, "GET "+target+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %v, %v", target, res, err)
		}
		if got := receive(t, "the request", got); got != "/base"+target {
			t.Errorf("got %q, want %q", got, "/base"+target)
		}
	}
}

func TestHostIsTheClientsOrTheServers(t *testing.T) {
	hosts := make(chan string, 1)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hosts <- r.Host }))
	for mode, want := range map[string]string{"preserve": "api.example", "upstream": strings.TrimPrefix(up.URL, "http://")} {
		s := spec(t, up.URL)
		s.Host = mode
		gw := gateway(t, newPool(t, s), &door{})
		req, _ := http.NewRequest("GET", gw.URL, nil)
		req.Host = "api.example"
		res, err := client(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := receive(t, "the request", hosts); got != want {
			t.Errorf("host: %s: got %q, want %q", mode, got, want)
		}
	}
}
