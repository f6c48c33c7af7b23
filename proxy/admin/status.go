package admin

import (
	"maps"
	"math"
	"slices"
	"time"

	"gateway/proxy"
	"gateway/proxy/upstream"
	"gateway/rules"
)

// Status is how the gateway does, read from plain counters when it is asked for:
// what /status says, and what the metrics say of the same things.
type Status struct {
	// At is when it was read.
	At time.Time `json:"at"`
	// Version is that of the program.
	Version string `json:"version"`
	// Ready says that traffic is welcome.
	Ready bool `json:"ready"`
	// DryRun says that the gateway was started so that no rule refuses anything.
	DryRun bool         `json:"dry_run"`
	Config ConfigStatus `json:"config"`
	// InFlight counts requests in progress, tunnels included.
	InFlight int64 `json:"in_flight"`
	// Connections counts public connections that are open.
	Connections int64 `json:"connections"`
	// Answers counts answers by the class of their status, "2xx".
	Answers map[string]uint64 `json:"answers"`
	// Rules are in the order of the file, Upstreams in that of their names.
	Rules     []RuleStatus     `json:"rules"`
	Upstreams []UpstreamStatus `json:"upstreams"`
	// Certificates are in the order of their domains; none without TLS.
	Certificates []CertificateStatus `json:"certificates,omitempty"`
	// Store is where counters are that gateways share; nil is nowhere.
	Store *StoreStatus `json:"store,omitempty"`
}

// CertificateStatus says when the certificate of a domain ends; nil is that it has
// none yet.
type CertificateStatus struct {
	Domain  string     `json:"domain"`
	Expires *time.Time `json:"expires"`
}

// ConfigStatus says what is in force, and whether the last edit is.
type ConfigStatus struct {
	// Hash is that of the file's bytes.
	Hash string `json:"hash"`
	// Loaded is when what is in force was loaded.
	Loaded time.Time `json:"loaded"`
	// OK says that the file as last seen is in force; otherwise Error says what is
	// wrong with it.
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// Reloads counts reloads by their result.
	Reloads map[string]uint64 `json:"reloads"`
}

// RuleStatus is what a rule has decided since its counters began, as the metrics
// count it, and how fast it does, in decisions a second.
type RuleStatus struct {
	Name      string `json:"name"`
	Match     string `json:"match"`
	Key       string `json:"key"`
	Algorithm string `json:"algorithm"`
	// DryRun says that it refuses nobody, Switched that this was switched by an
	// operator, until the next reload.
	DryRun   bool `json:"dry_run"`
	Switched bool `json:"switched,omitempty"`
	// Plans are its own numbers, then those of its tiers.
	Plans []PlanStatus `json:"plans"`
	// Candidate are numbers that are counted beside its own and never enforced; nil is
	// none.
	Candidate *CandidateStatus `json:"candidate,omitempty"`
	// Skipped, FailedOpen, Units and NearLimit are as in rules.Live.
	Skipped    int64 `json:"skipped"`
	FailedOpen int64 `json:"failed_open"`
	Units      int64 `json:"units"`
	NearLimit  int64 `json:"near_limit"`
	Keys       int64 `json:"keys"`
	Evictions  int64 `json:"evictions"`
	// What all plans decided in the last seconds.
	AllowedRate     float64 `json:"allowed_per_second"`
	RefusedRate     float64 `json:"refused_per_second"`
	WouldRefuseRate float64 `json:"would_refuse_per_second"`
	// History has the decisions of each span of five seconds, the oldest first, for
	// at most five minutes: allowed, refused, would have refused.
	History [][3]int64 `json:"history,omitempty"`
	// TopRefused are the keys that it refused most in the last five to ten minutes,
	// or would have in a dry run.
	TopRefused []KeyStatus `json:"top_refused,omitempty"`
	// Blocked are the keys that an operator has blocked, the ten that end last.
	Blocked []Blocked `json:"blocked,omitempty"`
}

// KeyStatus is a key that a rule refuses.
type KeyStatus struct {
	// Key is an address, "global", or an id that stands for what is not shown.
	Key string `json:"key"`
	// ID is its id, which names it whatever is shown.
	ID string `json:"id"`
	// Client is the address from which it was used last.
	Client string `json:"client"`
	// Refused is how often it was refused, at most Over too high.
	Refused int64 `json:"refused"`
	Over    int64 `json:"over,omitempty"`
	// Last is when that was the last time.
	Last time.Time `json:"last"`
	// AllowedIn is in how many seconds the request refused last would pass; nil is
	// never.
	AllowedIn *float64 `json:"allowed_in_seconds"`
}

// topRefused is how many keys are shown of a rule.
const topRefused = 10

// refusedKeys reads whom r refuses most.
func refusedKeys(g *proxy.Gateway, set *rules.Set, r *rules.Rule) []KeyStatus {
	var list []KeyStatus
	now := g.Now()
	for _, k := range r.Live.Refusals.Top(now, topRefused) {
		s := KeyStatus{
			Key: set.KeyName(r, k.Key, k.Client), ID: rules.KeyID(k.Key), Client: k.Client.String(), Refused: k.Count, Over: k.Over, Last: k.Last.Time(),
		}
		if k.Until != 0 {
			in := max(0, math.Ceil(k.Until.Sub(now).Seconds()*10)/10)
			s.AllowedIn = &in
		}
		list = append(list, s)
	}
	return list
}

// PlanStatus is what a rule has decided for the clients of a tier; "" are those
// of none.
type PlanStatus struct {
	Tier string `json:"tier"`
	// Limit is as the file has it, "20 in progress" for a concurrency; Means says
	// it in plain numbers.
	Limit        string `json:"limit"`
	Means        string `json:"means"`
	Allowed      int64  `json:"allowed"`
	Refused      int64  `json:"refused"`
	WouldRefuse  int64  `json:"would_refuse"`
	FailedClosed int64  `json:"failed_closed"`
	Blocked      int64  `json:"blocked"`
	// Waited are those of Allowed that waited for their turn.
	Waited int64 `json:"waited"`
}

// CandidateStatus is what a candidate would have decided of all requests that the
// other rules let through.
type CandidateStatus struct {
	// Limit and Means are as in PlanStatus.
	Limit       string `json:"limit"`
	Means       string `json:"means"`
	WouldAllow  int64  `json:"would_allow"`
	WouldRefuse int64  `json:"would_refuse"`
}

// UpstreamStatus is how a pool of servers does.
type UpstreamStatus struct {
	Name string `json:"name"`
	// Panic says that checks find fewer than half of the servers up, so that
	// requests go to all.
	Panic   bool           `json:"panic"`
	Servers []ServerStatus `json:"servers"`
}

// ServerStatus is how a server does.
type ServerStatus struct {
	// URL is the server as the file names it, without a password.
	URL string `json:"url"`
	Up  bool   `json:"up"`
	// Since is when it came up or went down, as far back as the pool goes.
	Since    time.Time `json:"since"`
	InFlight int64     `json:"in_flight"`
	// Answers counts answers by the class of their status, Errors attempts without
	// a usable one, FailedChecks checks of its health that failed.
	Answers      map[string]uint64 `json:"answers"`
	Errors       uint64            `json:"errors"`
	FailedChecks uint64            `json:"failed_checks"`
	// LastCheck is nil for a server that was not checked yet, or never is.
	LastCheck *CheckStatus `json:"last_check,omitempty"`
}

// CheckStatus is what a check of a server's health found: Error is "" for a good one.
type CheckStatus struct {
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"`
}

// readStatus reads all figures.
func readStatus(c Config, now time.Time) Status {
	snap, reloads := c.Gateway.Current(), c.Reloads()
	s := Status{
		At: now, Version: c.Build.Version, Ready: c.Ready(), DryRun: c.AllDryRun,
		Config: ConfigStatus{
			Hash: snap.Rules().Hash, Loaded: time.Unix(0, int64(reloads.Since*1e9)), OK: reloads.OK, Error: reloads.Error, Reloads: reloads.Counts,
		},
		InFlight: c.Gateway.InFlight(), Answers: map[string]uint64{},
		Rules: make([]RuleStatus, len(snap.Rules().Rules)), Upstreams: []UpstreamStatus{},
	}
	if c.Connections != nil {
		s.Connections = c.Connections().Open
	}
	for _, r := range c.Gateway.Routes() {
		for _, a := range r.Responses {
			s.Answers[className(a.Code/100)] += a.Count
		}
	}
	for i, r := range snap.Rules().Rules {
		s.Rules[i] = ruleStatus(r, c.History, now)
		s.Rules[i].Switched = r.Switched && !c.AllDryRun
		s.Rules[i].TopRefused = refusedKeys(c.Gateway, snap.Rules(), r)
		blocked := blockedKeys(c.Gateway, r)
		s.Rules[i].Blocked = blocked[:min(len(blocked), topRefused)]
	}
	for _, name := range slices.Sorted(maps.Keys(snap.Pools())) {
		s.Upstreams = append(s.Upstreams, upstreamStatus(name, snap.Pools()[name]))
	}
	if c.Store != nil {
		s.Store = c.Store()
	}
	if c.Expiries != nil {
		all := c.Expiries()
		for _, domain := range slices.Sorted(maps.Keys(all)) {
			one := CertificateStatus{Domain: domain}
			if at := all[domain]; !at.IsZero() {
				one.Expires = &at
			}
			s.Certificates = append(s.Certificates, one)
		}
	}
	return s
}

func ruleStatus(r *rules.Rule, h *History, now time.Time) RuleStatus {
	s := RuleStatus{
		Name: r.Name, Match: r.MatchText, Key: r.KeyText, Algorithm: r.Algorithm, DryRun: r.DryRun,
		Skipped: r.Live.Skipped.Load(), FailedOpen: r.Live.FailedOpen.Load(), Units: r.Live.Units.Load(), NearLimit: r.Live.NearLimit.Load(),
	}
	for p := range r.Plans() {
		s.Plans = append(s.Plans, PlanStatus{
			Tier: p.Tier, Limit: p.LimitText(), Means: p.Describe(),
			Allowed: p.Live.Allowed.Load() + p.Live.Waited.Load(), Waited: p.Live.Waited.Load(), Refused: p.Live.Rejected.Load(), WouldRefuse: p.Live.DryRunRejected.Load(), FailedClosed: p.Live.FailedClosed.Load(),
			Blocked: p.Live.Blocked.Load(),
		})
	}
	if p := r.Base.Candidate; p != nil {
		s.Candidate = &CandidateStatus{
			Limit: p.LimitText(), Means: p.Describe(), WouldAllow: p.Live.Allowed.Load(), WouldRefuse: p.Live.Rejected.Load(),
		}
	}
	s.Keys, s.Evictions = held(r)
	if h == nil {
		return s
	}
	if rates, ok := h.of(r, now); ok {
		s.AllowedRate, s.RefusedRate, s.WouldRefuseRate = round(rates.Allowed), round(rates.Refused), round(rates.WouldRefuse)
		for _, t := range rates.Spans {
			s.History = append(s.History, [3]int64{t.Allowed, t.Refused, t.WouldRefuse})
		}
	}
	return s
}

// round leaves two places after the point.
func round(rate float64) float64 { return math.Round(rate*100) / 100 }

// held returns how many keys r remembers, and how many it dropped for want of room.
func held(r *rules.Rule) (keys, evictions int64) {
	for _, t := range r.Tables() {
		stats := t.Stats()
		keys, evictions = keys+stats.Keys, evictions+stats.Evictions
	}
	return keys, evictions
}

func upstreamStatus(name string, p *upstream.Pool) UpstreamStatus {
	u := UpstreamStatus{Name: name, Panic: p.Panic()}
	for _, s := range p.Stats() {
		server := ServerStatus{
			URL: s.URL.Redacted(), Up: s.Up, Since: s.Since, InFlight: s.InFlight,
			Answers: map[string]uint64{}, Errors: s.Failures, FailedChecks: s.CheckFailures,
		}
		for class, n := range s.Answers {
			if n > 0 {
				server.Answers[className(class)] = n
			}
		}
		if !s.Checked.IsZero() {
			server.LastCheck = &CheckStatus{At: s.Checked}
			if s.CheckError != nil {
				server.LastCheck.Error = s.CheckError.Error()
			}
		}
		u.Servers = append(u.Servers, server)
	}
	return u
}
