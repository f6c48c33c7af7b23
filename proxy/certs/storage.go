package certs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/certmagic"

	"gateway/rules"
)

// storage keeps keys, certificates and accounts in a folder. Its locks are those of
// the system, which end with the process: nothing a crash leaves behind is ever in
// the way. It is safe for concurrent use, also of several gateways.
type storage struct {
	certmagic.Storage // all but locks, in files of mode 0600 in folders of mode 0700
	dir               string

	held syncMap[string, *os.File] // the locks of this process, by name
}

func newStorage(dir string) *storage {
	return &storage{Storage: &certmagic.FileStorage{Path: dir}, dir: dir}
}

// storageDir returns the folder of t: as the file says, else what the environment
// has for such things.
func storageDir(t *rules.TLS, getenv func(string) string) (string, error) {
	if t.Storage.Path != "" {
		return t.Storage.Path, nil
	}
	if dir, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir, nil
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "gateway"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "gateway"), nil
	}
	return "", errors.New("no folder to keep certificates in: none of $STATE_DIRECTORY, $XDG_DATA_HOME and $HOME is set")
}

// Store implements certmagic.Storage. A failure ends the attempt that it was part of.
func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	err := s.Storage.Store(ctx, key, value)
	if a := attemptOf(ctx); a != nil && err != nil {
		a.end(fmt.Errorf("keeping the certificate: %w", bare(err)))
	}
	return err
}

// Lock implements certmagic.Locker.
func (s *storage) Lock(ctx context.Context, name string) error {
	path := filepath.Join(s.dir, "locks", certmagic.StorageKeys.Safe(name)+".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			s.held.store(name, f)
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Unlock implements certmagic.Locker. The file stays: to remove it would take the
// lock from under somebody who waits for it.
func (s *storage) Unlock(_ context.Context, name string) error {
	f, ok := s.held.take(name)
	if !ok {
		return fmt.Errorf("lock %q is not held", name)
	}
	return f.Close()
}

// probeBytes is about what a certificate with its key, its metadata and an account take.
const probeBytes = 32 << 10

// check makes sure that the folder is there and that what a certificate takes can be
// written to it and kept.
func (s *storage) check() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return bare(err)
	}
	f, err := os.CreateTemp(s.dir, ".check-")
	if err != nil {
		return bare(err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return bare(err)
}

// tighten takes from everybody else the right to look at what the folder holds of
// ours, and returns how many files and folders had given it. The folder itself is the
// operator's: loose says that others may write to it.
func (s *storage) tighten() (changed int, loose bool) {
	if info, err := os.Stat(s.dir); err == nil {
		loose = info.Mode().Perm()&0o022 != 0
	}
	for _, ours := range []string{"acme", "attempts", "certificates", "locks", "ocsp"} {
		filepath.WalkDir(filepath.Join(s.dir, ours), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 {
				return nil
			}
			info, err := d.Info()
			if err != nil || info.Mode().Perm()&0o077 == 0 {
				return nil
			}
			if os.Chmod(path, info.Mode().Perm()&0o700) == nil {
				changed++
			}
			return nil
		})
	}
	return changed, loose
}

// bare returns the reason of an error about a file without the path, which the
// caller names.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}
