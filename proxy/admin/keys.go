package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"gateway/proxy"
	"gateway/rules"
)

const (
	defaultBlock = time.Hour
	longestBlock = 366 * 24 * time.Hour
	// mostForm bounds what names a key.
	mostForm = 64 << 10
)

// RuleKeys is what GET /keys/RULE says: whom an operator has blocked under a rule,
// and whom the rule refuses most.
type RuleKeys struct {
	Rule       string      `json:"rule"`
	Blocked    []Blocked   `json:"blocked"`
	TopRefused []KeyStatus `json:"top_refused"`
}

// Blocked is a key that is blocked.
type Blocked struct {
	Key   string    `json:"key"`
	Until time.Time `json:"until"`
}

// KeyUsage is what is known of one key of a rule.
type KeyUsage struct {
	Rule string `json:"rule"`
	// Key is how the key is shown: an address or an id.
	Key string `json:"key"`
	// BlockedUntil is nil for a key that is not blocked.
	BlockedUntil *time.Time `json:"blocked_until,omitempty"`
	// Plans say what the key has left under the rule's own numbers, and under those
	// of each tier.
	Plans []PlanUsage `json:"plans,omitempty"`
	// InProgress says, after a reset, that requests in progress stay counted.
	InProgress bool `json:"in_progress,omitempty"`
}

// PlanUsage is what a key has left under one plan.
type PlanUsage struct {
	Tier  string `json:"tier"`
	Limit string `json:"limit"`
	// Left is how many of Size units are left.
	Left int64 `json:"left"`
	Size int64 `json:"size"`
	// AllowedIn is in how many seconds a request would pass; nil is never.
	AllowedIn *float64 `json:"allowed_in_seconds"`
}

// keysHandler answers what is below /keys/.
type keysHandler struct{ c Config }

func (k keysHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /keys/{rule}", func(w http.ResponseWriter, r *http.Request) {
		set := k.c.Gateway.Current().Rules()
		rule := set.Rule(r.PathValue("rule"))
		if rule == nil {
			say(w, http.StatusNotFound, noRule(set, r.PathValue("rule")))
			return
		}
		answerJSON(w, ruleKeys(k.c.Gateway, set, rule))
	})
	for action, do := range map[string]func(*named) (KeyUsage, error){"show": k.show, "reset": k.reset, "block": k.block} {
		mux.HandleFunc("POST /keys/{rule}/"+action, func(w http.ResponseWriter, r *http.Request) {
			n, status, err := k.find(w, r)
			if err != nil {
				say(w, status, err.Error())
				return
			}
			usage, err := do(n)
			if err != nil {
				say(w, http.StatusBadRequest, err.Error())
				return
			}
			if r.PostForm.Get("page") != "" { // a button of the status page
				w.Header().Set("Cache-Control", "no-store")
				http.Redirect(w, r, "/", http.StatusSeeOther)
				return
			}
			answerJSON(w, usage)
		})
	}
}

func answerJSON(w http.ResponseWriter, v any) {
	head(w, http.StatusOK, "application/json")
	json.NewEncoder(w).Encode(v)
}

func ruleKeys(g *proxy.Gateway, set *rules.Set, r *rules.Rule) RuleKeys {
	return RuleKeys{Rule: r.Name, Blocked: blockedKeys(g, r), TopRefused: refusedKeys(g, set, r)}
}

func blockedKeys(g *proxy.Gateway, r *rules.Rule) []Blocked {
	list := []Blocked{}
	for _, b := range r.Live.Blocks.All(g.Now()) {
		list = append(list, Blocked{Key: b.Name, Until: b.Until.Time()})
	}
	return list
}

// noRule says that there is no rule of that name, and which there are.
func noRule(set *rules.Set, name string) string {
	names := make([]string, 0, 20)
	for _, r := range set.Rules[:min(len(set.Rules), cap(names))] {
		names = append(names, r.Name)
	}
	if len(set.Rules) > len(names) {
		names = append(names, "…")
	}
	return fmt.Sprintf("there is no rule %.64q; there are: %s", name, strings.Join(names, ", "))
}

// named is a key that a request names.
type named struct {
	r    *http.Request
	rule *rules.Rule
	key  rules.Key
	name string
}

// find reads the rule and the key that a request names, or says which status
// answers it.
func (k keysHandler) find(w http.ResponseWriter, r *http.Request) (*named, int, error) {
	set := k.c.Gateway.Current().Rules()
	n := &named{r: r, rule: set.Rule(r.PathValue("rule"))}
	if n.rule == nil {
		return nil, http.StatusNotFound, errors.New(noRule(set, r.PathValue("rule")))
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the form cannot be read: %w", err)
	}
	values, missing := r.PostForm["key"], r.PostForm.Get("without") != ""
	key, err := set.FindKey(n.rule, values, missing)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	n.key = key
	n.name = set.KeyName(n.rule, key, k.clientOf(n.rule, key, values))
	return n, 0, nil
}

// clientOf returns the address that values name, or from which the key was used
// last, if it is known.
func (k keysHandler) clientOf(r *rules.Rule, key rules.Key, values []string) (client netip.Addr) {
	if len(values) != 1 {
		return client
	}
	if p, err := netip.ParsePrefix(values[0]); err == nil {
		return p.Addr()
	}
	if a, err := netip.ParseAddr(values[0]); err == nil {
		return a
	}
	for _, row := range r.Live.Refusals.Top(k.c.Gateway.Now(), math.MaxInt) {
		if row.Key == key {
			return row.Client
		}
	}
	return client
}

func (k keysHandler) show(n *named) (KeyUsage, error) {
	g := k.c.Gateway
	u := KeyUsage{Rule: n.rule.Name, Key: n.name}
	if until, ok := n.rule.Live.Blocks.Until(n.key, g.Now()); ok {
		at := until.Time()
		u.BlockedUntil = &at
	}
	for _, use := range g.Usage(n.rule, n.key) {
		p := PlanUsage{Tier: use.Plan.Tier, Limit: use.Plan.LimitText(), Left: use.Left, Size: use.Plan.Size()}
		if use.Wait >= 0 {
			s := use.Wait.Seconds()
			p.AllowedIn = &s
		}
		if at := g.Now().Add(use.Blocked).Time(); use.Blocked > 0 && (u.BlockedUntil == nil || u.BlockedUntil.Before(at)) {
			u.BlockedUntil = &at
		}
		u.Plans = append(u.Plans, p)
	}
	return u, nil
}

func (k keysHandler) reset(n *named) (KeyUsage, error) {
	all := k.c.Gateway.Free(n.rule, n.key)
	k.audit("key reset", n)
	u, err := k.show(n)
	u.InProgress = !all
	return u, err
}

func (k keysHandler) block(n *named) (KeyUsage, error) {
	d := defaultBlock
	if text := n.r.PostForm.Get("for"); text != "" {
		var err error
		if d, err = rules.ParseDuration(text); err != nil {
			return KeyUsage{}, err
		}
	}
	switch {
	case d < time.Second || d > longestBlock:
		return KeyUsage{}, errors.New("a block is for 1s to 366d")
	case n.rule.DryRun:
		return KeyUsage{}, fmt.Errorf("rule %q is a dry run, which refuses nobody: block the client under another rule", n.rule.Name)
	}
	until, err := k.c.Gateway.Block(n.rule, n.key, n.name, d)
	if err != nil {
		return KeyUsage{}, err
	}
	k.audit("key blocked", n, slog.Time("until", until))
	return k.show(n)
}

// audit logs what an operator has done. The key is in it as it is shown.
func (k keysHandler) audit(what string, n *named, more ...slog.Attr) {
	if k.c.Logger == nil {
		return
	}
	attrs := append([]slog.Attr{slog.String("rule", n.rule.Name), slog.String("key", n.name), slog.String("from", n.r.RemoteAddr)}, more...)
	k.c.Logger.LogAttrs(n.r.Context(), slog.LevelInfo, what, attrs...)
}
