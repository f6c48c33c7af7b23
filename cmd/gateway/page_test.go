package main

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// walk calls f for each element below n.
func walk(n *html.Node, f func(n *html.Node, attr map[string]string)) {
	if n.Type == html.ElementNode {
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		f(n, attr)
	}
	for c := range n.ChildNodes() {
		walk(c, f)
	}
}

// textOf returns the text below n, its spaces folded.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "script" && d.Parent.Data != "style" {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// page reads the status page, and holds it to what every version of it must be:
// all that runs or styles it has the nonce of its own policy.
func (g *instance) page() *html.Node {
	g.t.Helper()
	a := g.control("GET", "/")
	if a.status != 200 || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
		g.t.Fatalf("/: %d %s", a.status, a.body)
	}
	policy := a.header.Get("Content-Security-Policy")
	nonce := regexp.MustCompile(`script-src 'nonce-([A-Z2-7]{26,})';`).FindStringSubmatch(policy)
	if nonce == nil || !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		g.t.Fatalf("policy %q", policy)
	}
	doc, err := html.Parse(strings.NewReader(a.body))
	do(g.t, err)
	walk(doc, func(n *html.Node, attr map[string]string) {
		if (n.Data == "script" || n.Data == "style") && attr["nonce"] != nonce[1] {
			g.t.Errorf("<%s> without the nonce", n.Data)
		}
		for name, value := range attr {
			if name == "style" || strings.HasPrefix(name, "on") || strings.Contains(value, "javascript:") || name == "src" {
				g.t.Errorf("<%s %s=%q>: the policy does not let that work", n.Data, name, value)
			}
		}
	})
	return doc
}

func TestTheStatusPageShowsAndSteers(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	const tail = `
trusted_proxies: [127.0.0.1]
rules:
  - { name: per-ip, limit: 3/365d }
  - { name: hostile, match: { header.X: "<script>alert(1)</script>" }, key: header.X-API-Key, limit: 1/365d, dry_run: true }
`
	g := serve(t, ports+"upstream: "+up.URL+tail)
	const ann = "X-Forwarded-For: 203.0.113.7"
	for range 5 {
		g.get("/", ann)
	}
	for range 2 {
		g.get("/", "X: <script>alert(1)</script>", "X-API-Key: canary-8472<i>", "X-Forwarded-For: 203.0.113.8")
	}
	doc := g.page()
	text := textOf(doc)
	for _, want := range []string{
		"ready", "per-ip", "3/365d 5 2", "203.0.113.7 2", "hostile dry run", "<script>alert(1)</script>", "id:", up.URL, "up for", g.status().Config.Hash[:12],
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "canary") || strings.Contains(text, "not in force") {
		t.Errorf("the page says too much:\n%s", text)
	}
	if m := g.get("/", ann); m.status != 429 {
		t.Fatalf("status %d", m.status)
	}

	// The buttons, as a browser without a script presses them.
	press := func(label string) {
		t.Helper()
		pressed := false
		walk(g.page(), func(n *html.Node, attr map[string]string) {
			if n.Data != "form" || textOf(n) != label || pressed || !strings.HasPrefix(attr["action"], "/keys/per-ip/") {
				return
			}
			pressed = true
			form := url.Values{}
			walk(n, func(_ *html.Node, field map[string]string) {
				if field["name"] != "" {
					form.Set(field["name"], field["value"])
				}
			})
			req, err := http.NewRequest("POST", "http://"+g.admin+attr["action"], strings.NewReader(form.Encode()))
			do(t, err)
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", "http://"+g.admin)
			req.Header.Set("Sec-Fetch-Site", "same-origin")
			res, err := g.client.Transport.RoundTrip(req)
			do(t, err)
			res.Body.Close()
			if res.StatusCode != 303 || res.Header.Get("Location") != "/" {
				t.Errorf("%s: %d to %q", label, res.StatusCode, res.Header.Get("Location"))
			}
		})
		if !pressed {
			t.Errorf("there is no button %q", label)
		}
	}
	press("block 1h")
	if a := g.get("/", ann); a.status != 429 || !strings.Contains(a.body, "abnormal-usage") {
		t.Errorf("after block: %d %s", a.status, a.body)
	}
	if text := textOf(g.page()); !strings.Contains(text, "blocked: 203.0.113.7 until") {
		t.Errorf("the block is not shown:\n%s", text)
	}
	press("reset")
	if a := g.get("/", ann); a.status != 200 {
		t.Errorf("after reset: %d", a.status)
	}
	if lines := g.logged("key reset", "key blocked"); len(lines) != 2 || lines[0]["key"] != "203.0.113.7" || lines[1]["key"] != "203.0.113.7" {
		t.Errorf("the log has %v", lines)
	}

	// A broken edit is what one sees first.
	g.save(ports + "upstream: " + up.URL + tail + "  - { name: \"<b>x</b>\", limit: 3/m }\n")
	eventually(t, "the page shows the error", func() bool { return strings.Contains(textOf(g.page()), "not in force") })
	doc = g.page()
	if text := textOf(doc); !strings.Contains(text, "<b>x</b>") || !strings.HasPrefix(text, "(!) gateway") {
		t.Errorf("the error is not on the page:\n%s", text)
	}
}

// A browser gets at the page with the token as its password.
func TestTheStatusPageWantsTheToken(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0, token: { env: ADMIN_TOKEN } }\nupstream: "+up.URL+"\nrules: []\n")
	g := serveFileAt(t, path, func(c *exec.Cmd) { c.Env = append(c.Env, "ADMIN_TOKEN="+adminToken) })
	for _, c := range []struct {
		password string
		status   int
	}{{"", 401}, {adminToken + "x", 401}, {adminToken, 200}} {
		req, _ := http.NewRequest("GET", "http://"+g.admin+"/", nil)
		req.SetBasicAuth("anybody", c.password)
		res, err := g.client.Do(req)
		do(t, err)
		res.Body.Close()
		if res.StatusCode != c.status || c.status == 401 && !strings.HasPrefix(strings.Join(res.Header.Values("WWW-Authenticate"), "|"), `Bearer realm="gateway"|Basic`) {
			t.Errorf("password %q: %d %q, want %d", c.password, res.StatusCode, res.Header.Values("WWW-Authenticate"), c.status)
		}
	}
}
