// Package fleet simulates many gateways over one store: the gateway's own Limiter in
// each, on a network of virtual time with latency and loss, each with a clock that
// is wrong by up to ten seconds. It says how much more than the limit got through,
// and how often the store was asked, as the fleet grows:
//
//	cd bench && go test ./fleet -run Fleet -v
//
// What the store decides is decided by package limit, as the store's scripts do (see
// the tests of limit/redis, which compare them over random histories).
package fleet
