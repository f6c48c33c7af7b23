package rules

import (
	"slices"
	"strings"
)

// part is a kind of map in the file.
type part string

const (
	partFile     part = "file"
	partUpstream part = "upstream"
	partServer   part = "server"
	partRoute    part = "route"
	partHeaders  part = "headers"
	partEdit     part = "headers of a message"
	partRedirect part = "redirect"
	partRespond  part = "respond"
	partRule     part = "rule"
	partMatch    part = "match"
	partPath     part = "path"
	partReject   part = "reject"
	partTier     part = "tier"
	partTrial    part = "candidate"
	partTimeouts part = "timeouts"
	partLimits   part = "limits"
	partOverload part = "overload"
	partAdmin    part = "admin"
	partLog      part = "log"
	partCost     part = "cost"
	partCount    part = "count"
	partRefund   part = "refund"
	partCalendar part = "calendar"
	partPenalty  part = "penalty"
	partHealth   part = "health"
	partBalance  part = "balance"
	partSecret   part = "secret"
	partStore    part = "store"
	partRedis    part = "redis"

	partTLS         part = "tls"
	partCertificate part = "certificate"
	partUpstreamTLS part = "tls of an upstream"
	partGroupFile   part = "values of a group"
	partJWT         part = "jwt"
)

// settings are the names of the settings of each part.
var settings = map[part][]string{
	partFile: {
		"version", "listen", "upstream", "upstreams", "routes", "rules", "exempt", "block",
		"trusted_proxies", "ipv6_prefix", "ratelimit_headers", "reject", "timeouts", "limits",
		"shutdown_timeout", "shutdown_delay", "admin", "log", "max_keys", "max_memory", "store", "overload", "proxy_protocol",
		"groups", "body_limit", "tls", "paths", "state", "jwt", "include",
	},
	partUpstream: {
		"servers", "balance", "health", "timeout", "connect_timeout", "idle_timeout", "retries", "resolve",
		"max_conns", "host", "tls", "transport",
	},
	partTLS: {
		"domains", "email", "ca", "ca_root", "storage", "redirect", "certificates", "client_ca", "client_auth", "min_version",
	},
	partCertificate: {"cert", "key"},
	partGroupFile:   {"file"},
	partJWT:         {"secret", "public_key_file", "jwks_file"},
	partServer:      {"url", "weight", "backup"},
	partHealth:      {"path", "interval", "timeout", "status"},
	partBalance:     {"hash"},
	partUpstreamTLS: {"ca", "server_name", "cert", "key", "insecure"},
	partRoute:       {"match", "upstream", "strip_prefix", "rewrite", "redirect", "respond", "headers", "max_body", "timeout", "priority"},
	partHeaders:     {"request", "response"},
	partEdit:        {"set", "remove"},
	partRedirect:    {"to", "status"},
	partRespond:     {"status", "body", "content_type"},
	partRule: {
		"name", "match", "key", "limit", "burst", "algorithm", "missing", "max_keys", "dry_run", "reject",
		"concurrency", "cost", "count", "refund", "fail", "tiers", "known", "candidate", "store", "calendar", "max_wait", "penalty",
	},
	partMatch:    {"path", "method", "host", "ip", "group", "not"},
	partPath:     {"regex"},
	partTier:     {"limit", "burst", "concurrency"},
	partTrial:    {"limit", "burst", "concurrency"},
	partReject:   {"status", "detail", "headers", "body", "content_type", "jitter"},
	partTimeouts: {"read_header", "read", "write", "idle", "tunnel"},
	partLimits:   {"header_bytes", "headers", "url", "connections", "connections_per_ip"},
	partOverload: {"max_in_flight", "reserve"},
	partAdmin:    {"listen", "token"},
	partSecret:   {"file", "env", "credential"},
	partStore:    {"redis"},
	partRedis:    {"url", "password", "ca", "timeout", "prefix", "replicas"},
	partCost:     {"header", "reserve", "max"},
	partCount:    {"status"},
	partRefund:   {"status", "upstream_error"},
	partCalendar: {"zone"},
	partPenalty:  {"after", "block", "max"},
	partLog:      {"level", "format", "access", "redact"},
}

// choice are the values of a setting that takes one of some words.
type choice []string

var (
	algorithms       = choice{tokenBucket, gcra, fixedWindow, slidingWindow, slidingLog, leakyBucket}
	failures         = choice{"local", "open", "closed"}
	balances         = choice{"least_conn", "round_robin", "random"}
	routePriorities  = choice{"critical", "normal", "sheddable"}
	transports       = choice{"direct", "net_http"}
	hosts            = choice{"preserve", "upstream"}
	pathForms        = choice{"strict", "loose"}
	rateLimitHeaders = choice{"draft-11", "legacy", "both", "off"}
	clientAuths      = choice{"require", "request"}
	tlsVersions      = choice{"1.2", "1.3"}
	logLevels        = choice{"debug", "info", "warn", "error"}
	logFormats       = choice{"auto", "text", "json"}
	logAccess        = choice{"auto", "json", "combined", "off"}
)

// isSetting reports whether some part has a setting of that name.
func isSetting(name string) bool {
	for _, n := range settings {
		if slices.Contains(n, name) {
			return true
		}
	}
	return false
}

// familiar are names that other programs have for settings of ours.
var familiar = map[part]map[string]string{
	partRule: {
		"average": "limit", "rate": "limit", "requests": "limit", "requests_per_unit": "limit", "rps": "limit", "rpm": "limit",
		"period": "limit", "window": "limit", "unit": "limit", "capacity": "burst", "nodelay": "burst",
		"path": "match", "paths": "match", "method": "match", "methods": "match", "host": "match", "pattern": "match",
		"zone": "name", "group": "match", "ip": "match", "status_code": "reject", "by": "key", "delay": "max_wait", "queue": "max_wait", "ban": "penalty", "timezone": "calendar", "limit_by": "key", "shadow_mode": "dry_run", "strategy": "algorithm",
	},
	partFile: {
		"limits_per_ip": "rules", "rate_limits": "rules", "ratelimits": "rules", "port": "listen", "address": "listen",
		"backend": "upstream", "backends": "upstreams", "allowlist": "exempt", "whitelist": "exempt", "bypass": "exempt",
		"denylist": "block", "blocklist": "block", "trusted_ips": "trusted_proxies", "https": "tls", "ssl": "tls", "certificates": "tls", "domains": "tls", "acme": "tls",
		"plugins": "rules", "middlewares": "rules", "descriptors": "rules", "ratelimit": "rules", "rate_limit": "rules", "services": "upstreams", "clusters": "upstreams",
		"persist": "state", "levels": "state", "state_file": "state",
	},
	partUpstream: {
		"url": "servers", "urls": "servers", "targets": "servers", "read_timeout": "timeout", "lb_policy": "balance",
		"health_check": "health", "healthcheck": "health", "max_connections": "max_conns", "sni": "tls",
	},
	partServer: {"address": "url", "host": "url"},
	partHealth: {"url": "path", "uri": "path", "codes": "status", "expected": "status"},
	partTLS: {
		"domain": "domains", "hosts": "domains", "names": "domains", "mail": "email", "contact": "email", "acme": "ca", "directory": "ca",
		"issuer": "ca", "cert": "certificates", "key": "certificates", "certs": "certificates", "cache": "storage", "ca_cert": "client_ca",
		"protocols": "min_version", "min": "min_version", "force_https": "redirect",
	},
	partCertificate: {"certificate": "cert", "cert_file": "cert", "crt": "cert", "fullchain": "cert", "key_file": "key", "private_key": "key"},
	partUpstreamTLS: {"sni": "server_name", "insecure_skip_verify": "insecure", "certificate": "cert", "root_ca": "ca"},
	partRoute: {
		"path": "match", "paths": "match", "host": "match", "backend": "upstream", "service": "upstream", "url": "upstream",
		"strip_path": "strip_prefix", "client_max_body_size": "max_body", "body_limit": "max_body", "max_body_size": "max_body",
	},
	partTier: {
		"average": "limit", "rate": "limit", "requests": "limit", "rps": "limit", "capacity": "burst",
	},
	partPath: {"regexp": "regex", "re": "regex", "pattern": "regex", "expression": "regex"},
	partJWT: {
		"public_key": "public_key_file", "key": "public_key_file", "key_file": "public_key_file", "pem": "public_key_file", "cert": "public_key_file",
		"jwks": "jwks_file", "jwk": "jwks_file", "keys": "jwks_file", "jwks_uri": "jwks_file", "jwks_url": "jwks_file", "hmac": "secret",
		"secret_file": "secret",
	},
	partTrial: {
		"average": "limit", "rate": "limit", "requests": "limit", "rps": "limit", "capacity": "burst",
	},
	partGroupFile: {"path": "file", "values_file": "file", "url": "file"},
	partPenalty:   {"threshold": "after", "ban": "block", "duration": "block", "time": "block", "bantime": "block", "ban_time": "block", "limit": "after", "maximum": "max"},
	partCalendar:  {"timezone": "zone", "time_zone": "zone", "tz": "zone", "location": "zone"},
	partRedirect:  {"url": "to", "location": "to", "target": "to", "code": "status"},
	partEdit:      {"add": "set", "unset": "remove", "delete": "remove", "del": "remove"},
	partOverload:  {"max_requests": "max_in_flight", "limit": "max_in_flight", "concurrency": "max_in_flight"},
	partRespond:   {"code": "status", "text": "body"},
	partReject:    {"code": "status", "message": "detail"},
	partAdmin:     {"address": "listen", "addr": "listen", "bind": "listen", "password": "token", "key": "token", "secret": "token"},
	partStore:     {"valkey": "redis", "url": "redis", "type": "redis", "addr": "redis", "address": "redis"},
	partRedis: {
		"address": "url", "addr": "url", "addrs": "url", "addresses": "url", "host": "url", "hosts": "url", "port": "url", "endpoints": "url", "urls": "url",
		"db": "url", "database": "url", "username": "url", "user": "url", "tls": "url", "sentinel": "url", "cluster": "url", "nodes": "url",
		"pass": "password", "auth": "password", "key_prefix": "prefix", "namespace": "prefix", "gateways": "replicas", "instances": "replicas", "ca_file": "ca",
	},
	partSecret: {"path": "file", "from_file": "file", "variable": "env", "from_env": "env", "environment": "env"},
}

// names returns all settings of a part.
func (p part) names() []string { return settings[p] }

// suggest returns the hint for an unknown setting of a part.
func (p part) suggest(name string) string {
	if ours := familiar[p][strings.ToLower(name)]; ours != "" {
		return `use "` + ours + `"`
	}
	if p == partFile && (name == "http" || name == "entryPoints") {
		return "gateway import traefik makes rules of such a file"
	}
	if hint := didYouMean(name, p.names()); hint != "" {
		return hint
	}
	for _, other := range []part{partRule, partUpstream, partRoute, partFile, partTimeouts, partLimits, partReject, partLog} {
		if p == partTrial && slices.Contains(settings[partRule], name) {
			return "a candidate has only other numbers; make a second rule of it, with dry_run: true"
		}
		if p == partTier && slices.Contains(settings[partRule], name) {
			return "a tier has only other numbers; make two rules, matched by group: and not: { group: … }"
		}
		if other != p && slices.Contains(settings[other], name) {
			return "it is a setting of " + homes[other]
		}
	}
	if names := settings[p]; len(names) <= 3 {
		return "use " + list(names)
	}
	return ""
}

// homes says where the settings of a part stand.
var homes = map[part]string{
	partFile: "the file's top level", partRule: "a rule", partUpstream: "an upstream", partRoute: "a route",
	partTimeouts: "timeouts", partLimits: "limits", partReject: "reject", partLog: "log",
}
