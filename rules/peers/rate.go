package peers

import (
	"fmt"
	"math/big"
	"time"
)

// units are those in which a rate is written, the longest first.
var units = []struct {
	name string
	long time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

// rate is a number of requests in a time.
type rate struct {
	count  int64
	period time.Duration
}

// text writes a rate as ours; false where it is none: of nothing, or too long or large.
func (r rate) text() (string, bool) {
	if r.count < 1 || r.period <= 0 || r.period > 366*24*time.Hour {
		return "", false
	}
	count := r.count
	if rest := r.period % time.Second; rest != 0 { // whole seconds, of so many more
		scale := new(big.Int).Div(big.NewInt(int64(time.Second)), new(big.Int).GCD(nil, nil, big.NewInt(int64(r.period)), big.NewInt(int64(time.Second)))).Int64()
		if count > 1e15/scale || int64(r.period) > int64(366*24*time.Hour)/scale {
			return "", false
		}
		count, r.period = count*scale, r.period*time.Duration(scale)
	}
	if count > 1e15 {
		return "", false
	}
	for _, u := range units {
		if n := r.period / u.long; r.period%u.long == 0 {
			if n == 1 {
				return fmt.Sprintf("%d/%s", count, u.name), true
			}
			return fmt.Sprintf("%d/%d%s", count, n, u.name), true
		}
	}
	return "", false
}
