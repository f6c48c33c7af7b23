package replay

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"gateway/limit"
	"gateway/rules"
)

// request is what a record asks for: what rules look at, and the rules that apply.
type request struct {
	rec    *Record
	asks   bool // rules are to be asked
	facts  rules.Facts
	header http.Header
	hits   []rules.Hit
}

// ahead is how many requests are matched before the first of them is decided: what
// is known of their keys is on its way out of memory meanwhile, all at once.
const ahead = 16

// ask finds out what rec asks for, and counts it if that is nothing.
func (s *Run) ask(rec *Record) {
	if !s.begun {
		s.begun, s.now, s.first = true, rec.At, rec.At
		s.set.Activate(rec.At)
	}
	n := rec.weight()
	s.rec, s.asks, s.hits = rec, false, s.hits[:0]
	if o := rec.Own; o != nil && (o.Result == "shed" || rec.Seq == 0 && o.Result != "none" && o.Result != "allowed") {
		s.total.Before += n
		return
	}
	if !s.read(rec) {
		s.total.Malformed += n
		return
	}
	found, ok := s.match(rec)
	if !ok {
		s.total.Malformed += n
	}
	s.asks = found
}

// warm brings what is known of the keys of requests, and the records that come next,
// into the caches.
func (s *Run) warm(requests []request, next []*Record) {
	for _, rec := range next {
		if len(rec.Target) > 0 {
			s.warmed += int64(rec.Target[0])
		}
	}
	// In loops so short that the processor sees far enough ahead to wait for many at once.
	var places [4 * ahead]*keyRow
	n := 0
	for i := range requests {
		for j := range requests[i].hits {
			h := &requests[i].hits[j]
			s.warmed += h.Plan.Live.Table.Warm(h.Key)
		}
	}
	for i := range requests {
		for j := range requests[i].hits {
			h := &requests[i].hits[j]
			if n < len(places) {
				places[n] = s.rules[h.Rule.Index].keys.near(h.Key)
				n++
			}
		}
	}
	for _, row := range places[:n] {
		if row != nil {
			s.warmed += row.requests
		}
	}
}

// read fills in the facts, as the front door does, and reports whether the request
// is one that rules are asked about.
func (s *Run) read(rec *Record) bool {
	if rec.NoRequest {
		return false
	}
	f := &s.facts
	f.Reset()
	path, query := rec.Target, ""
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path, query = path[:i], path[i+1:]
	}
	normal, err := rules.NormalPath(path)
	if err != nil {
		return false
	}
	f.Method, f.Path, f.RawPath, f.RawQuery = rec.Method(), normal, path, query
	switch {
	case rec.Own != nil:
		f.Host = rec.Host
	case rec.Host != "":
		if f.Host, err = rules.NormalHost(rec.Host); err != nil {
			return false
		}
	default:
		f.Host = s.host
	}
	if s.set.File.LoosePaths {
		if _, err = f.LoosePath(); err != nil {
			return false
		}
	}
	f.Now = rec.At
	f.Client = s.client(rec)
	f.Header = s.headers(rec)
	f.SetBody(rules.Body{State: rules.BodyWhole})
	return true
}

// client returns the client's address, behind the proxies that the file trusts.
func (s *Run) client(rec *Record) netip.Addr {
	if rec.Own != nil {
		return rec.Client
	}
	s.peers.add(rec.Client)
	if !s.set.TrustedProxies.Contains(rec.Client) {
		return rec.Client
	}
	if rec.Forwarded == "" {
		return rec.Client
	}
	s.forwarded["X-Forwarded-For"] = append(s.forwarded["X-Forwarded-For"][:0], rec.Forwarded)
	client, _ := rules.ClientAddr(netip.AddrPortFrom(rec.Client, 1), s.forwarded, s.set.TrustedProxies)
	return client
}

// headers returns what the line holds of the headers that the file looks at.
func (s *Run) headers(rec *Record) http.Header {
	if len(s.wants) == 0 {
		return nil
	}
	if s.header == nil {
		s.header = http.Header{}
	}
	for name, values := range s.header {
		s.header[name] = values[:0]
	}
	any := false
	add := func(name, value string) {
		any = true
		s.header[name] = append(s.header[name], value)
	}
	for _, h := range rec.headers {
		if slices.Contains(s.wants, h.name) {
			add(h.name, h.value)
		}
	}
	if s.basic && rec.User != "" {
		add("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(rec.User+":")))
	}
	if !any {
		return nil
	}
	for name, values := range s.header {
		if len(values) == 0 {
			delete(s.header, name)
		}
	}
	return s.header
}

// match finds the rules of the request. found is false when none is asked, ok is
// false for a query that cannot be read.
func (s *Run) match(rec *Record) (found, ok bool) {
	f := &s.facts
	n := rec.weight()
	if s.set.Blocked(f) && f.QueryError() == nil {
		s.total.Blocked += n
		return false, true
	}
	route := s.set.Route(f)
	if f.QueryError() != nil {
		return false, false
	}
	if o := rec.Own; o != nil && o.Route != "" {
		f.Route = o.Route
	} else if route == nil {
		s.total.NoRoute += n
		return false, true
	} else {
		f.Route = route.Name
	}
	s.hits = s.set.Match(f, s.hits[:0])
	if f.QueryError() != nil {
		return false, false
	}
	if rec.Own != nil {
		s.own(rec)
		return true, true
	}
	kept, format := 0, rec.format()
	for i := range s.hits {
		r := s.rules[s.hits[i].Rule.Index]
		if s.modeOf(r, format) == ignored {
			r.ignored += n
			continue
		}
		if kept < i {
			s.hits[kept] = s.hits[i]
		}
		kept++
	}
	s.hits = s.hits[:kept]
	return true, true
}

// modeOf returns how r is judged by the lines of f.
func (s *Run) modeOf(r *ruleRun, f *Format) mode {
	if r.seen != f {
		v, ok := r.views[f]
		if !ok {
			v = viewOf(r.rule, f)
			r.views[f] = v
		}
		r.seen, r.mode = f, v.mode
	}
	return r.mode
}

// own puts what our own log says of rules in the place of what its line shows.
func (s *Run) own(rec *Record) {
	o := rec.Own
	s.ownLines++
	if o.PathCut {
		s.total.PathCut += rec.weight()
	}
	if s.exempt && o.Result == "none" {
		s.hits = s.hits[:0]
		return
	}
	kept := s.hits[:0]
	for _, h := range s.hits {
		if !o.PathCut && !h.Rule.Beyond() {
			kept = append(kept, h)
		}
	}
	s.hits = kept
	for i := range o.Rules {
		one := &o.Rules[i]
		r := s.set.Rule(one.Name)
		if r == nil || one.Key == (limit.Digest{}) {
			continue
		}
		h := rules.Hit{Rule: r, Plan: r.Plan(one.Tier), Key: one.Key}
		if h.Plan == nil {
			h.Plan = r.Base
		}
		if h.Cost = one.Cost; h.Cost < 0 {
			h.Cost, _ = r.CostOf(&s.facts)
		}
		s.rules[r.Index].told++
		s.hits = append(s.hits, h)
	}
	if o.DryRun == "" {
		return
	}
	for name := range strings.SplitSeq(o.DryRun, ",") { // for want of a key
		if r := s.set.Rule(name); r != nil && r.DryRun && r.Beyond() && o.rule(name) == nil {
			s.hits = append(s.hits, rules.Hit{Rule: r, Plan: r.Base, Missing: true})
		}
	}
}
