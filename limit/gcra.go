package limit

import "time"

// gcra decides like tokenBucket: TAT <= t + burst*period/permits is the same
// inequality as tokens >= 1, with TAT = At + (Used - Rem/parts)*period/permits.
// The State keeps units, not a TAT, so that an edit of the numbers keeps what
// was used.
type gcra struct{ tokenBucket }

// NewGCRA returns the Bucket of the generic cell rate algorithm (ITU-T I.371)
// with room for a burst. It makes the same decisions as NewTokenBucket with the
// same numbers, which are bound in the same way.
func NewGCRA(permits int64, per time.Duration, burst int64) (Bucket, error) {
	b, err := NewTokenBucket(permits, per, burst)
	if err != nil {
		return nil, err
	}
	return gcra{b.(tokenBucket)}, nil
}
