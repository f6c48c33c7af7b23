package rules

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"gateway/limit"
)

// StoreSpec says where counters live that several gateways share: in Redis or
// Valkey.
type StoreSpec struct {
	// Addrs are the servers, host:port: one; nodes of a cluster; or with Master its
	// sentinels. At least one.
	Addrs []string
	// Master is the name that sentinels know the servers by; "" is without them.
	Master string
	// TLS says that connections are encrypted, CA which authorities are believed; ""
	// is those of the system.
	TLS bool
	CA  FilePath
	// Username and Password are what to log in with; none is not at all.
	Username string
	Password Secret
	// DB is the number of the database.
	DB int
	// Timeout is the most that a decision waits for the store.
	Timeout time.Duration
	// Prefix begins the name of each key.
	Prefix string
	// Replicas is how many gateways share the store: while it is away each counts by
	// itself with its share of a limit.
	Replicas int64
	// Pos is where it is in the file.
	Pos Pos
}

// Same reports whether s and t are one store, spoken to in the same way.
func (s *StoreSpec) Same(t *StoreSpec) bool {
	if s == nil || t == nil {
		return s == t
	}
	return fmt.Sprint(s.Addrs, s.Master, s.TLS, s.CA.Path, s.Username, s.DB, s.Timeout, s.Prefix, s.Replicas) ==
		fmt.Sprint(t.Addrs, t.Master, t.TLS, t.CA.Path, t.Username, t.DB, t.Timeout, t.Prefix, t.Replicas) &&
		s.Password.Reveal() == t.Password.Reveal()
}

// String names the store without what is secret: "redis at 10.0.0.5:6379".
func (s *StoreSpec) String() string {
	if s == nil {
		return "memory"
	}
	text := "redis at "
	if s.Master != "" {
		text = "redis " + s.Master + " of sentinel "
	}
	for i, a := range s.Addrs {
		if i > 0 {
			text += ", "
		}
		text += a
	}
	return text
}

// secret is the key of the digests that all gateways of the store make of keys
// alike. With a password it is nobody's who has not got that.
func (s *StoreSpec) secret() *[32]byte {
	mac := hmac.New(sha256.New, []byte(s.Password.Reveal()))
	mac.Write([]byte("gateway store " + s.Prefix))
	var key [32]byte
	mac.Sum(key[:0])
	return &key
}

// sharedDigest is the digest under which a store counts the key b, which begins with
// the secret.
func sharedDigest(b []byte) limit.Digest {
	sum := sha256.Sum256(b)
	return limit.Digest{Hi: binary.BigEndian.Uint64(sum[:8]), Lo: binary.BigEndian.Uint64(sum[8:])}
}

// Alone returns f as it is for a gateway that shares nothing: all counters are in
// this process, with their whole limits. It is for those who only want to know what
// the rules say.
func (f *File) Alone() *File {
	alone := *f
	alone.Store = nil
	return &alone
}

// shares reports whether r is counted in a store.
func (r *RuleSpec) shares(s *StoreSpec) bool { return s != nil && !r.InProcess }

// share returns the numbers of spec that one of n gateways has: its part, rounded up,
// and enough for one request.
func (r *RuleSpec) share(spec *PlanSpec, n int64) PlanSpec {
	part := func(all int64) int64 {
		if all == 0 {
			return 0
		}
		return min(all, max((all-1)/n+1, r.mostTaken()))
	}
	s := *spec
	s.Rate.Permits, s.Burst, s.Concurrency = part(s.Rate.Permits), part(s.Burst), (s.Concurrency+n-1)/n
	for r.Algorithm == leakyBucket && s.Rate.Permits < spec.Rate.Permits && 1+r.places(&s) < r.mostTaken() {
		s.Rate.Permits = min(2*s.Rate.Permits, spec.Rate.Permits)
	}
	return s
}

// mostTaken returns the most units that a request takes when it comes.
func (r *RuleSpec) mostTaken() int64 {
	most := r.Cost
	for _, c := range r.Costs {
		most = max(most, c.Cost)
	}
	return max(1, most)
}

// shared returns how a store counts spec. identity is that of the plan, zone that of
// the rule's calendar, nil without one.
func (r *RuleSpec) shared(spec *PlanSpec, tier, identity string, zone *limit.Zone) (*limit.Shared, error) {
	n, err := r.numbers(spec, zone)
	if err != nil {
		return nil, err
	}
	if r.Algorithm == concurrency && tier != candidateTier {
		tier = "" // requests in progress are counted together
	}
	sum := sha256.Sum256([]byte(tier + "\n" + identity))
	s, err := limit.NewShared(r.Name+":"+base64.RawURLEncoding.EncodeToString(sum[:6]), n)
	if err == nil {
		s.Returns = r.Count != nil || r.Refund != nil || r.CostFrom.Header != ""
	}
	return s, err
}
