// Package admin is the listener for whoever runs the gateway: liveness and
// readiness, metrics, and the reload on request.
//
//	GET  /healthz   200 while the process lives
//	GET  /readyz    200 while it takes traffic: a configuration is loaded, its
//	                listeners are bound and it is not draining; never the upstreams,
//	                since one broken pool must not take every gateway off its balancer
//	GET  /metrics   Prometheus
//	GET  /          the status page
//	GET  /status    how the gateway does, as JSON: see Status
//	GET  /config    all settings in force, those with their defaults too, without
//	                secrets; as YAML, or with ?format=json as JSON
//	GET  /keys/RULE          whom the rule refuses most and who is blocked under it
//	POST /keys/RULE/show     what a key has left. The form's fields named key are its
//	POST /keys/RULE/reset    parts in the order of the rule, or its id; without=1 says
//	POST /keys/RULE/block    that key is the address of a client without the rule's key;
//	                         for=1h says how long to block
//	POST /rules/RULE         dry_run=on or off, until the next reload
//	POST /reload    reads the file now: 200 with what changed, 422 with the errors
//	GET  /debug/pprof/       profiles of the Go runtime
//
// Figures are plain counters in the packages below, read when they are asked
// for. No label ever takes what a client chooses.
//
// The listener is on the loopback unless there is a token, which a request then
// carries as "Authorization: Bearer …", or a browser as the password of any user; /healthz, /readyz and /metrics need none.
// The loopback is where a browser on the same machine gets to as well, so every
// request without a token must name the loopback or an address in Host (against
// DNS rebinding), but for those three over an address that other machines reach, which
// have names for this one; and none may come from another origin.
package admin
