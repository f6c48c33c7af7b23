package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// selfSigned returns a certificate that signs itself, with its key.
func selfSigned(t testing.TB, until time.Time, names ...string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	do(t, err)
	return signedBy(t, k, until, names...)
}

// rsaSigned is selfSigned with another kind of key.
func rsaSigned(t testing.TB, names ...string) (cert, key string) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	do(t, err)
	return signedBy(t, k, time.Now().Add(1000*time.Hour), names...)
}

func signedBy(t testing.TB, k crypto.Signer, until time.Time, names ...string) (cert, key string) {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	do(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(k)
	do(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// openFolder returns a folder that other users can look into, and the binary in it.
func openFolder(t testing.TB) (dir, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gateway-open-")
	do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	do(t, os.Chmod(dir, 0o755))
	program = filepath.Join(dir, "gateway")
	do(t, os.Link(binary, program))
	return dir, program
}

// unprivileged runs a program as somebody whom the modes of files bind, also when the
// tests are run by root.
func unprivileged(program string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Path = program
		if os.Geteuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
		}
	}
}

// withoutRoom runs a program that cannot write a byte to any file, as with a full disk.
func withoutRoom(program string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		unprivileged(program)(c)
		c.Args = append([]string{"/bin/sh", "-c", `ulimit -f 0 && exec "$0" "$@"`, program}, c.Args[1:]...)
		c.Path = "/bin/sh"
	}
}

// each calls f for everything below dir, folders after what they hold.
func each(t testing.TB, dir string, f func(path string, d fs.DirEntry) error) {
	t.Helper()
	var all []func() error
	do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		all = append(all, func() error { return f(path, d) })
		return err
	}))
	for i := range all {
		do(t, all[len(all)-1-i]())
	}
}

// Row S39: what may happen to a storage folder. In each case the certificate it holds
// is served, or another one where it holds none any more.
func TestFaultsOfStorage(t *testing.T) {
	t.Parallel()
	p := newPlaces(t)
	ca := p.ca(t)
	root, program := openFolder(t)
	good := filepath.Join(root, "storage")
	do(t, os.Mkdir(good, 0o700))
	if os.Geteuid() == 0 {
		do(t, os.Chown(good, 65534, 65534))
	}
	do(t, os.Chmod(ca.RootFile, 0o644))
	root2 := filepath.Join(root, "ca.pem")
	pemText, err := os.ReadFile(ca.RootFile)
	do(t, err)
	write(t, root2, string(pemText))
	path := filepath.Join(root, "gateway.yaml")
	write(t, path, strings.Replace(p.file(ca, good, "http://localhost:1", "api.internal"), ca.RootFile, root2, 1))

	start := func(how func(*exec.Cmd)) *instance {
		g := launch(t, []string{"run", "-c", path}, how)
		g.path = path
		g.awaitServing()
		return g
	}
	g := start(unprivileged(program))
	p.await(t, "api.internal", ca.Pool())
	g.stop()

	spoil := func(match string, text []byte) {
		t.Helper()
		done := false
		each(t, good, func(path string, d fs.DirEntry) error {
			if d.Type().IsRegular() && strings.HasSuffix(path, match) {
				done = true
				return os.WriteFile(path, text, 0o600) // the owner stays
			}
			return nil
		})
		if !done {
			t.Fatalf("nothing in storage ends with %s", match)
		}
	}
	modes := func(file, folder os.FileMode) {
		each(t, good, func(path string, d fs.DirEntry) error {
			if d.IsDir() {
				return os.Chmod(path, folder)
			}
			return os.Chmod(path, file)
		})
	}
	passed := 0
	for _, fault := range []struct {
		name   string
		spoil  func()
		how    func(*exec.Cmd)
		orders int
	}{
		{"a lock file of NULs", func() { spoil(".lock", make([]byte, 200)) }, unprivileged(program), 0},
		{"an empty certificate", func() { spoil(".crt", nil) }, unprivileged(program), 1},
		{"a folder nobody may write to", func() { modes(0o400, 0o500) }, unprivileged(program), 0},
		{"a full disk", func() { modes(0o600, 0o700) }, withoutRoom(program), 0},
		{"a folder everybody may write to", func() { modes(0o666, 0o777) }, unprivileged(program), 0},
	} {
		before := ca.Orders()
		fault.spoil()
		g := start(fault.how)
		p.await(t, "api.internal", ca.Pool())
		if n := ca.Orders() - before; n != fault.orders {
			t.Errorf("%s: %d orders, want %d", fault.name, n, fault.orders)
		}
		if a := g.control("POST", "/reload"); a.status != 200 {
			t.Errorf("%s: a reload is answered %d %s", fault.name, a.status, a.body)
		}
		lines := 0
		for _, line := range g.errs.lines() {
			loud := strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`)
			if loud && !strings.Contains(line, "gateway.yaml:11:") { // what is said of the rule is not about this
				lines++
			}
		}
		if lines > 3 { // at the start, and once a minute later on
			t.Errorf("%s: %d lines in the log", fault.name, lines)
		}
		g.stop()
		if t.Failed() {
			t.Logf("%s, stderr:\n%s", fault.name, g.errs)
			break
		}
		passed++
	}
	loose := 0
	each(t, good, func(path string, d fs.DirEntry) error {
		info, err := d.Info()
		if err == nil && path != good && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
			loose++
		}
		return err
	})
	t.Attr("S39", fmt.Sprintf("%d of 5 faults served; %d files or folders open to others; at most 3 lines a start", passed, loose))
}
