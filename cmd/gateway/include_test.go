package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Files that are included are in force as they come, change and go, all together with
// the file itself or not at all, and levels stay.
func TestIncludedFilesAreFollowedAsOneConfiguration(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	path, conf := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "conf.d")
	do(t, os.Mkdir(conf, 0o755))
	write(t, filepath.Join(conf, "10-a.yaml"), "rules:\n  - { name: a, match: /a, key: global, limit: 3/365d }\n")
	write(t, path, ports+"upstreams: { up: "+up.URL+" }\ninclude: [conf.d/*]\nroutes:\n  - { match: /first, respond: { status: 204 } }\n")
	write(t, filepath.Join(conf, "90-rest.yaml"), "routes:\n  - { upstream: up }\n")
	g := serveFileAt(t, path)
	passes := func(path string, n int) {
		t.Helper()
		if got := g.statuses(9, 1, path, nil); got[200] != n || got[429] != 9-n {
			t.Errorf("%s: %v, want %d of 9 to pass", path, got, n)
		}
	}
	passes("/a", 3)
	if got := g.get("/first").status; got != 204 {
		t.Errorf("/first: %d, want 204", got)
	}

	// A new file; what editors leave is none.
	for _, name := range []string{".10-a.yaml.swp", "10-a.yaml~", "#10-a.yaml#", "10-a.yaml.bak"} {
		write(t, filepath.Join(conf, name), "nonsense: [\n")
	}
	write(t, filepath.Join(conf, "20-b.yaml"), "rules:\n  - { name: b, match: /b, key: global, limit: 2/365d }\n")
	eventually(t, "the new file is in force", func() bool { return len(g.status().Rules) == 2 })
	// The log, the status and the metrics name by one hash what runs, which is more than the file.
	hash := g.status().Config.Hash
	if lines := g.logged("configuration reloaded"); len(lines) != 1 || lines[0]["hash"] != hash[:12] ||
		g.metrics()[`gateway_config_info{hash="`+hash+`"}`] != 1 || lines[0]["duration"].(float64) > 10 {
		t.Errorf("the status has hash %s, the log %v", hash, lines)
	}
	passes("/b", 2)
	passes("/a", 0) // the levels of the other are as they were

	// Two files change, of which one is wrong: neither counts.
	write(t, filepath.Join(conf, "10-a.yaml"), "rules:\n  - { name: a, match: /a, key: global, limit: 100/365d }\n")
	write(t, filepath.Join(conf, "20-b.yaml"), "rules:\n  - name: b\n    limit: 100\n")
	a := g.control("POST", "/reload")
	if want := conf + "/20-b.yaml:3:12: limit \"100\": 100 in how long?"; a.status != 422 || !strings.Contains(a.body, want) {
		t.Errorf("reload: %d %s\nwant %s", a.status, a.body, want)
	}
	if !strings.Contains(g.status().Config.Error, "20-b.yaml:3:12") {
		t.Errorf("the status says %q", g.status().Config.Error)
	}
	// The file that is wrong is mended; the save of the other counts with it, unless it
	// was quick enough to count before.
	write(t, filepath.Join(conf, "20-b.yaml"), "rules:\n  - { name: b, match: /b, key: global, limit: 5/365d }\n")
	eventually(t, "both files are in force", func() bool {
		r := g.status().Rules
		return g.status().Config.OK && len(r) == 2 && r[0].Plans[0].Limit == "100/365d" && r[1].Plans[0].Limit == "5/365d"
	})
	passes("/b", 3)

	// A file that is gone takes its rules along, and one that is renamed nothing.
	do(t, os.Rename(filepath.Join(conf, "20-b.yaml"), filepath.Join(conf, "05-b.yaml")))
	eventually(t, "the renamed file is in force", func() bool { r := g.status().Rules; return len(r) == 2 && r[0].Name == "b" })
	passes("/b", 0)
	do(t, os.Remove(filepath.Join(conf, "05-b.yaml")))
	eventually(t, "the file is gone", func() bool { return len(g.status().Rules) == 1 })
	passes("/b", 9)

	// A name twice names both places; check says the same as a reload.
	write(t, filepath.Join(conf, "99-again.yaml"), "rules:\n  - { name: a, limit: 1/s }\n")
	a = g.control("POST", "/reload")
	want := conf + `/99-again.yaml:2:13: rule name "a" is used twice; the first is at ` + conf + "/10-a.yaml:2:13"
	if a.status != 422 || !strings.Contains(a.body, want) {
		t.Errorf("reload: %d %s\nwant %s", a.status, a.body, want)
	}
	out, err := exec.Command(binary, "check", "-c", path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("check: %v\n%s", err, out)
	}
	out, err = exec.Command(binary, "check", "--json", "-c", path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), `"file": "`+conf+`/99-again.yaml"`) {
		t.Errorf("check --json: %v\n%s", err, out)
	}
	do(t, os.Remove(filepath.Join(conf, "99-again.yaml")))
	eventually(t, "the file is good again", func() bool { return g.status().Config.OK })

	// All settings are one file.
	for _, text := range []string{g.control("GET", "/config").body, func() string {
		out, err := exec.Command(binary, "config", "-c", path).Output()
		do(t, err)
		return string(out)
	}()} {
		if !strings.Contains(text, "name: a") || !strings.Contains(text, "upstream: up") || strings.Contains(text, "include") {
			t.Errorf("all settings are\n%s", text)
		}
	}
	out, err = exec.Command(binary, "check", "--json", "-c", path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"file": "`+conf+`/10-a.yaml",`) {
		t.Errorf("check --json: %v\n%s", err, out)
	}
}

// A folder as Kubernetes mounts one is exchanged as a whole.
func TestAnIncludedFolderIsExchangedAsAWhole(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	dir := t.TempDir()
	mount := func(version string, files map[string]string) {
		do(t, os.MkdirAll(filepath.Join(dir, "conf.d", version), 0o755))
		for name, text := range files {
			write(t, filepath.Join(dir, "conf.d", version, name), text)
			if _, err := os.Lstat(filepath.Join(dir, "conf.d", name)); err != nil {
				do(t, os.Symlink("..data/"+name, filepath.Join(dir, "conf.d", name)))
			}
		}
		do(t, os.Symlink(version, filepath.Join(dir, "conf.d", "..tmp")))
		do(t, os.Rename(filepath.Join(dir, "conf.d", "..tmp"), filepath.Join(dir, "conf.d", "..data")))
	}
	rule := func(name, limit string) string {
		return "rules:\n  - { name: " + name + ", key: global, limit: " + limit + " }\n"
	}
	mount("..one", map[string]string{"a.yaml": rule("a", "10/365d"), "b.yaml": rule("b", "10/365d")})
	write(t, filepath.Join(dir, "gateway.yaml"), ports+"upstream: "+up.URL+"\ninclude: [conf.d/*.yaml]\n")
	g := serveFileAt(t, filepath.Join(dir, "gateway.yaml"))
	mount("..two", map[string]string{"a.yaml": rule("a", "20/365d"), "b.yaml": rule("b", "20/365d")})
	eventually(t, "the new version is in force", func() bool {
		r := g.status().Rules
		return len(r) == 2 && r[0].Plans[0].Limit == "20/365d" && r[1].Plans[0].Limit == "20/365d"
	})
	eventually(t, "the log says so", func() bool { return len(g.logged("configuration reloaded")) > 0 })
	if lines := g.logged("configuration reloaded"); len(lines) != 1 {
		t.Errorf("it took %d reloads: %v", len(lines), lines)
	}
}
