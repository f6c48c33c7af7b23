package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gateway/proxy"
	"gateway/rules"
)

// explanation is what `gateway explain` prints.
type explanation struct {
	Method  string            `json:"method"`
	Host    string            `json:"host"`
	Path    string            `json:"path"`                 // as rules and routes see it
	Loose   string            `json:"loose_path,omitempty"` // as rules see it with paths: loose
	Sent    string            `json:"sent"`                 // as the client sent it
	Client  string            `json:"client"`
	Peer    string            `json:"peer"`
	Blocked bool              `json:"blocked"`
	Exempt  bool              `json:"exempt"`
	Route   *routeExplanation `json:"route"`
	Rules   []ruleExplanation `json:"rules"`
	Passes  int               `json:"passes"` // of so many
	Of      int               `json:"of"`
	Answer  *answered         `json:"answer,omitempty"` // the first of the gateway's own
}

// routeExplanation says which route takes the request.
type routeExplanation struct {
	Name     string      `json:"name"`
	Upstream string      `json:"upstream,omitempty"`
	Path     string      `json:"path,omitempty"` // what the upstream gets
	Passed   []passedOne `json:"passed"`
}

type passedOne struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// ruleExplanation says what a rule makes of it.
type ruleExplanation struct {
	Name      string    `json:"name"`
	Limit     string    `json:"limit"`
	Applies   bool      `json:"applies"`
	WhyNot    string    `json:"why_not,omitempty"`
	Algorithm string    `json:"algorithm"`
	Meaning   string    `json:"meaning"`
	Tier      string    `json:"tier,omitempty"`
	Key       []keyPart `json:"key,omitempty"`
	Instead   string    `json:"instead,omitempty"` // why this is no key of the rule's own
	Refuses   string    `json:"refuses,omitempty"` // whatever was counted
	Cost      int64     `json:"cost"`
	CostBy    string    `json:"cost_by,omitempty"`
	Settles   string    `json:"settles,omitempty"` // what its answer changes
	DryRun    bool      `json:"dry_run"`
	Room      int       `json:"room"` // for so many of the requests
	Remaining int64     `json:"remaining"`
	Wait      float64   `json:"wait_seconds,omitempty"` // of the first without room; -1 is for ever
	Held      int       `json:"held,omitempty"`         // of those with room so many wait for their turn
	Longest   float64   `json:"held_seconds,omitempty"` // so long at most
	text      []fmt.Stringer

	Candidate *candidateExplanation `json:"candidate,omitempty"` // counted, never enforced
}

// candidateExplanation says what a candidate would make of the requests.
type candidateExplanation struct {
	Limit   string `json:"limit"`
	Meaning string `json:"meaning"`
	Sees    int    `json:"sees"` // so many of the requests: those that all other rules let through
	Room    int    `json:"room"` // for so many of these
}

type keyPart struct {
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
}

// answered is an answer of the gateway's own.
type answered struct {
	Number int         `json:"number"` // of the request it is the first for
	Status int         `json:"status"`
	Rules  []string    `json:"rules,omitempty"` // that refused
	Detail string      `json:"detail,omitempty"`
	Header http.Header `json:"header"`
	Body   string      `json:"body"`
}

func newExplanation(r *http.Request, e *proxy.Explained) *explanation {
	x := &explanation{
		Method: r.Method, Host: r.Host, Path: r.URL.Path, Sent: r.RequestURI, Client: e.Peer.String(), Peer: e.Peer.String(),
		Blocked: e.Blocked, Exempt: e.Exempt, Of: len(e.Tries), Rules: []ruleExplanation{},
	}
	if e.Facts != nil {
		x.Host, x.Path, x.Loose, x.Client = e.Facts.Host, e.Facts.Path, e.LoosePath, e.Facts.Client.String()
	}
	if e.Route != nil {
		x.Route = &routeExplanation{Name: e.Route.Name, Upstream: e.Route.Upstream, Path: e.Path, Passed: []passedOne{}}
		for _, p := range e.Passed {
			x.Route.Passed = append(x.Route.Passed, passedOne{p.Route.Name, p.WhyNot})
		}
	}
	for i := range e.Rules {
		x.Rules = append(x.Rules, newRuleExplanation(&e.Rules[i], e.Tries))
	}
	for i, t := range e.Tries {
		if t.Passes {
			x.Passes++
		}
		if t.Answer != nil && x.Answer == nil {
			x.Answer = newAnswered(i+1, &t, e.Rules)
		}
	}
	return x
}

func newRuleExplanation(e *rules.Explanation, tries []proxy.Try) ruleExplanation {
	r := ruleExplanation{
		Name: e.Rule.Name, Limit: e.Plan.Limit, Applies: e.WhyNot == "", WhyNot: e.WhyNot, Algorithm: e.Rule.Algorithm, Meaning: e.Plan.Describe(),
		Tier: e.Plan.Tier, Instead: e.Instead, Refuses: e.Refuses, Cost: e.Cost, DryRun: e.Rule.DryRun,
	}
	if e.CostBy != nil {
		r.CostBy = e.CostBy.String()
	}
	switch {
	case !r.Applies:
	case e.Rule.Count != nil:
		r.Settles = "only answers " + e.Rule.Count.Statuses.String() + " count"
	case e.Rule.Refund != nil:
		r.Settles = e.Rule.Refund.String() + " give it back"
	case e.Rule.CostFrom.Header != "":
		r.Settles = fmt.Sprintf("%s of its answer says more, at most %d", e.Rule.CostFrom.Header, e.Rule.CostFrom.Max)
	}
	for _, part := range e.Key {
		r.Key = append(r.Key, keyPart{part.Attribute.String(), part.Value})
		r.text = append(r.text, part)
	}
	if trial := e.Plan.Candidate; trial != nil && r.Applies && r.Refuses == "" {
		r.Candidate = newCandidateExplanation(e.Rule, trial, tries)
	}
	full := false
	for i, t := range tries {
		for _, take := range t.Takes {
			switch {
			case take.Rule != e.Rule:
			case take.Result.OK:
				if r.Room++; take.Result.Wait > 0 {
					r.Held++
					r.Longest = max(r.Longest, take.Result.Wait.Seconds())
				}
			case !full:
				full = true
				if r.Wait = take.Result.Wait.Seconds(); take.Result.Wait < 0 {
					r.Wait = -1
				}
			}
			if take.Rule == e.Rule && i == 0 {
				r.Remaining = take.Result.Remaining
			}
		}
	}
	return r
}

func newCandidateExplanation(rule *rules.Rule, trial *rules.Plan, tries []proxy.Try) *candidateExplanation {
	c := &candidateExplanation{Limit: trial.Limit, Meaning: trial.Describe()}
	for _, t := range tries {
		for _, take := range t.Trials {
			if take.Rule == rule {
				c.Sees++
			}
			if take.Rule == rule && take.Result.OK {
				c.Room++
			}
		}
	}
	return c
}

func newAnswered(number int, t *proxy.Try, list []rules.Explanation) *answered {
	a := &answered{Number: number, Status: t.Answer.Status, Header: t.Answer.Header, Body: string(t.Answer.Body)}
	for _, take := range t.Takes {
		if !t.Passes && !take.Result.OK && !take.Rule.DryRun {
			a.Rules = append(a.Rules, take.Rule.Name)
		}
	}
	for i := range list {
		if e := &list[i]; e.Refuses != "" && !e.Rule.DryRun && len(a.Rules) == 0 {
			a.Rules = []string{e.Rule.Name}
		}
	}
	var problem struct{ Detail string }
	if json.Unmarshal(t.Answer.Body, &problem) == nil {
		a.Detail = problem.Detail
	}
	return a
}

// print writes the explanation for people.
func (x *explanation) print(out io.Writer) {
	fmt.Fprintf(out, "%s %s to %s from %s\n", x.Method, x.Sent, x.Host, x.Peer)
	if x.Client != x.Peer {
		fmt.Fprintf(out, "the client is %s: %s is a trusted proxy and says so\n", x.Client, x.Peer)
	}
	sent, _, _ := strings.Cut(x.Sent, "?")
	switch {
	case x.Loose != "" && x.Loose != x.Path:
		fmt.Fprintf(out, "rules see the path as %s (paths: loose), routes as %s\n", x.Loose, x.Path)
	case sent != x.Path:
		fmt.Fprintf(out, "rules see the path as %s\n", x.Path)
	}
	x.printRoute(out)
	if x.Exempt && len(x.Rules) > 0 {
		fmt.Fprintf(out, "\nIt is exempt: none of the %s applies.\n", count(len(x.Rules), "rule"))
	} else {
		x.printRules(out)
	}
	fmt.Fprintf(out, "\n%s\n", x.decision())
}

func (x *explanation) printRoute(out io.Writer) {
	if x.Route == nil {
		return
	}
	to := "the gateway itself answers"
	if x.Route.Upstream != "" {
		to = fmt.Sprintf("to upstream %q as %s", x.Route.Upstream, cmp.Or(x.Route.Path, "its base path, or /"))
	}
	fmt.Fprintf(out, "route %s, %s\n", x.Route.Name, to)
	for _, p := range x.Route.Passed {
		fmt.Fprintf(out, "  not %s: %s\n", p.Name, p.Why)
	}
}

func (x *explanation) printRules(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "\nRules that apply:\n"
	for i := range x.Rules {
		if r := &x.Rules[i]; r.Applies {
			fmt.Fprint(w, head)
			head = ""
			for j, line := range r.lines(x.Of) {
				name, limit := "", ""
				if j == 0 {
					name, limit = r.Name, r.limit()
				}
				fmt.Fprintf(w, "  %s\t%s\t%s\n", name, limit, line)
			}
		}
	}
	w.Flush()
	head = "\nRules that do not:\n"
	for i := range x.Rules {
		if r := &x.Rules[i]; !r.Applies {
			fmt.Fprint(w, head)
			head = ""
			fmt.Fprintf(w, "  %s\t%s\t%s\n", r.Name, r.limit(), r.WhyNot)
		}
	}
	w.Flush()
}

// limit returns the limit as it is written, with the word that it stands behind
// where it is no rate.
func (r *ruleExplanation) limit() string {
	if r.Algorithm == "concurrency" {
		return "concurrency " + r.Limit
	}
	return r.Limit
}

// lines says how the rule decides.
func (r *ruleExplanation) lines(of int) []string {
	if r.Refuses != "" {
		return []string{"refuses: " + r.Refuses}
	}
	parts := make([]string, len(r.text))
	for i, part := range r.text {
		parts[i] = part.String()
	}
	key := "counts by " + strings.Join(parts, " + ")
	if r.Instead != "" {
		key += ", since " + r.Instead
	}
	numbers := r.Meaning
	if r.Tier != "" {
		numbers = "tier " + r.Tier + ": " + numbers
	}
	takes := "takes " + strconv.FormatInt(r.Cost, 10)
	if r.CostBy != "" {
		takes += " as of " + r.CostBy
	}
	if r.Settles != "" {
		takes += "; " + r.Settles
	}
	lines := []string{key, numbers, takes + "; " + r.room(of)}
	if c := r.Candidate; c != nil {
		lines = append(lines, fmt.Sprintf("candidate %s (%s): would have room for %d of %d; counted, never enforced", c.Limit, c.Meaning, c.Room, c.Sees))
	}
	return lines
}

// room says for how many of the requests the rule has room.
func (r *ruleExplanation) room(of int) string {
	text := fmt.Sprintf("has room for %d of %d", r.Room, of)
	switch {
	case r.Room == of && of == 1:
		text = fmt.Sprintf("has room: %d left", r.Remaining)
	case r.Room == of:
		text = fmt.Sprintf("has room for all %d", of)
	case r.Wait < 0:
		text = "has no room, and never will"
	case of == 1:
		text = "has no room before " + shortDuration(r.Wait)
	default:
		text += ", and again in " + shortDuration(r.Wait)
	}
	if r.Held > 0 {
		text += fmt.Sprintf("; %d of them wait for their turn, %s at most", r.Held, shortDuration(r.Longest))
	}
	if r.DryRun {
		text += " (dry run: never refuses)"
	}
	return text
}

// shortDuration writes seconds as one would: "1h", "3.6s".
func shortDuration(seconds float64) string {
	text := time.Duration(seconds * 1e9).Round(100 * time.Millisecond).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// decision says what becomes of the request.
func (x *explanation) decision() string {
	a := x.Answer
	switch {
	case a == nil && x.Of == 1:
		return "It passes."
	case a == nil:
		return fmt.Sprintf("All %d pass.", x.Of)
	case x.Passes > 0 && a.Number == 1:
		return fmt.Sprintf("It is answered here: %d.", a.Status)
	}
	text := fmt.Sprintf("It is answered %d", a.Status)
	if x.Of > 1 {
		text = fmt.Sprintf("%d of %d pass; request %d is answered %d", x.Passes, x.Of, a.Number, a.Status)
	}
	if len(a.Rules) > 0 {
		text += " because of " + strings.Join(a.Rules, " and ")
	}
	if after := a.Header.Get("Retry-After"); after != "" {
		text += ", Retry-After: " + after
	}
	if a.Detail != "" && len(a.Rules) == 0 {
		return text + ": " + a.Detail
	}
	return text + "."
}
