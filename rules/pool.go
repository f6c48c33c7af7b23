package rules

import (
	"net/url"
	"slices"
	"time"
)

// Upstream is a pool of servers that answer alike.
type Upstream struct {
	// Name is the name in the file, or "default" for the shorthand.
	Name string
	// Servers holds at least one server, each once; not all of them are backups.
	Servers []Server
	// Balance is "least_conn", "round_robin", "random" or "hash".
	Balance string
	// Hash is what is hashed with the balance "hash".
	Hash Attribute
	// Health says how servers are checked; without a Path they are not.
	Health Health
	// Timeout is the time to the first byte of an answer; 0 is none.
	Timeout time.Duration
	// ConnectTimeout is the time to make a connection, or to wait for a place
	// under MaxConns; 0 is none.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an idle connection is kept; 0 is for ever.
	IdleTimeout time.Duration
	// Transport is who speaks HTTP/1.1 to the servers: direct, the gateway itself, or
	// net_http, Go's http.Transport.
	Transport string
	// Retries is how often a request may be sent again, 0 to 10.
	Retries int
	// Resolve is how often a server's name is looked up; 0 is at each dial only.
	Resolve time.Duration
	// MaxConns is the most requests in progress at one server; 0 is no bound.
	MaxConns int
	// Host is "preserve" (the server gets the client's Host) or "upstream" (its own).
	Host string
	// TLS says how https servers are spoken to.
	TLS UpstreamTLS
	// Pos is where the pool is in the file; not part of Equal.
	Pos Pos
}

// Server is one server of a pool.
type Server struct {
	// URL has the scheme http, https or h2c, a host, perhaps a port and a base
	// path without a slash at its end, and nothing else. That of a unix socket
	// has the scheme unix, the text behind it as Opaque, and the base path.
	URL *url.URL
	// Socket is the path of a unix socket, or "".
	Socket string
	// Weight is the server's share of the requests, 1 to 1000.
	Weight int
	// Backup says that it gets requests only when no other server is up.
	Backup bool
}

// Health says how the servers of a pool are checked: GET Path, each Interval.
type Health struct {
	// Path and perhaps a query; "" is no checks.
	Path string
	// Interval is the time between two checks of a server.
	Interval time.Duration
	// Timeout is the time to the header of the answer; at most Interval.
	Timeout time.Duration
	// Status are the answers of a server that is up.
	Status Statuses
}

// UpstreamTLS says how https servers are spoken to. The zero value is how a
// browser does: the system's authorities, the server's name from its URL.
type UpstreamTLS struct {
	// CA holds the authorities that are believed instead of the system's.
	CA FilePath
	// ServerName is the name asked for and checked instead of the URL's; or "".
	ServerName string
	// Cert and Key are the gateway's own certificate; both or neither.
	Cert, Key FilePath
	// Insecure says that the server's certificate is not checked.
	Insecure bool
}

// FilePath names another file.
type FilePath struct {
	// Path is where it is: as written, or from the folder of the file that names
	// it. "" is none.
	Path string
	// Pos is where it is named, Len how many characters that takes.
	Pos Pos
	Len int

	excerpt string
	caret   int
	origin  *origin
}

// Error returns an error at the place where p is named. A path that a variable
// holds is not repeated: it may be what was to be in the file.
func (p FilePath) Error(msg, hint string) *Error {
	msg, hint = p.origin.hide(msg, hint)
	return &Error{Pos: p.Pos, Len: max(1, p.Len), Msg: oneLine(msg), Hint: oneLine(hint), excerpt: p.excerpt, caret: p.caret}
}

// Equal reports whether u and v mean the same pool, wherever in the file they
// stand, so that its connections and its health may be kept. What the files of
// TLS hold is not looked at.
func (u *Upstream) Equal(v *Upstream) bool {
	same := func(a, b Server) bool {
		return a.URL.String() == b.URL.String() && a.Socket == b.Socket && a.Weight == b.Weight && a.Backup == b.Backup
	}
	return u.Name == v.Name && slices.EqualFunc(u.Servers, v.Servers, same) &&
		u.Balance == v.Balance && u.Hash == v.Hash && u.Health == v.Health &&
		u.Timeout == v.Timeout && u.ConnectTimeout == v.ConnectTimeout && u.IdleTimeout == v.IdleTimeout &&
		u.Retries == v.Retries && u.Resolve == v.Resolve && u.MaxConns == v.MaxConns && u.Host == v.Host && u.Transport == v.Transport &&
		u.TLS.equal(&v.TLS)
}

func (t *UpstreamTLS) equal(v *UpstreamTLS) bool {
	return t.CA.Path == v.CA.Path && t.ServerName == v.ServerName && t.Cert.Path == v.Cert.Path &&
		t.Key.Path == v.Key.Path && t.Insecure == v.Insecure
}

// defaultUpstream is a pool where the file says nothing of it.
func defaultUpstream() Upstream {
	return Upstream{
		Balance: "least_conn", Timeout: 60 * time.Second, ConnectTimeout: 2 * time.Second, IdleTimeout: 4 * time.Second,
		Retries: 1, Resolve: 10 * time.Second, Host: "preserve", Transport: "direct",
	}
}

// defaultHealth is how servers are checked where the file names a path alone.
func defaultHealth() Health {
	h := Health{Interval: 5 * time.Second, Timeout: 2 * time.Second}
	h.Status.add(200, 299)
	return h
}
