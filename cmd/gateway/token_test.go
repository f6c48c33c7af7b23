package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const adminToken = "2b1f0c6e9d8a47f5b3c1"

// Where others than this machine reach the admin listener, all needs the token but
// what says how the gateway does.
func TestTheAdminListenerWantsItsToken(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), adminToken+"\n")
	path := filepath.Join(dir, "gateway.yaml")
	write(t, path, "listen: 127.0.0.1:0\nadmin: { listen: 0.0.0.0:0, token: { file: token } }\nupstream: "+up.URL+"\nrules: []\n")
	g := serveFileAt(t, path)
	_, port, _ := net.SplitHostPort(g.admin)
	g.admin = "127.0.0.1:" + port
	right := "Authorization: Bearer " + adminToken
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
	}{
		{"GET", "/healthz", nil, 200},
		{"GET", "/readyz", nil, 200},
		{"GET", "/metrics", nil, 200},
		{"POST", "/reload", nil, 401},
		{"GET", "/", nil, 401},
		{"GET", "/config", nil, 401},
		{"GET", "/metrics/../reload", nil, 401},
		{"POST", "//healthz", nil, 401},
		{"GET", "/nowhere", []string{right}, 404},
		{"POST", "/reload", []string{right}, 200},
		{"POST", "/reload", []string{"Authorization: bearer " + adminToken}, 200},
		{"POST", "/reload", []string{"Authorization: Bearer " + adminToken + "x"}, 401},
		{"POST", "/reload", []string{"Authorization: Bearer " + adminToken[1:]}, 401},
		{"POST", "/reload", []string{"Authorization: Bearer "}, 401},
		{"POST", "/reload", []string{"Authorization: Bearer ***"}, 401},
		{"POST", "/reload", []string{"Authorization: Basic " + adminToken}, 401},
		{"POST", "/reload", []string{"Authorization: " + adminToken}, 401},
		{"POST", "/reload?token=" + adminToken, nil, 401},
		{"POST", "/reload", []string{right, "Host: gateway.internal:9900"}, 200}, // no web page knows the token
		{"POST", "/reload", []string{right, "Origin: http://evil.example"}, 403},
		{"GET", "/metrics", []string{"Host: evil.example"}, 403},
	} {
		a, err := request(g.client, c.method, "http://"+g.admin+c.path, c.header...)
		do(t, err)
		if a.status != c.status || c.status == 401 && a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s with %q: %d %.80q, want %d", c.method, c.path, c.header, a.status, a.body, c.status)
		}
	}
	ask := func(args ...string) (string, error) {
		out, err := exec.Command(binary, append(args, "--admin", g.admin)...).CombinedOutput()
		return string(out), err
	}
	// The commands send the token they find in the file.
	for _, command := range []string{"reload", "healthcheck"} {
		if out, err := ask(command, "-c", path); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	out, err := ask("reload", "-c", filepath.Join(dir, "other.yaml"))
	if err == nil || !strings.Contains(out, "wants its token") {
		t.Errorf("reload with another file: %v\n%s", err, out)
	}
	// Another token counts as its file is saved, with a newline at the end or without.
	answers := func(token string, status int) func() bool {
		return func() bool {
			a, err := request(g.client, "POST", "http://"+g.admin+"/reload", "Authorization: Bearer "+token)
			return err == nil && a.status == status
		}
	}
	write(t, filepath.Join(dir, "token"), "a-second-token-0123456789")
	eventually(t, "the second token is in force", answers("a-second-token-0123456789", 200))
	if !answers(adminToken, 401)() {
		t.Error("the first token is still good")
	}
	if lines := g.logged("configuration reloaded"); len(lines) != 1 || lines[0]["changed"] != "secret of admin.token" || lines[0]["warning"] != nil {
		t.Errorf("the log says %v", lines)
	}
	// One that is gone changes nothing but the answer to a reload; one that comes back counts.
	do(t, os.Remove(filepath.Join(dir, "token")))
	eventually(t, "a reload without the token's file is refused", answers("a-second-token-0123456789", 422))
	a, err := request(g.client, "POST", "http://"+g.admin+"/reload", "Authorization: Bearer a-second-token-0123456789")
	do(t, err)
	if !strings.Contains(a.body, `gateway.yaml:2:44: file "token": no such file or directory`) {
		t.Errorf("reload without the file: %d %q", a.status, a.body)
	}
	write(t, filepath.Join(dir, "token"), "a-third-token-0123456789\n")
	eventually(t, "the third token is in force", answers("a-third-token-0123456789", 200))
	for _, token := range []string{adminToken, "a-second-token", "a-third-token"} {
		if strings.Contains(g.errs.String()+g.out.String(), token) {
			t.Errorf("token %q is in a log", token)
		}
	}
}

// A value of the environment is in force, and in no message.
func TestVariablesComeFromTheEnvironmentOfTheProcess(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, path, ports+"upstream: ${API}\nrules:\n  - { name: a, key: global, limit: \"${HOW_MUCH:-2/h}\" }\nreject: { detail: \"$${x} ${WORD}\" }\n")
	g := serveFileAt(t, path, func(c *exec.Cmd) { c.Env = append(os.Environ(), "API="+up.URL, "WORD=hunter2: [") })
	if got := g.statuses(5, 1, "/", nil); got[200] != 2 || got[429] != 3 {
		t.Errorf("statuses %v, want 2 of 5 to pass", got)
	}
	if a := g.get("/"); !strings.Contains(a.body, `${x} hunter2: [`) {
		t.Errorf("the body is %s", a.body)
	}
	g.save(ports + "upstream: ${API}\nrules:\n  - { name: a, key: global, limit: \"${WORD}\" }\n")
	a := g.control("POST", "/reload")
	if a.status != 422 || !strings.Contains(a.body, `limit "${WORD}": not a rate`) || strings.Contains(a.body, "hunter2") {
		t.Errorf("reload: %d %q", a.status, a.body)
	}
	if strings.Contains(g.errs.String(), "hunter2") {
		t.Errorf("the value is in the log:\n%s", g.errs.String())
	}
}
