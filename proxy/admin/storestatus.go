package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gateway/proxy/upstream"
)

// StoreStatus is how the store that gateways share does.
type StoreStatus struct {
	// Name says what it is and where, Replicas how many gateways share it.
	Name     string `json:"name"`
	Replicas int64  `json:"replicas"`
	// Up says that nothing of it is away. While it is, rules do what their fail says.
	Up bool `json:"up"`
	// Errors counts calls that failed, by reason; Leases is how many slots of requests
	// in progress this gateway holds.
	Errors map[string]uint64 `json:"errors"`
	Leases int               `json:"leases"`

	// Bounds, Counts and Sum are how long calls took: Counts has one more than Bounds.
	Bounds []time.Duration `json:"-"`
	Counts []uint64        `json:"-"`
	Sum    time.Duration   `json:"-"`
}

var (
	storeUp       = desc("store_up", "Whether the shared store answers: 0 while any of it is away.")
	storeDuration = desc("store_duration_seconds", "Time of a call of the shared store.")
	storeErrors   = desc("store_errors_total", "Calls of the shared store that failed.", "reason")
	storeLeases   = desc("store_leases", "Requests in progress that this gateway holds slots for in the shared store.")
)

// storeMetrics passes on the figures of the store, if there is one.
func storeMetrics(s *StoreStatus, counter, gauge func(d *prometheus.Desc, v float64, labels ...string), histogram func(d *prometheus.Desc, bounds []time.Duration, r upstream.Reading, labels ...string)) {
	if s == nil {
		return
	}
	gauge(storeUp, truth(s.Up))
	histogram(storeDuration, s.Bounds, upstream.Reading{Counts: s.Counts, Sum: s.Sum})
	for reason, n := range s.Errors {
		counter(storeErrors, float64(n), reason)
	}
	gauge(storeLeases, float64(s.Leases))
}
