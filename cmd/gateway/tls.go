package main

import (
	"cmp"
	"errors"
	"slices"

	"gateway/proxy"
	"gateway/proxy/certs"
	"gateway/rules"
)

// secure prepares what the file says of TLS. failed is what is wrong with the file
// otherwise: all of it is reported together.
func (s *server) secure(file *rules.File, failed error) (*certs.Change, error) {
	change, err := s.certs.Prepare(file)
	return change, together(failed, err)
}

// together returns both errors as one, sorted, if both are about places in the file.
func together(a, b error) error {
	first, ok1 := errors.AsType[rules.ErrorList](a)
	second, ok2 := errors.AsType[rules.ErrorList](b)
	if !ok1 || !ok2 {
		return cmp.Or(a, b)
	}
	all := slices.Concat(first, second)
	slices.SortStableFunc(all, func(a, b *rules.Error) int {
		return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Col-b.Pos.Col)
	})
	return all
}

// addresses returns where the file wants requests to come in, and what for. The
// challenges of a CA are answered on every plain address beside TLS, before any rule.
func (s *server) addresses(file *rules.File) []proxy.Address {
	var all []proxy.Address
	for _, l := range file.Listen {
		a := proxy.Address{Addr: l.Addr, Secure: file.Secure(l)}
		if file.TLS != nil && !a.Secure {
			a.Handler = s.certs.Challenges(s.gateway)
		}
		all = append(all, a)
	}
	if file.TLS != nil && file.TLS.Redirect != nil {
		all = append(all, proxy.Address{Addr: file.TLS.Redirect.Addr, Handler: s.certs.Redirect()})
	}
	return all
}
