package certs

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
)

// errTooSoon says that the CA must not be asked yet.
var errTooSoon = errors.New("too soon after attempts that failed")

// What the CA saw fail counts: perHour in an hour at most, with a gap after each
// one in a row. An attempt tries both challenges, so these are at most four failed
// validations; the public CA allows five.
const perHour = 2

var gaps = []time.Duration{5 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour}

// unreached are the gaps after attempts that never came to the CA.
var unreached = []time.Duration{
	2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// nth returns the n-th gap, counted from 1; the last one goes on for ever.
func nth(of []time.Duration, n int) time.Duration { return of[min(n, len(of))-1] }

// history are the attempts of one domain that the CA saw fail, since the last that
// succeeded; the oldest first.
type history []time.Time

// kept is how many of them are remembered.
const kept = 8

// next returns when the CA may be asked again; a time in the past is at once. An
// operator who has mended something starts the gateway again, so the first attempt
// of a process waits for the hour's bound alone.
func (h history) next(first bool) time.Time {
	var at time.Time
	if n := len(h); n > 0 && !first {
		at = h[n-1].Add(nth(gaps, n))
	}
	if n := len(h) - perHour; n >= 0 {
		if bound := h[n].Add(time.Hour); bound.After(at) {
			at = bound
		}
	}
	return at
}

// with returns h and one more failure.
func (h history) with(now time.Time) history {
	h = append(h[:len(h):len(h)], now)
	return h[max(0, len(h)-kept):]
}

// reached reports whether an attempt with this error came to the CA at all.
func reached(err error) bool {
	_, failed := errors.AsType[*url.Error](err)
	return !failed
}

// mostNonces is how many attempts in a row may end with a refused nonce, each of them
// refused ten times over, before that counts as a failure like any other. Nobody is to
// blame for one, and the CA counts none.
const mostNonces = 200

func isNonce(err error) bool {
	return strings.Contains(err.Error(), "urn:ietf:params:acme:error:badNonce")
}

// histories keeps the history of each domain in a storage folder.
type histories struct {
	storage certmagic.Storage
	ca      string // the folder of the CA
}

func (s histories) key(domain string) string {
	return path.Join("attempts", certmagic.StorageKeys.Safe(s.ca), certmagic.StorageKeys.Safe(domain)+".json")
}

// of returns the history of a domain as of now. What cannot be read, or is of the
// future, is no history.
func (s histories) of(domain string, now time.Time) history {
	data, err := s.storage.Load(context.Background(), s.key(domain))
	if err != nil {
		return nil
	}
	var all struct{ Failed history }
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	var h history
	for _, at := range all.Failed {
		if at.Before(now) && now.Sub(at) < 48*time.Hour {
			h = h.with(at)
		}
	}
	return h
}

// failed adds a failure to the history of a domain and returns it.
func (s histories) failed(domain string, now time.Time) history {
	h := s.of(domain, now).with(now)
	if data, err := json.Marshal(struct{ Failed history }{h}); err == nil {
		s.storage.Store(context.Background(), s.key(domain), data) // without it a restart asks a little early
	}
	return h
}

// clear forgets the history of a domain.
func (s histories) clear(domain string) {
	if key := s.key(domain); s.storage.Exists(context.Background(), key) {
		s.storage.Delete(context.Background(), key)
	}
}
