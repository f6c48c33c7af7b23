package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"gateway/limit/redis"
	"gateway/proxy"
	"gateway/proxy/admin"
	"gateway/reload"
	"gateway/rules"
)

// openStore returns the store of file, which is the one that is open already.
// running are the rules in force, nil at the start.
func (s *server) openStore(file *rules.File, running *rules.Set) (*redis.Store, error) {
	if running != nil {
		if !file.Store.Same(running.File.Store) {
			return nil, restart(file, running.File)
		}
		return s.store, nil
	}
	if file.Store == nil {
		return nil, nil
	}
	o, err := storeOptions(file.Store)
	if err != nil {
		return nil, err
	}
	return redis.New(o, s.log.Logger), nil
}

// restart is the error of a file with another store than the one in force.
func restart(file, running *rules.File) error {
	pos := rules.Pos{File: file.Name, Line: 1, Col: 1}
	if file.Store != nil {
		pos = file.Store.Pos
	}
	msg, hint := needsRestart("store")
	return rules.ErrorList{{Pos: pos, Len: 1, Msg: msg, Hint: hint + ": " + running.Store.String()}}
}

// storeOptions returns how the store of a file is spoken to. The error is a
// rules.ErrorList.
func storeOptions(s *rules.StoreSpec) (redis.Options, error) {
	o := redis.Options{
		Addrs: s.Addrs, Master: s.Master, TLS: s.TLS, Username: s.Username, Password: s.Password.Reveal(),
		DB: s.DB, Timeout: s.Timeout, Prefix: s.Prefix,
	}
	if s.CA.Path == "" {
		return o, nil
	}
	data, err := reload.ReadFile(s.CA.Path)
	if err != nil {
		return o, rules.ErrorList{s.CA.Error(fmt.Sprintf("ca %q: %v", s.CA.Path, err), "")}
	}
	if o.Roots = x509.NewCertPool(); !o.Roots.AppendCertsFromPEM(data) {
		return o, rules.ErrorList{s.CA.Error(fmt.Sprintf("ca %q: no certificate in it", s.CA.Path), "it must hold certificates in PEM")}
	}
	return o, nil
}

// checkStore warns of a store that cannot be reached.
func checkStore(s *rules.StoreSpec) (rules.ErrorList, error) {
	if s == nil {
		return nil, nil
	}
	o, err := storeOptions(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := redis.Check(ctx, o); err != nil {
		return rules.ErrorList{{
			Pos: s.Pos, Len: 1, Warning: true, Msg: fmt.Sprintf("%v cannot be reached: %v", s, err), Hint: "while it is away rules do what their fail says",
		}}, nil
	}
	return nil, nil
}

func gatewayConfig(s *server, store *redis.Store) proxy.Config {
	c := proxy.Config{Clock: s.clock, Logger: s.log.Logger, Access: s.access}
	if store != nil {
		c.Store = store
	}
	return c
}

// counters says where counters are.
func (s *server) counters() string {
	spec := s.gateway.Current().Rules().File.Store
	if spec == nil {
		return "memory: each gateway counts for itself"
	}
	return fmt.Sprintf("%v, shared by %d", spec, spec.Replicas)
}

// storeStatus says how the store does; nil when there is none.
func (s *server) storeStatus() *admin.StoreStatus {
	if s.store == nil {
		return nil
	}
	spec, stats := s.gateway.Current().Rules().File.Store, s.store.Stats()
	return &admin.StoreStatus{
		Name: spec.String(), Replicas: spec.Replicas, Up: stats.Up, Errors: stats.Errors, Leases: stats.Leases,
		Bounds: redis.Bounds, Counts: stats.Counts, Sum: stats.Sum,
	}
}
