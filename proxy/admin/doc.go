// Package admin is the listener for whoever runs the gateway: liveness and
// readiness, metrics, and the reload on request.
//
//	GET  /healthz   200 while the process lives
//	GET  /readyz    200 while it takes traffic: a configuration is loaded, its
//	                listeners are bound and it is not draining; never the upstreams,
//	                since one broken pool must not take every gateway off its balancer
//	GET  /metrics   Prometheus
//	GET  /status    how the gateway does, as JSON: see Status
//	GET  /config    all settings in force, those with their defaults too, without
//	                secrets; as YAML, or with ?format=json as JSON
//	POST /reload    reads the file now: 200 with what changed, 422 with the errors
//
// Figures are plain counters in the packages below, read when they are asked
// for. No label ever takes what a client chooses.
//
// The listener is on the loopback unless there is a token, which a request then
// carries as "Authorization: Bearer …"; /healthz, /readyz and /metrics need none.
// The loopback is where a browser on the same machine gets to as well, so every
// request without a token must name the loopback or an address in Host (against
// DNS rebinding), and none may come from another origin.
package admin
