package certs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/rules"
)

func TestStorageIsWhereTheEnvironmentKeepsSuchThings(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"STATE_DIRECTORY": "/var/lib/gateway", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/var/lib/gateway"},
		{map[string]string{"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a"},
		{map[string]string{"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/gateway"},
		{map[string]string{"XDG_DATA_HOME": "relative", "HOME": "/h"}, "/h/.local/share/gateway"}, // as XDG says
		{map[string]string{"HOME": "/h"}, "/h/.local/share/gateway"},
		{nil, ""},
	} {
		got, err := storageDir(&rules.TLS{}, func(name string) string { return c.env[name] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v: %q, %v; want %q", c.env, got, err, c.want)
		}
	}
	given := &rules.TLS{Storage: rules.FilePath{Path: "/given"}}
	if got, _ := storageDir(given, func(string) string { return "/env" }); got != "/given" {
		t.Errorf("%q, want what the file says", got)
	}
}

// Case T01: with a folder that cannot be written no order is made.
func TestUnwritableStorageIsAnErrorBeforeAnyOrder(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	save(t, file, []byte("x"))
	for range 10 {
		err := s.apply(acme(ca, filepath.Join(file, "below"), apiName))
		list, ok := err.(rules.ErrorList)
		if !ok || len(list) != 1 || !strings.Contains(list[0].Msg, "cannot be written: not a directory") || list[0].Pos.Col == 0 {
			t.Fatalf("%v, want an error at the place of storage", err)
		}
	}
	if n := ca.Orders(); n != 0 {
		t.Errorf("%d orders, want 0", n)
	}
}

func TestWhatStorageHoldsIsForNobodyElse(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, nil)
	dir := filepath.Join(t.TempDir(), "new", "storage")
	s.mustApply(acme(ca, dir, apiName))
	s.awaits(apiName, ca.Pool())
	check := func() {
		t.Helper()
		all := files(t, filepath.Dir(dir))
		if len(all) < 8 {
			t.Errorf("only %d files and folders", len(all))
		}
		for path, mode := range all {
			want := os.FileMode(0o600)
			if mode.IsDir() {
				want = 0o700
			}
			if mode.Perm() != want {
				t.Errorf("%s has mode %v, want %v", path, mode.Perm(), want)
			}
		}
	}
	check()
	// A copy that somebody made forgot the modes.
	s.stop()
	for path, mode := range files(t, dir) {
		loose := os.FileMode(0o644)
		if mode.IsDir() {
			loose = 0o777
		}
		if err := os.Chmod(path, loose); err != nil {
			t.Fatal(err)
		}
	}
	s = newSite(t, s.secure, s.plain)
	s.mustApply(acme(ca, dir, apiName))
	check()
	if len(s.log.with("certificates and keys could be read by others on this machine; not any more")) != 1 {
		t.Error("nothing says that the modes were wrong")
	}
	s.stop()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s = newSite(t, s.secure, s.plain)
	s.mustApply(acme(ca, dir, apiName))
	if len(s.log.with("others on this machine may write to the storage folder: chmod 700 it")) != 1 {
		t.Error("nothing says that others may write to the folder")
	}
}

// Files that a full disk or a crash left broken cost one order, and heal.
func TestBrokenFilesInStorageAreReplaced(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"an empty certificate": func(path string) error { return spoilt(path, ".crt", nil) },
		"NULs for a key":       func(path string) error { return spoilt(path, ".key", make([]byte, 300)) },
		"broken metadata":      func(path string) error { return spoilt(path, ".json", []byte("{")) },
		"NULs in locks": func(path string) error {
			if strings.HasSuffix(path, ".lock") {
				return os.WriteFile(path, make([]byte, 100), 0o600)
			}
			return spoilt(path, ".crt", nil)
		},
		"a broken account": func(path string) error {
			if filepath.Base(path) == "ops.json" {
				return os.WriteFile(path, make([]byte, 100), 0o600)
			}
			return spoilt(path, ".crt", nil)
		},
		"a broken account key": func(path string) error {
			if filepath.Base(path) == "ops.key" {
				return os.WriteFile(path, nil, 0o600)
			}
			return spoilt(path, ".crt", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			apiName := unique("api")
			t.Parallel()
			s, ca := withCA(t, nil)
			dir := t.TempDir()
			s.mustApply(acme(ca, dir, apiName))
			s.awaits(apiName, ca.Pool())
			s.stop()
			for path, mode := range files(t, dir) {
				if mode.IsRegular() {
					if err := spoil(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			s = newSite(t, s.secure, s.plain)
			s.mustApply(acme(ca, dir, apiName))
			s.awaits(apiName, ca.Pool())
			if n := ca.Orders(); n != 2 {
				t.Errorf("%d orders, want 2", n)
			}
			if len(s.log.with("what storage has of a certificate cannot be used; another one is ordered")) != 1 {
				t.Error("nothing says so")
			}
		})
	}
}

func spoilt(path, ending string, with []byte) error {
	if !strings.Contains(path, "certificates") || !strings.HasSuffix(path, ending) {
		return nil
	}
	return os.WriteFile(path, with, 0o600)
}

func TestLocksAreHeldByOneAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for range 4 { // four processes, as far as the system can tell
		s := newStorage(dir)
		wg.Go(func() {
			for range 5 {
				if err := s.Lock(context.Background(), "issue_cert_a"); err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				inside.Add(-1)
				if err := s.Unlock(context.Background(), "issue_cert_a"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d held the lock at one time", n)
	}
	s := newStorage(dir)
	if err := s.Unlock(context.Background(), "issue_cert_a"); err == nil {
		t.Error("a lock that is not held was given up")
	}
	if err := s.Lock(context.Background(), "x"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := newStorage(dir).Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a lock ended with %v", err)
	}
}

// A certificate that came and could not be kept is an order for nothing, so it counts
// as one that failed.
func TestCertificateThatCannotBeKeptIsNotOrderedAgainAtOnce(t *testing.T) {
	apiName := unique("api")
	t.Parallel()
	s, ca := withCA(t, nil)
	dir := t.TempDir()
	// Where the last of its files would go there is a folder.
	u := strings.TrimPrefix(ca.URL, "https://")
	u = strings.NewReplacer("/", "-", ":", "-").Replace(u)
	if err := os.MkdirAll(filepath.Join(dir, "certificates", u, apiName, apiName+".json"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.mustApply(acme(ca, dir, apiName))
	eventually(t, "the failure", func() bool { return len(s.log.with("certificate not obtained")) == 1 })
	line := s.log.with("certificate not obtained")[0]
	if !strings.Contains(line["err"].(string), "keeping the certificate: ") {
		t.Errorf("the line is %v", line)
	}
	if next, err := time.Parse(time.RFC3339, line["next"].(string)); err != nil || time.Until(next) < 3*time.Minute {
		t.Errorf("%v: the next try is too soon", line)
	}
	if n := ca.Orders(); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}
