package proxy

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"

	"gateway/proxy/upstream"
	"gateway/rules"
)

// Snapshot is all a request needs of one version of the file, compiled. It is
// immutable and lives until its last request ends; what outlives it (counters,
// pools) it holds by pointer.
type Snapshot struct {
	rules     *rules.Set
	pools     map[string]*upstream.Pool
	routes    map[string]*routeStats
	timeouts  rules.Timeouts
	limits    rules.Limits
	headers   limitHeaders // that are sent
	bodyLimit int64        // most of a body that is read to find a key
	keep      []string     // headers that rules read, under canonical names
	redact    *rules.Redaction
	wordings  []*wording // of refusals, by Rule.Index
}

// Build compiles file into a Snapshot to follow prev, which may be nil. It may
// fail and has no effects: a Snapshot that is dropped leaves nothing behind, and
// prev is as it was. The error is a rules.ErrorList, of what Compile refuses or of
// files beside this one that cannot be used. A pool whose upstream is the same is kept, with its
// connections and counters, and so is each rule's memory as far as the rule
// still means the same.
func Build(file *rules.File, prev *Snapshot, log *slog.Logger) (*Snapshot, error) {
	var before *rules.Set
	if prev != nil {
		before = prev.rules
	}
	set, err := file.Compile(before)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{
		rules: set, timeouts: file.Timeouts, limits: file.Limits,
		pools:   make(map[string]*upstream.Pool, len(file.Upstreams)),
		routes:  make(map[string]*routeStats, len(set.Routes)),
		headers: limitHeadersOf(file.RateLimitHeaders), bodyLimit: file.BodyLimit,
		keep:   endToEnd(set.HeadersRead()),
		redact: set.Redaction(), wordings: newWordings(set.Rules),
	}
	var errs rules.ErrorList
	for i := range file.Upstreams {
		spec := &file.Upstreams[i]
		if prev != nil {
			if p := prev.pools[spec.Name]; p != nil && p.Equal(spec) {
				s.pools[spec.Name] = p
				continue
			}
		}
		p, err := upstream.New(spec, upstream.Options{Logger: log})
		if list, ok := errors.AsType[rules.ErrorList](err); ok {
			errs = append(errs, list...)
			continue
		}
		if err != nil {
			errs = append(errs, &rules.Error{Pos: spec.Pos, Len: 1, Msg: err.Error()})
			continue
		}
		s.pools[spec.Name] = p
	}
	for _, r := range set.Routes {
		s.routes[r.Name] = newRouteStats(prev, r.Name)
	}
	if len(errs) > 0 {
		slices.SortStableFunc(errs, func(a, b *rules.Error) int {
			return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Col-b.Pos.Col)
		})
		return nil, errs
	}
	return s, nil
}

func newRouteStats(prev *Snapshot, name string) *routeStats {
	if prev != nil {
		if old := prev.routes[name]; old != nil {
			return old
		}
	}
	return &routeStats{}
}

// WithRules returns a Snapshot that is s but for its rules, which were made of those
// of s by switching some to a dry run, or back. It may be put in force in place of s.
func (s *Snapshot) WithRules(set *rules.Set) *Snapshot {
	with := *s
	with.rules = set
	return &with
}

// Rules returns the compiled rules and routes.
func (s *Snapshot) Rules() *rules.Set { return s.rules }

// Pools returns the upstreams by name. The map must not be changed.
func (s *Snapshot) Pools() map[string]*upstream.Pool { return s.pools }
