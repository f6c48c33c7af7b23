package proxy

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"gateway/limit"
	"gateway/proxy/upstream"
	"gateway/rules"
)

// match finds the route and the rules of the request (step 4). It returns false
// when the request is answered already: blocked, without a route, or without a
// key that a rule insists on. Nothing has been charged then.
func (x *exchange) match(snap *Snapshot) bool {
	if snap.rules.Blocked(&x.facts) && x.facts.QueryError() == nil {
		x.fail(problem{status: http.StatusForbidden, detail: "Requests like this one are blocked here."})
		x.result = resultBlocked
		return false
	}
	route := snap.rules.Route(&x.facts)
	if err := x.facts.QueryError(); err != nil {
		return x.badQuery(err) // both were decided without it
	}
	if route == nil {
		x.fail(problem{status: http.StatusNotFound, detail: "No route of this gateway takes this request."})
		return false
	}
	x.facts.Route, x.routed, x.pool = route.Name, route.Name, route.Upstream
	x.route = snap.routes[route.Name]
	x.route.inFlight.Add(1)
	x.plan = route
	path, ok := route.Path(&x.facts, x.path)
	if !ok {
		x.fail(problem{status: http.StatusBadRequest, detail: "The path, as this route rewrites it, can be read in two ways."})
		return false
	}
	x.forward = upstream.Request{Front: x, Client: x, Path: path, Timeout: route.Timeout, Tunnel: x.limits.Tunnel}
	if !x.bodyFits() {
		return false
	}
	if x.body == nil {
		x.facts.SetBody(rules.Body{State: rules.BodyWhole})
	}
	if x.body == nil || !route.NeedsBody() {
		x.forward.Key = route.Affinity(&x.facts)
	}
	x.facts.TokenLater = true
	x.hits = snap.rules.Match(&x.facts, x.hits)
	x.facts.TokenLater = false
	if err := x.facts.QueryError(); err != nil {
		return x.badQuery(err)
	}
	return x.keysFound()
}

// keysFound answers a request without a key that a rule insists on, with one that
// cannot be told under a rule that fails closed, or with one that is blocked.
func (x *exchange) keysFound() bool {
	kept := x.hits[:0]
	for _, h := range x.hits {
		switch {
		case !h.Missing && h.Doubt == rules.KeyFound:
			if x.isBlocked(&h) {
				return false
			}
			kept = append(kept, h)
		case h.Rule.DryRun:
			h.Plan.Live.DryRunRejected.Add(1)
			x.dryRun = join(x.dryRun, h.Rule.Name)
		default:
			x.ruleNames = h.Rule.Name
			x.fail(keyProblem(&h))
			return false
		}
	}
	clear(x.hits[len(kept):])
	x.hits = kept
	return true
}

// keyProblem returns the answer to a request whose key a rule must have and has
// not. A key that cannot be told counts as a failure of the rule.
func keyProblem(h *rules.Hit) problem {
	p := problem{status: http.StatusBadRequest, title: "Key missing", rules: []string{h.Rule.Name}}
	rule, key := `Rule "`+h.Rule.Name+`"`, h.Rule.KeyText
	if h.Missing {
		p.detail = rule + " needs " + needs(h.Rule) + " in the request."
		return p
	}
	h.Plan.Live.FailedClosed.Add(1)
	switch p.title = "Key unreadable"; h.Doubt {
	case rules.KeyTooLong:
		p.status, p.detail = http.StatusRequestEntityTooLarge, rule+" looks for "+key+" in the request, whose body is too long for that."
	case rules.KeyNoMemory:
		p.status, p.title, p.wait = http.StatusServiceUnavailable, "Temporarily at capacity", time.Second
		p.detail = rule + " looks for " + key + " in the request, but too many bodies are being read now."
	default:
		p.detail = rule + " cannot tell " + key + " in this request for sure."
	}
	return p
}

// badQuery answers a request whose query some match or key reads, and cannot.
func (x *exchange) badQuery(err error) bool {
	x.fail(problem{status: http.StatusBadRequest, detail: sentence(err)})
	return false
}

// needs says what a rule wants of a request's key.
func needs(r *rules.Rule) string {
	if len(r.Known) > 0 {
		return "a known " + r.KeyText
	}
	return r.KeyText
}

// acquire asks the limiter (step 5) and answers what it refuses (step 6). What
// the request holds already it is not asked for again.
func (x *exchange) acquire(snap *Snapshot) bool {
	held := len(x.claims)
	if !x.readsBody {
		x.claimPlace(snap.rules.Overload)
	}
	if len(x.hits) == 0 && x.overload == nil {
		return true
	}
	x.claims = slices.Grow(x.claims, len(x.hits)) // which moves no claim that is held: see holdSlots
	for i := range x.hits {
		if held == 0 || !x.holds(held, i) {
			x.claim(i)
		}
		x.settles = x.settles || x.hits[i].Rule.Settles()
	}
	var v limit.Verdict
	x.grant, v = x.g.limiter.Acquire(x.r.Context(), x.at, x.claims[held:])
	x.asOf = x.at
	if v.OK && v.Wait > 0 && !x.g.still {
		return x.await(v)
	}
	x.granted = v.OK
	for i := 0; !v.OK && i < held; i++ {
		x.claims[i].Result.Remaining += x.claims[i].N // it goes back
	}
	return x.decided(v)
}

// claim makes the claim of hit i, in place: what is behind x.claims is zero.
func (x *exchange) claim(i int) {
	n := len(x.claims)
	x.claims = slices.Grow(x.claims, 1)[:n+1]
	c := &x.claims[n]
	x.hits[i].Claim(c)
	c.Tag = int32(i)
}

// holds reports whether one of the first n claims is that of hit i.
func (x *exchange) holds(n, i int) bool {
	for j := range x.claims[:n] {
		if x.claims[j].Tag == int32(i) {
			return true
		}
	}
	return false
}

// decided notes the verdict on the claims and answers a refusal.
func (x *exchange) decided(v limit.Verdict) bool {
	x.at, x.seq = v.At, v.Seq
	x.note(v)
	x.measure()
	x.describeLimits()
	switch {
	case v.OK:
		if len(x.hits) > 0 {
			x.result = resultAllowed
		}
		return true
	case len(x.refusing) == 0:
		x.shed()
		return false
	case v.Full:
		x.full(x.refusing[0].Rule)
	case v.Lost:
		x.storeLost(x.refusing[0].Rule)
	default:
		x.refuse(v)
	}
	x.result = resultRejected
	if x.blocked {
		x.result = resultBlocked
	}
	return false
}

// note counts what each rule decided and keeps the names for answer and log.
func (x *exchange) note(v limit.Verdict) {
	if !v.OK {
		for i := range x.claims {
			x.blocked = x.blocked || x.claims[i].Blocked && x.claims[i].Mode == limit.Enforce
		}
	}
	for i := range x.claims {
		c := &x.claims[i]
		if c.Tag == overloadTag {
			continue
		}
		hit := &x.hits[c.Tag]
		rule, live := hit.Rule, hit.Plan.Live
		switch {
		case c.Fate == limit.Unasked, c.Fate == limit.Lost && rule.DryRun:
			continue
		case c.Fate == limit.LetPass:
			if v.OK {
				rule.Live.FailedOpen.Add(1)
			}
			continue
		case rule.DryRun:
			switch {
			case !v.OK: // refused by another: as if it had never come
			case c.Result.OK:
				live.Allowed.Add(1)
			default:
				live.DryRunRejected.Add(1)
				rule.Live.Refusals.Add(c.Key, x.facts.Client, x.at, c.Result.Wait)
				x.dryRun = join(x.dryRun, rule.Name)
			}
			continue
		case v.OK && c.Result.Wait > 0:
			live.Waited.Add(1)
		case v.OK:
			live.Allowed.Add(1)
		case x.blocked && !c.Blocked: // the request is blocked, whatever room there is here
			continue
		case c.Blocked:
			live.Blocked.Add(1)
			rule.Live.Refusals.Add(c.Key, x.facts.Client, x.at, c.Result.Wait)
			x.refusing = append(x.refusing, hit)
			continue
		case c.Result.OK: // had room, but another had not
		case v.Full, c.Fate == limit.Lost:
			live.FailedClosed.Add(1)
			x.refusing = append(x.refusing, hit)
		default:
			live.Rejected.Add(1)
			rule.Live.Refusals.Add(c.Key, x.facts.Client, x.at, c.Result.Wait)
			x.refusing = append(x.refusing, hit)
		}
		if nearLimit(hit.Plan, c.Result.Remaining) {
			rule.Live.NearLimit.Add(1)
		}
	}
	if len(x.refusing) > 1 {
		sortByFile(x.refusing)
	}
	switch len(x.refusing) {
	case 0:
	case 1:
		x.ruleNames = x.refusing[0].Rule.Name
	default:
		f := refusal{rules: x.refusing}
		x.buf = f.names(x.buf[:0], ",")
		x.ruleNames = string(x.buf)
	}
}

// nearLimit says that four fifths of the limit or more are used.
func nearLimit(p *rules.Plan, remaining int64) bool { return remaining <= p.Size()/5 }

func join(names, name string) string {
	if names == "" {
		return name
	}
	return strings.Join([]string{names, name}, ",")
}

func sortByFile(list []*rules.Hit) {
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && list[j-1].Rule.Index > list[j].Rule.Index; j-- {
			list[j-1], list[j] = list[j], list[j-1]
		}
	}
}

// pick chooses the server (step 7). A route that leads to none is answered here.
func (x *exchange) pick(snap *Snapshot) (*upstream.Pool, bool) {
	if x.pool == "" {
		x.answerItself()
		return nil, false
	}
	pool := snap.pools[x.pool]
	server, ok := pool.Pick(x.forward.Key)
	if !ok {
		x.fail(problem{status: http.StatusServiceUnavailable, detail: "No server can take this request now.", wait: 1e9})
		return nil, false
	}
	x.forward.Server = server
	return pool, true
}
