package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

const (
	// rowChange is how many checks in a row must say otherwise to change what is
	// thought of a server; the first check of all decides alone.
	rowChange = 2
	// checkAgent is the User-Agent of a check.
	checkAgent = "gateway-health/1"
	// maxCheckBody is how much of a check's answer is read, so that a short one
	// ends its connection in order.
	maxCheckBody = 64 << 10
)

// findings are what the checks of one server have found.
type findings struct {
	checked bool  // once at least
	against int   // checks in a row that spoke against what is thought
	at      int64 // when the last one was, on the pool's clock
	err     error // what it found
	turned  int64 // when what is thought last changed; 0 never
}

// watch checks s each interval until ctx ends.
func (p *Pool) watch(ctx context.Context, s *Server) {
	h := &p.spec.Health
	wait := time.Duration(rand.Int64N(int64(h.Interval)/10 + 1)) // not all servers at once
	for pause(ctx, wait) {
		start := time.Now()
		err := p.check(ctx, s)
		if ctx.Err() != nil {
			return
		}
		if !isOurs(err) { // which says nothing, for or against
			p.judge(s, err)
		}
		wait = max(0, jitter(h.Interval)-time.Since(start))
	}
}

// check asks s once. Redirects are not followed.
func (p *Pool) check(ctx context.Context, s *Server) error {
	h := &p.spec.Health
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	path, query, _ := strings.Cut(h.Path, "?")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server", nil)
	if err != nil {
		return err
	}
	s.direct(req, path, true)
	req.URL.RawQuery = query
	req.Header.Set("User-Agent", checkAgent)
	res, err := s.checks.RoundTrip(req)
	if err != nil {
		if text := Plain(err.Error()); text != err.Error() {
			return errors.New(text)
		}
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxCheckBody) // the header has said it all
	if !h.Status.Has(res.StatusCode) {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

// judge takes in what a check of s found: nil is good.
func (p *Pool) judge(s *Server, err error) {
	if err != nil {
		s.missing.Add(1)
	}
	p.health.Lock()
	s.found.at, s.found.err = p.now(), err
	changed, panicked := p.find(s, err != nil), p.choice.Load().panic
	if changed {
		p.choice.Store(choose(p.servers))
	}
	panics := p.choice.Load().panic
	p.health.Unlock()
	if !changed {
		return
	}
	p.serveWaiting() // who waits for a place may find one now
	at := []slog.Attr{slog.String("upstream", p.spec.Name), slog.String("server", s.URL.Redacted())}
	if err != nil {
		p.log.LogAttrs(context.Background(), slog.LevelWarn, "server is down, says its check", append(at, slog.Any("err", err))...)
	} else {
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "server is up again, says its check", at...)
	}
	switch {
	case panics && !panicked:
		p.log.Warn("fewer than half of the servers are up: requests go to all of them", slog.String("upstream", p.spec.Name))
	case panicked && !panics:
		p.log.Info("half of the servers or more are up: requests go to those", slog.String("upstream", p.spec.Name))
	}
}

// find notes a finding about s and reports whether that changes what is thought
// of it. The caller holds p.health.
func (p *Pool) find(s *Server, bad bool) (changed bool) {
	f := &s.found
	first := !f.checked
	f.checked = true
	if bad == s.down.Load() {
		f.against = 0
		return false
	}
	if f.against++; f.against < rowChange && !first {
		return false
	}
	f.against = 0
	f.turned = p.now()
	s.down.Store(bad)
	return true
}

// Panic reports whether active checks say that fewer than half of the servers are
// up, so that requests go to all whatever the checks say.
func (p *Pool) Panic() bool { return p.choice.Load().panic }
