package admin

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gateway/proxy"
	"gateway/proxy/upstream"
	"gateway/rules"
)

// collector reads the counters of the gateway at scrape time.
type collector struct{ c Config }

func newCollector(c Config) collector { return collector{c} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gateway_"+name, help, labels, nil)
}

var (
	buildInfo  = desc("build_info", "What runs; always 1.", "version", "revision", "goversion")
	configInfo = desc("config_info", "The configuration in force; always 1.", "hash")

	requests  = desc("requests_total", "Requests answered; code 499 when the client left first.", "route", "method", "code")
	inFlight  = desc("requests_in_flight", "Requests in progress, tunnels included.", "route")
	waiting   = desc("requests_waiting", "Requests that wait for their turn.")
	duration  = desc("request_duration_seconds", "Time from a request to the end of its answer.", "route")
	overhead  = desc("overhead_seconds", "The gateway's own time before a request goes to its upstream.")
	bytesIn   = desc("request_bytes_total", "Bytes of request bodies.", "route")
	bytesOut  = desc("response_bytes_total", "Bytes of response bodies.", "route")
	forwarded = desc("untrusted_forwarded_total", "Requests from untrusted peers that carried X-Forwarded-For.")
	dropped   = desc("log_dropped_total", "Log lines dropped because their queue was full or they could not be written.")

	conns   = desc("connections", "Connections open, tunnels included.")
	refused = desc("connections_refused_total", "Connections closed as soon as they had come, or for a flood of HTTP/2 frames.", "reason")
	shed    = desc("overload_shed_total", "Requests refused because too many were in progress.", "priority")

	decisions = desc("rule_decisions_total", "What rules decided.", "rule", "tier", "result")
	units     = desc("rule_units_total", "Units taken.", "rule")
	nearLimit = desc("rule_near_limit_total", "Decisions after which four fifths of the limit or more were used.", "rule")
	keys      = desc("rule_keys", "Keys remembered.", "rule")
	evictions = desc("rule_evictions_total", "Keys dropped before they were idle because memory was full.", "rule")

	upRequests = desc("upstream_requests_total", "Answers of upstream servers by class of status; code error is none.", "upstream", "server", "code")
	upDuration = desc("upstream_duration_seconds", "Time to the first byte of an upstream's answer.", "upstream")
	upUp       = desc("upstream_up", "Whether the server is up: 0 while its checks fail, or while it is out after failures in a row.", "upstream", "server")
	upPanic    = desc("upstream_panic", "Whether checks say that fewer than half of the servers are up, so that requests go to all.", "upstream")
	upChecks   = desc("upstream_health_failures_total", "Checks of the server's health that failed.", "upstream", "server")

	expiry = desc("tls_certificate_expiry_timestamp_seconds", "When the certificate of the domain ends; 0 while it has none.", "domain")

	reloads       = desc("config_reloads_total", "Reloads of the configuration.", "result")
	reloadOK      = desc("config_last_reload_successful", "Whether the file as last seen is in force: 1 or 0.")
	reloadSuccess = desc("config_last_reload_success_timestamp_seconds", "When what is in force was loaded.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, configInfo, requests, inFlight, waiting, duration, overhead, bytesIn, bytesOut, forwarded, dropped, conns, refused, shed,
		decisions, units, nearLimit, keys, evictions, upRequests, upDuration, upUp, upPanic, upChecks, expiry, reloads, reloadOK, reloadSuccess,
		storeUp, storeDuration, storeErrors, storeLeases,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	histogram := func(d *prometheus.Desc, bounds []time.Duration, r upstream.Reading, labels ...string) {
		buckets, total := cumulate(bounds, r)
		ch <- prometheus.MustNewConstHistogram(d, total, r.Sum.Seconds(), buckets, labels...)
	}
	g := c.c.Gateway
	snap := g.Current()
	gauge(buildInfo, 1, c.c.Build.Version, c.c.Build.Revision, c.c.Build.GoVersion)
	gauge(configInfo, 1, snap.Rules().Hash)
	for _, r := range g.Routes() {
		for _, a := range r.Responses {
			counter(requests, float64(a.Count), r.Route, a.Method, strconv.Itoa(a.Code))
		}
		gauge(inFlight, float64(r.InFlight), r.Route)
		histogram(duration, upstream.DurationBounds, r.Duration, r.Route)
		counter(bytesIn, float64(r.RequestBytes), r.Route)
		counter(bytesOut, float64(r.ResponseBytes), r.Route)
	}
	gauge(waiting, float64(g.Waiting()))
	histogram(overhead, proxy.OverheadBounds, g.Overhead())
	counter(forwarded, float64(g.UntrustedForwarded()))
	var lost int64
	if a := g.AccessLog(); a != nil {
		lost = a.Dropped()
	}
	if c.c.Dropped != nil {
		lost += c.c.Dropped()
	}
	counter(dropped, float64(lost))
	if c.c.Connections != nil {
		stats := c.c.Connections()
		gauge(conns, float64(stats.Open))
		for reason, n := range stats.Refused {
			counter(refused, float64(n), reason)
		}
	}
	if o := snap.Rules().Overload; o != nil {
		for _, p := range rules.Priorities {
			counter(shed, float64(o.Live.Shed[p].Load()), p.String())
		}
	}
	ruleMetrics(snap.Rules(), counter, gauge)
	if c.c.Store != nil {
		storeMetrics(c.c.Store(), counter, gauge, histogram)
	}
	for name, p := range snap.Pools() {
		histogram(upDuration, upstream.DurationBounds, p.Durations(), name)
		for _, s := range p.Stats() {
			server := s.URL.Redacted()
			for class, n := range s.Answers {
				counter(upRequests, float64(n), name, server, className(class))
			}
			counter(upRequests, float64(s.Failures), name, server, "error")
			gauge(upUp, truth(s.Up), name, server)
			counter(upChecks, float64(s.CheckFailures), name, server)
		}
		gauge(upPanic, truth(p.Panic()), name)
	}
	if c.c.Expiries != nil {
		for domain, at := range c.c.Expiries() {
			gauge(expiry, max(0, float64(at.Unix())), domain)
		}
	}
	status := c.c.Reloads()
	for result, n := range status.Counts {
		counter(reloads, float64(n), result)
	}
	gauge(reloadOK, truth(status.OK))
	gauge(reloadSuccess, status.Since)
}

func className(class int) string {
	if class == 0 {
		return "other"
	}
	return strconv.Itoa(class) + "xx"
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// cumulate turns counts per bucket into Prometheus's cumulative ones.
func cumulate(bounds []time.Duration, r upstream.Reading) (map[float64]uint64, uint64) {
	buckets := make(map[float64]uint64, len(bounds))
	var sum uint64
	for i, b := range bounds {
		sum += r.Counts[i]
		buckets[b.Seconds()] = sum
	}
	return buckets, sum + r.Counts[len(bounds)]
}
