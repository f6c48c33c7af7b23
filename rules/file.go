package rules

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// File is what a configuration file says, with the defaults filled in and with
// positions: plain data that Parse makes, that nobody changes afterwards, and
// that any number of goroutines may read.
type File struct {
	// Name is the file's name as it was given to Parse.
	Name string
	// Hash is the SHA-256 of the file's bytes, in hexadecimal; with an include, that of
	// the hashes of all its files.
	Hash string
	// Warnings are about settings that can be used but are seldom meant; sorted.
	Warnings ErrorList

	// Version is the version of the format: 1.
	Version int
	// Listen holds the public addresses; at least one, each once.
	Listen []Listen
	// TLS says how the public addresses are encrypted; nil is not at all.
	TLS *TLS
	// Upstreams holds the pools in the order of the file; at least one. The
	// shorthand `upstream` is one named "default".
	Upstreams []Upstream
	// Routes holds the routes in the order of the file; at least one. Without
	// `routes` it is one that takes everything.
	Routes []RouteSpec
	// JWT says how tokens are verified; nil is that none are.
	JWT *JWT
	// Groups holds the groups in the order of the file.
	Groups []Group
	// Rules holds the rules in the order of the file; it may be empty.
	Rules []RuleSpec
	// Exempt are the requests no rule applies to; nil is none (unlike the nil
	// Match of a rule, which is all).
	Exempt *Match
	// Block are the requests that are answered 403 before any rule; nil is none.
	Block *Match
	// TrustedProxies are the peers whose forwarding headers are believed.
	TrustedProxies Prefixes
	// ProxyProtocol says that trusted proxies begin each connection with a PROXY
	// header, and that nobody else may connect.
	ProxyProtocol bool
	// IPv6Prefix is the number of bits of an IPv6 address that make one client, 32 to 128.
	IPv6Prefix int
	// BodyLimit is the most bytes of a body that are read to find a key in it, 1 or more.
	BodyLimit int64
	// RateLimitHeaders is "draft-11", "legacy", "both" or "off".
	RateLimitHeaders string
	// Reject is the answer to a refused request, unless its rule says otherwise; never nil.
	Reject *Reject
	// Timeouts bound the public side.
	Timeouts Timeouts
	// Limits bound the head of a request.
	Limits Limits
	// Overload bounds the requests in progress in the whole gateway.
	Overload OverloadSpec
	// ShutdownTimeout is how long requests in progress may take after a stop; 0 is not at all.
	ShutdownTimeout time.Duration
	// ShutdownDelay is how long the gateway serves on, not ready, before it stops.
	ShutdownDelay time.Duration
	// Admin is the admin listener.
	Admin Admin
	// Log says what is logged and how.
	Log Log
	// State is where levels are kept over a restart; without a Path they are not.
	// Without a Pos it is not the file that says so, but the environment (see StateDir).
	State FilePath
	// MaxKeys is the most keys a rule remembers, at least 1000; a rule may have its own.
	MaxKeys int64
	// LoosePaths says that rules and block, and no routes or exempt, match paths in their
	// loose form: see LoosePath.
	LoosePaths bool
	// MaxMemory bounds the memory of all counters together, in bytes.
	MaxMemory int64
	// Store is where counters live that several gateways share; nil is nowhere: all
	// are in this process.
	Store *StoreSpec

	data     []byte     // what it was parsed from
	included []Included // in the order in which they count
	listed   map[string][]Included
	settings map[string]string // top-level setting -> a text that changes with its value
	// The matches of Rules and of Routes, as Parse made them; nil in a File made
	// otherwise.
	byRule, byRoute *index
}

// Listen is a public address: "host:port", where an empty host is every address;
// "unix:" and an absolute path; or "systemd:" and the name of a socket that systemd
// has bound.
type Listen struct {
	Addr string
	Pos  Pos
}

// RuleSpec is a rule as the file says it.
type RuleSpec struct {
	// Name is its identity over reloads and its name in headers, logs and metrics.
	Name string
	// Match are the requests it applies to; nil is all of them. MatchText is how
	// it is written.
	Match     *Match
	MatchText string
	// Key holds the attributes that together say who shares a counter; at least one.
	Key []Attribute
	// Missing says what happens when the key is not in a request.
	Missing Missing
	// Known names the groups of which one must list a key's value, or the key
	// counts as missing; none is no bound.
	Known []string
	// PlanSpec are the rule's own numbers, for clients of none of its Tiers.
	PlanSpec
	// Candidate are numbers that are counted beside those and never enforced; nil is
	// none.
	Candidate *PlanSpec
	// Tiers are the numbers of others: of the first whose group a client is in.
	Tiers []TierSpec
	// Algorithm is the name of the algorithm, "concurrency" for requests in progress.
	Algorithm string
	// Zone is the name of the time zone whose calendar a fixed window goes by; "" is
	// none, and windows are aligned to Unix time.
	Zone string
	// MaxWait is how long a request is held for its turn, instead of being refused;
	// 0 is not at all. At most limit.MaxWait.
	MaxWait time.Duration
	// Penalty is what repeated refusals earn.
	Penalty PenaltySpec
	// Cost is how many units a request takes that none of Costs names; with CostFrom
	// what it reserves.
	Cost int64
	// Costs are those of requests that a pattern takes, in the order of the file.
	Costs []PatternCost
	// CostFrom says that the answer names the cost; without a Header it does not.
	CostFrom CostFrom
	// Count are the answers that use units up, Refund those that give them back.
	Count, Refund *Returns
	// InProcess says that it is counted in this process, whatever the file's store.
	InProcess bool
	// Fail is "local", "open" or "closed": what happens when the rule cannot decide.
	Fail string
	// DryRun says that the rule decides and counts but never refuses.
	DryRun bool
	// MaxKeys is the most keys it remembers.
	MaxKeys int64
	// Reject is the answer to a request it refuses; rules that say the same may share one.
	Reject *Reject
	// Pos is where the rule begins, KeyPos where its key is.
	Pos, KeyPos Pos
}

// TierSpec are the numbers of a rule for the clients of a group.
type TierSpec struct {
	Group string
	PlanSpec
}

// PenaltySpec says what repeated refusals earn. The zero PenaltySpec is nothing.
type PenaltySpec struct {
	// After are the refusals that go unpunished, AfterText as written.
	After     Rate
	AfterText string
	// Block is how long the first block takes, Max how long any does at most.
	Block, Max time.Duration
}

// Reject is the answer to a request over a limit. In Detail, Body and the values
// of Headers, {rule}, {limit} and {retry_after} are filled in.
type Reject struct {
	// Status is 400 to 599; 429 unless the file says otherwise.
	Status int
	// Detail is the text of the generated body; "" is the gateway's own.
	Detail string
	// Headers are added to the answer, under canonical names, sorted by name.
	Headers []Header
	// Body replaces the generated body unless it is "".
	Body string
	// ContentType is that of Body; text/plain unless the file says otherwise.
	ContentType string
	// Jitter is how many percent Retry-After may be later than it must be, 0 to 100.
	Jitter int
}

// Header is one header field.
type Header struct{ Name, Value string }

// Timeouts bound the public side; 0 is none.
type Timeouts struct {
	ReadHeader time.Duration // for a request's head
	Read       time.Duration // in each such span of a body at least 1 KiB arrives
	Write      time.Duration // in each such span at least 1 KiB of what waits is taken
	Idle       time.Duration // between two requests of a connection
	Tunnel     time.Duration // of a WebSocket without a byte either way
}

// Limits bound the head of a request, and connections.
type Limits struct {
	HeaderBytes int64 // all header fields together; 431 above
	Headers     int   // how many; 431 above
	URL         int64 // bytes of the request target; 414 above

	// Connections is the most at one time; 0 is as many as the process can have.
	Connections int64
	// ConnectionsPerIP is the most of one client's address; 0 is no bound.
	ConnectionsPerIP int64
}

// Admin is the admin listener: an address, or off.
type Admin struct {
	// Addr is on the loopback, or there is a Token.
	Addr string
	Off  bool
	// Token is what a request must carry unless it only asks how the gateway does.
	Token Secret
	Pos   Pos
}

// Log says what is logged and how.
type Log struct {
	Level  string // debug, info, warn or error
	Format string // auto, text or json
	Access string // auto, text, json, combined or off
	// Redact is what the access log does not show beside what it never does: query
	// parameters, named segments of the path, and the headers Referer and User-Agent.
	Redact []Attribute
}

// Defaults returns a File with what holds where a file says nothing.
func Defaults() File {
	return File{
		Version:          1,
		Listen:           []Listen{{Addr: ":8080"}},
		IPv6Prefix:       64,
		BodyLimit:        64 << 10,
		RateLimitHeaders: "draft-11",
		Reject:           &Reject{Status: 429},
		Timeouts: Timeouts{
			ReadHeader: 10 * time.Second, Read: 30 * time.Second, Write: 30 * time.Second,
			Idle: 120 * time.Second, Tunnel: time.Hour,
		},
		Limits:          Limits{HeaderBytes: 64 << 10, Headers: 100, URL: 16 << 10},
		ShutdownTimeout: 30 * time.Second,
		Admin:           Admin{Addr: "127.0.0.1:9900"},
		Log:             Log{Level: "info", Format: "auto", Access: "auto"},
		MaxKeys:         1_000_000,
		MaxMemory:       1 << 30,
	}
}

// changedSettings returns the names of the top-level settings, but for rules
// and groups,
// that f and g have different values of; sorted.
func (f *File) changedSettings(g *File) []string {
	changed := map[string]bool{}
	for name, text := range f.settings {
		if g.settings[name] != text {
			changed[name] = true
		}
	}
	for name := range g.settings {
		if _, ok := f.settings[name]; !ok {
			changed[name] = true
		}
	}
	delete(changed, "groups")
	return slices.Sorted(maps.Keys(changed))
}

// private reports whether only this machine or its own network can reach the
// address.
func (l Listen) private() bool {
	if strings.HasPrefix(l.Addr, "unix:") {
		return true
	}
	host := hostOf(l.Addr)
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && (a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast())
}
