package rules

import (
	"crypto/sha256"
	"net/http"
	"net/netip"

	"gateway/limit"
)

// Facts are all that a match or a key may look at in one request. The front door fills in the exported fields from an
// *http.Request; a replay fills them in from a log line, so that both decide with the same code. The zero Facts are
// ready to be filled in; Reset makes used ones so again and keeps their scratch memory, so Facts belong in a pool. They
// are used by one goroutine at a time.
type Facts struct {
	// Method is the request's method as sent; methods are compared with their case.
	Method string
	// Host is the name the client asked for, as NormalHost returns it.
	Host string
	// Path is the normal form of the path, as NormalPath returns it; patterns are matched on it.
	Path string
	// RawPath is the escaped path as the client sent it.
	RawPath string
	// RawQuery is the query as the client sent it, without "?".
	RawQuery string
	// Client is the address of the client, as ClientAddr returns it.
	Client netip.Addr
	// Header holds the request's header under canonical names, as net/http reads it.
	Header http.Header
	// Route is the name of the route the request takes, if it has one.
	Route string
	// Now is when the request is decided, against which its token is held.
	Now limit.Instant
	// TokenLater says that a token which was not verified lately is not to be verified
	// for a key now: such a hit is Pending.
	TokenLater bool

	loose    string // what LoosePath returns; "" is that nobody has asked
	looseErr error

	verifier *verifier // of the Set that was asked
	token    tokenState

	query queryState
	body  Body
	buf   []byte     // scratch in which a key is put together
	text  []byte     // scratch in which a name or a value is decoded
	value []byte     // scratch for a value that is compared; a key may be half made meanwhile
	sums  []valueSum // of values that were compared with hashes
	found []uint32   // scratch of index.find
	costs []uint32   // the same, of the index of a rule's costs

	fields []fieldValue // of the body, as far as somebody asked for them
	values []byte       // theirs
}

// fieldValue is a field of the body that has been looked for, and where in
// Facts.values its value is.
type fieldValue struct {
	name     string
	is       presence
	from, to int
}

// valueSum is the SHA-256 of the value that a request has of an attribute.
type valueSum struct {
	attribute Attribute
	sum       [sha256.Size]byte
}

// sum returns the SHA-256 of the value of an attribute: taken once a request.
func (f *Facts) sum(a Attribute, value []byte) [sha256.Size]byte {
	for i := range f.sums {
		if f.sums[i].attribute == a {
			return f.sums[i].sum
		}
	}
	sum := sha256.Sum256(value)
	f.sums = append(f.sums, valueSum{a, sum})
	return sum
}

// maxScratch is the most scratch memory that Reset keeps; one odd request must not make pooled Facts big for ever.
const maxScratch = 16 << 10

// Reset empties f for the next request. Its scratch memory stays.
func (f *Facts) Reset() {
	buf, text, value, values := f.buf, f.text, f.value, f.values
	found, costs, sums, fields := f.found, f.costs, f.sums, f.fields
	*f = Facts{} // in place; one with fields would be made elsewhere and copied
	f.buf, f.text, f.value, f.values = scratch(buf, maxScratch), scratch(text, maxScratch), scratch(value, maxScratch), scratch(values, maxScratch)
	f.found, f.costs, f.sums, f.fields = scratch(found, maxScratch/4), scratch(costs, maxScratch/4), sums[:0], fields[:0]
}

// scratch returns buf, empty, unless it has more than most places.
func scratch[T any](buf []T, most int) []T {
	if cap(buf) > most {
		return nil
	}
	return buf[:0]
}

// SetBody says what the body of the request is; before that it is not known.
// Afterwards nothing keeps b.Bytes but f, until the next SetBody or Reset.
func (f *Facts) SetBody(b Body) {
	f.body, f.fields, f.values = b, f.fields[:0], f.values[:0]
}
