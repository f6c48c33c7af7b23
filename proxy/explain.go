package proxy

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// Explained says what the gateway makes of a request, and why.
type Explained struct {
	// Facts are what rules look at. They are not filled in for a malformed request.
	Facts *rules.Facts
	// LoosePath is the path as rules see it with `paths: loose`; "" without.
	LoosePath string
	// Peer is who sent the request; Trusted says that its forwarding headers are believed.
	Peer    netip.Addr
	Trusted bool
	// Blocked and Exempt say that the file's block or exempt takes the request.
	Blocked, Exempt bool
	// Route is the route that takes it, or nil; Passed says why each of those before
	// it does not.
	Route  *rules.Route
	Passed []rules.PassedRoute
	// Path is the path that the route's upstream gets.
	Path string
	// Rules says what each rule makes of it, in the order of the file; none for a
	// request that is malformed, blocked or without a route.
	Rules []rules.Explanation
	// Tries are the decisions on it, one for each time.
	Tries []Try
}

// Try is one decision on a request.
type Try struct {
	// Passes says that every rule had room.
	Passes bool
	// Answer is what the gateway itself answers; nil when the request goes to an upstream.
	Answer *Answer
	// Takes says how each rule that applies decided, in the order of the file.
	Takes []Take
	// Trials says the same of candidates, which refuse nothing; those that see the
	// request.
	Trials []Take
}

// Answer is an answer of the gateway's own.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Take is the decision of one rule.
type Take struct {
	Rule *rules.Rule
	// Result is what the limiter said. Of a rule that had room while another had
	// not nothing was taken. With OK its Wait is how long the request waits for its
	// turn.
	Result limit.Result
}

// Explain says what a gateway that has just started with s makes of a request that
// comes so many times at this moment, none of them answered yet. It takes the steps
// of ServeHTTP but for the last: nothing goes to an upstream. The body is given
// apart, since it is read more than once. s must not be in force, and must be of no
// use to anybody afterwards.
func (s *Snapshot) Explain(r *http.Request, body []byte, times int) *Explained {
	g := &Gateway{clock: NewClock(), log: slog.New(slog.DiscardHandler), still: true}
	now := g.clock.Now()
	s.rules.Activate(now)
	e := &Explained{}
	for i := range times {
		again := r.Clone(r.Context())
		if again.Body = http.NoBody; len(body) > 0 {
			again.Body = io.NopCloser(bytes.NewReader(body))
		}
		x := g.begin(&unsent{header: http.Header{}}, again)
		x.start, x.at = now, now
		read := x.read(s)
		if i == 0 {
			e.look(x, s, body, read)
		}
		e.Tries = append(e.Tries, x.try(s, read))
		if i == 0 && x.plan != nil && x.pool != "" {
			e.Path = x.forward.Path
		}
	}
	return e
}

// look fills in what is the same each time.
func (e *Explained) look(x *exchange, s *Snapshot, body []byte, read bool) {
	e.Peer, e.Trusted = x.peer.Addr().Unmap().WithZone(""), x.trusted
	if !read {
		return
	}
	f := &rules.Facts{
		Method: x.facts.Method, Host: x.facts.Host, Path: x.facts.Path, RawPath: x.facts.RawPath, RawQuery: x.facts.RawQuery,
		Client: x.facts.Client, Header: x.facts.Header, Now: x.facts.Now,
	}
	e.Facts = f
	if s.rules.File.LoosePaths {
		e.LoosePath, _ = f.LoosePath() // or there was an answer already
	}
	e.Blocked, e.Exempt = s.rules.Blocked(f), s.rules.Exempt(f)
	if e.Blocked {
		return
	}
	if e.Route, e.Passed = s.rules.ExplainRoute(f); e.Route == nil {
		return
	}
	f.Route = e.Route.Name
	switch {
	case f.Hopeless(nil) && len(body) > 0:
		f.SetBody(rules.Body{State: rules.BodyHopeless})
	case int64(len(body)) > s.bodyLimit:
		f.SetBody(rules.Body{State: rules.BodyTooLong})
	default:
		f.SetBody(rules.Body{State: rules.BodyWhole, Bytes: body})
	}
	e.Rules = s.rules.Explain(f)
}

// try takes the steps of ServeHTTP up to where a request goes to its upstream.
func (x *exchange) try(s *Snapshot, read bool) Try {
	passes := read && x.match(s) && x.readKeys(s) && x.acquire(s)
	if passes && x.pool == "" {
		x.answerItself()
	}
	t := Try{Passes: passes}
	if w := x.w.ResponseWriter.(*unsent); w.status != 0 {
		t.Answer = &Answer{Status: w.status, Header: w.header, Body: w.body.Bytes()}
	}
	for i := range x.hits {
		for j := range x.claims {
			if c := &x.claims[j]; c.Tag == int32(i) {
				t.Takes = append(t.Takes, Take{x.hits[i].Rule, c.Result})
			}
		}
		for j := range x.trials {
			if c := &x.trials[j]; c.Tag == int32(i) {
				t.Trials = append(t.Trials, Take{x.hits[i].Rule, c.Result})
			}
		}
	}
	return t
}

// unsent is a ResponseWriter that keeps the answer.
type unsent struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (u *unsent) Header() http.Header { return u.header }

// WriteHeader implements http.ResponseWriter.
func (u *unsent) WriteHeader(status int) {
	if status >= 200 && u.status == 0 {
		u.status = status
	}
}

// Write implements http.ResponseWriter.
func (u *unsent) Write(p []byte) (int, error) {
	u.WriteHeader(http.StatusOK)
	return u.body.Write(p)
}

// SetReadDeadline is for http.ResponseController: what is read is there already.
func (u *unsent) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for http.ResponseController.
func (u *unsent) SetWriteDeadline(time.Time) error { return nil }

// Flush implements http.Flusher.
func (u *unsent) Flush() {}
