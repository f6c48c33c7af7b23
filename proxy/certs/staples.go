package certs

import (
	"context"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

// syncMap is a map that many may use at once. The zero value is empty.
type syncMap[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
}

func (s *syncMap[K, V]) store(k K, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[K]V{}
	}
	s.m[k] = v
}

func (s *syncMap[K, V]) load(k K) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[k]
	return v, ok
}

// take removes a value and returns it.
func (s *syncMap[K, V]) take(k K) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[k]
	delete(s.m, k)
	return v, ok
}

func (s *syncMap[K, V]) keys() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]K, 0, len(s.m))
	for k := range s.m {
		keys = append(keys, k)
	}
	return keys
}

// staples is a certmagic.Storage in memory. The certificates of files have it, for
// their OCSP staples, so that a gateway with such certificates alone needs no folder.
type staples struct{ syncMap[string, []byte] }

// Lock implements certmagic.Locker. Nothing that needs a lock is done here.
func (*staples) Lock(context.Context, string) error { return nil }

// Unlock implements certmagic.Locker.
func (*staples) Unlock(context.Context, string) error { return nil }

// Store implements certmagic.Storage.
func (s *staples) Store(_ context.Context, key string, value []byte) error {
	s.store(key, value)
	return nil
}

// Load implements certmagic.Storage.
func (s *staples) Load(_ context.Context, key string) ([]byte, error) {
	if v, ok := s.load(key); ok {
		return v, nil
	}
	return nil, fs.ErrNotExist
}

// Delete implements certmagic.Storage.
func (s *staples) Delete(_ context.Context, key string) error {
	s.take(key)
	return nil
}

// Exists implements certmagic.Storage.
func (s *staples) Exists(_ context.Context, key string) bool {
	_, ok := s.load(key)
	return ok
}

// List implements certmagic.Storage.
func (s *staples) List(_ context.Context, prefix string, _ bool) ([]string, error) {
	var found []string
	for _, k := range s.keys() {
		if strings.HasPrefix(k, prefix) {
			found = append(found, k)
		}
	}
	return found, nil
}

// Stat implements certmagic.Storage.
func (s *staples) Stat(_ context.Context, key string) (certmagic.KeyInfo, error) {
	v, ok := s.load(key)
	if !ok {
		return certmagic.KeyInfo{}, fs.ErrNotExist
	}
	return certmagic.KeyInfo{Key: key, Modified: time.Now(), Size: int64(len(v)), IsTerminal: true}, nil
}
