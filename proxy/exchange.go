package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"gateway/limit"
	"gateway/proxy/upstream"
	"gateway/rules"
)

// result is what became of a request, for the access line. The later in this
// list the more it says.
type result int32

const (
	resultNone    result = iota // no rule applied
	resultAllowed               // every rule that applied had room
	resultFailed                // answered by the gateway itself for another reason
	resultBlocked
	resultShed // refused for overload
	resultRejected
)

func (r result) String() string {
	return [...]string{"none", "allowed", "failed", "blocked", "shed", "rejected"}[r]
}

// exchange is the scratch of one request. It is pooled: nothing that may live
// longer than the handler may point to it.
type exchange struct {
	g *Gateway
	r *http.Request
	w writer

	start    limit.Instant // of the request
	at       limit.Instant // of its decision: start, or when the body had been read for it
	asOf     limit.Instant // of what its limit headers tell: at, or when its turn came
	sent     limit.Instant // when it was handed to the upstream; 0 if never
	seq      uint64        // order of the decisions
	id       string        // X-Request-Id
	peer     netip.AddrPort
	peerName string             // its address; "" is not known yet
	conn     *conn              // over HTTP/2; else nil
	line     *conn              // over HTTP/1 without TLS; else nil
	attends  *conn              // whose client nobody else looks after; else nil
	watching context.Context    // set by Watch
	unwatch  func()             // ends the watch
	leaves   context.CancelFunc // ends watching
	trusted  bool               // the peer's forwarding headers are believed
	grpc     bool
	upgrade  bool // a WebSocket handshake
	body     *body
	limits   rules.Timeouts
	headers  limitHeaders // that are wanted
	wordings []*wording   // of refusals, by Rule.Index
	plan     *rules.Route // what the file says of the route
	route    *routeStats
	routed   string // name of the route
	pool     string // name of the upstream
	path     rules.Path
	facts    rules.Facts
	hits     []rules.Hit
	claims   []limit.Claim
	order    []int
	refusing []*rules.Hit // into hits
	buf      []byte
	hold     limit.Grant         // slots that were taken before the body was read
	grant    limit.Grant         // all else
	trials   []limit.Claim       // of candidates
	trial    limit.Grant         // what these hold
	overload *rules.OverloadLive // where a place is claimed, or nil
	text     []byte              // RateLimit-Policy and, behind it, RateLimit
	policy   int                 // bytes of the former; 0 is neither
	retry    int64               // Retry-After; 0 is none
	tightest *limit.Claim        // what legacy limit headers tell of, or nil
	fields   fields

	keep       []string // headers that Connection must not take away
	redact     *rules.Redaction
	forward    upstream.Request
	failure    error  // why the upstream gave no answer
	status     int    // what is logged when nothing was sent: 499
	ruleNames  string // the rules that refused, joined
	dryRun     string // the dry-run rules that would have, joined
	candidates string // the rules whose candidates would have, joined
	result     result
	answer     rules.Answer  // what counts for the rules
	settles    bool          // some rule looks at it
	problem    bool          // the answer is a problem of the gateway's own
	aborted    bool          // the answer broke off
	granted    bool          // the limiter took all claims
	blocked    bool          // some rule has blocked its key
	readsBody  bool          // the body was read, or begun to be, for a key
	settled    int64         // units kept in the end
	awaited    time.Duration // for a body, before it was decided, and for its turn
	waited     time.Duration // for its turn
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// begin starts the exchange of r (step 1).
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := exchanges.Get().(*exchange)
	x.g, x.r, x.start = g, r, g.clock.Now()
	x.at = x.start
	x.w = writer{ResponseWriter: w, x: x}
	x.grpc = isGRPC(r.Header.Get("Content-Type"))
	g.inFlight.Add(1)
	return x
}

// isGRPC reports whether a client wants to be answered in the way of gRPC, or of
// gRPC-Web, which is for browsers and goes over any version of HTTP.
func isGRPC(contentType string) bool {
	const name = "application/grpc"
	if len(contentType) < len(name) || !strings.EqualFold(contentType[:len(name)], name) {
		return false
	}
	rest := contentType[len(name):]
	return rest == "" || strings.IndexByte("+-; ", rest[0]) >= 0
}

// finish ends the exchange: it settles the grant, counts and logs. It is what
// ServeHTTP defers, so that it runs on a panic and after a tunnel too.
func (x *exchange) finish() {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		answered := x.crashed(p)
		if p = nil; !answered {
			p = http.ErrAbortHandler
		}
	}
	x.aborted = p != nil
	now := x.g.clock.Now()
	x.settle(now)
	x.w.last()
	if x.body != nil {
		x.body.release(x.r.ProtoMajor == 1)
	}
	x.boundRest()
	x.ended(now)
	x.unattend()
	if x.leaves != nil {
		x.leaves()
	}
	x.count(now)
	x.log(now)
	x.g.inFlight.Add(-1)
	x.recycle()
	if p != nil {
		panic(p)
	}
}

// crashed deals with a panic that is a fault of ours: an operator must hear of
// it, and the client gets a 500 if nothing has gone out yet. It reports whether
// it did; else the connection has to break off.
func (x *exchange) crashed(p any) (answered bool) {
	x.g.log.LogAttrs(context.Background(), slog.LevelError, "panic while serving a request",
		slog.String("panic", fmt.Sprint(p)), slog.String("request_id", x.id), slog.String("stack", string(debug.Stack())))
	if x.w.status != 0 || x.forward.Upgraded {
		return false
	}
	defer func() {
		if recover() != nil {
			answered = false
		}
	}()
	if x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close")
	}
	x.fail(problem{status: http.StatusInternalServerError, detail: "The gateway failed on this request."})
	return true
}

// boundRest gives a body that was not read to its end a deadline: net/http
// reads on for a while before it lets the connection go. Behind an answer that broke
// off there is nothing to read for, and the client is to see it at once.
func (x *exchange) boundRest() {
	if x.r.Body == nil || x.r.Body == http.NoBody || x.r.ProtoMajor >= 2 || x.forward.Upgraded {
		return
	}
	rc := http.NewResponseController(x.w.ResponseWriter)
	switch span := x.limits.Read; {
	case x.aborted:
		rc.SetReadDeadline(time.Unix(1, 0))
	case x.body != nil && x.body.atEnd():
	case span > 0:
		rc.SetReadDeadline(time.Now().Add(span))
	}
}

// maxScratch bounds what a pooled exchange keeps, so that one odd request does
// not make it big for ever.
const maxScratch = 256

func (x *exchange) recycle() {
	clear(x.hits)
	clear(x.claims)
	clear(x.trials)
	clear(x.refusing)
	if cap(x.hits) > maxScratch || cap(x.buf) > 16<<10 || cap(x.text) > 16<<10 {
		return
	}
	x.facts.Reset()
	*x = exchange{
		facts: x.facts, hits: x.hits[:0], claims: x.claims[:0], trials: x.trials[:0], order: x.order[:0],
		refusing: x.refusing[:0], buf: x.buf[:0], text: x.text[:0],
	}
	exchanges.Put(x)
}

// requestID returns the id of a trusted peer, or makes one: 128 random bits.
func requestID(r *http.Request, trusted bool) string {
	if trusted {
		if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 128 && isVisible(id) {
			return id
		}
	}
	const hex = "0123456789abcdef"
	var b [32]byte
	hi, lo := rand.Uint64(), rand.Uint64()
	for i := range 16 {
		b[i], b[16+i] = hex[hi>>(60-4*i)&15], hex[lo>>(60-4*i)&15]
	}
	return string(b[:])
}

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
