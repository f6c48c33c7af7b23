package rules

import "slices"

// preset is what a setting holds where the file does not have it, as one would
// write it there. {} stands for a map that has presets of its own.
type preset struct{ name, text string }

// presets are those settings of each part that hold something without being in
// the file. All others are in unset. What depends on other settings is filled in
// by completer.
var presets = map[part][]preset{
	partFile: {
		{"version", "1"}, {"trusted_proxies", "[]"}, {"ipv6_prefix", "64"}, {"ratelimit_headers", "draft-11"},
		{"reject", "{}"}, {"timeouts", "{}"}, {"limits", "{}"}, {"shutdown_timeout", "30s"}, {"shutdown_delay", "0s"},
		{"admin", "127.0.0.1:9900"}, {"log", "{}"}, {"max_keys", "1000000"}, {"max_memory", "1GiB"}, {"store", "memory"}, {"proxy_protocol", "false"}, {"body_limit", "64KiB"}, {"paths", "strict"},
	},
	partUpstream: {
		{"balance", "least_conn"}, {"timeout", "60s"}, {"connect_timeout", "2s"}, {"idle_timeout", "4s"}, {"retries", "1"},
		{"resolve", "10s"}, {"max_conns", "0"}, {"host", "preserve"},
		{"transport", "direct"},
	},
	partTLS:         {{"redirect", "true"}, {"min_version", "1.2"}},
	partServer:      {{"weight", "1"}, {"backup", "false"}},
	partHealth:      {{"interval", "5s"}, {"status", "2xx"}},
	partUpstreamTLS: {{"insecure", "false"}},
	partRoute:       {{"priority", "normal"}},
	partRedirect:    {{"status", "308"}},
	partRespond:     {{"status", "200"}},
	partRule: {
		{"key", "ip"}, {"algorithm", tokenBucket}, {"missing", "ip"}, {"dry_run", "false"}, {"cost", "1"}, {"fail", "local"},
	},
	partReject:   {{"status", "429"}, {"jitter", "0%"}},
	partTimeouts: {{"read_header", "10s"}, {"read", "30s"}, {"write", "30s"}, {"idle", "120s"}, {"tunnel", "1h"}},
	partLimits: {
		{"header_bytes", "64KiB"}, {"headers", "100"}, {"url", "16KiB"}, {"connections", "auto"}, {"connections_per_ip", "none"},
	},
	partOverload: {{"reserve", "20%"}},
	partRedis:    {{"timeout", "50ms"}, {"prefix", "gw"}},
	partCost:     {{"reserve", "1"}, {"max", "100"}},
	partRefund:   {{"upstream_error", "false"}},
	partLog:      {{"level", "info"}, {"format", "auto"}, {"access", "auto"}, {"redact", "[]"}},
}

// unset are the settings that hold nothing where the file does not have them, or
// that a file must have.
var unset = map[part][]string{
	partFile:        {"upstream", "upstreams", "routes", "rules", "exempt", "block", "overload", "groups", "tls", "jwt", "include"},
	partUpstream:    {"servers", "health", "tls"},
	partTLS:         {"domains", "email", "ca_root", "storage", "certificates", "client_ca"},
	partCertificate: {"cert", "key"},
	partServer:      {"url"},
	partHealth:      {"path"},
	partBalance:     {"hash"},
	partUpstreamTLS: {"ca", "server_name", "cert", "key"},
	partRoute:       {"match", "strip_prefix", "rewrite", "redirect", "respond", "headers", "max_body", "timeout"},
	partHeaders:     {"request", "response"},
	partEdit:        {"set", "remove"},
	partRedirect:    {"to"},
	partRespond:     {"body"},
	partRule:        {"name", "match", "limit", "reject", "concurrency", "count", "refund", "tiers", "known", "candidate", "store", "calendar", "max_wait", "penalty"},
	partTier:        {"limit", "concurrency"},
	partTrial:       {"limit", "concurrency"},
	partMatch:       {"path", "method", "host", "ip", "group", "not"},
	partPath:        {"regex"},
	partJWT:         {"secret", "public_key_file", "jwks_file"},
	partReject:      {"detail", "headers", "body"},
	partOverload:    {"max_in_flight"},
	partAdmin:       {"token"},
	partSecret:      {"file", "env", "credential"},
	partGroupFile:   {"file"},
	partStore:       {"redis"},
	partRedis:       {"url", "password", "ca", "replicas"},
	partCost:        {"header"},
	partCount:       {"status"},
	partRefund:      {"status"},
	partCalendar:    {"zone"},
	partPenalty:     {"after", "block"},
}

// dependent are the settings that completer fills in, since what they hold
// depends on others.
var dependent = map[part][]string{
	partFile:    {"listen", "state"},
	partTLS:     {"ca", "client_auth"},
	partHealth:  {"timeout"},
	partRoute:   {"upstream"},
	partRespond: {"content_type"},
	partRule:    {"burst", "max_keys"},
	partTier:    {"burst"},
	partPenalty: {"max"},
	partTrial:   {"burst"},
	partReject:  {"content_type"},
	partAdmin:   {"listen"},
}

// inside says of which part the value of a setting is, where that is a map; the
// values of a list, or of a map of names, are each of the part that items says.
var (
	inside = map[part]map[string]part{
		partFile: {
			"reject": partReject, "timeouts": partTimeouts, "limits": partLimits, "overload": partOverload, "admin": partAdmin, "log": partLog,
			"tls": partTLS, "jwt": partJWT, "store": partStore,
		},
		partUpstream: {"balance": partBalance, "health": partHealth, "tls": partUpstreamTLS},
		partRoute:    {"redirect": partRedirect, "respond": partRespond, "headers": partHeaders},
		partHeaders:  {"request": partEdit, "response": partEdit},
		partRule: {
			"cost": partCost, "count": partCount, "refund": partRefund, "candidate": partTrial, "calendar": partCalendar, "penalty": partPenalty,
		},
		partAdmin: {"token": partSecret},
		partJWT:   {"secret": partSecret},
		partStore: {"redis": partRedis},
		partRedis: {"password": partSecret},
	}
	items = map[part]map[string]part{
		partFile:     {"upstreams": partUpstream, "routes": partRoute, "rules": partRule},
		partUpstream: {"servers": partServer},
		partTLS:      {"certificates": partCertificate},
		partRule:     {"tiers": partTier},
	}
)

// presetNode returns the node that a preset's text stands for.
func presetNode(text string) *node {
	switch text {
	case "{}":
		return &node{shape: mapping}
	case "[]":
		return &node{shape: sequence}
	}
	return &node{shape: scalar, text: text, word: wordOf(text)}
}

// rank returns the place of a setting among those of its part; what has no place
// comes last.
func (p part) rank(name string) int {
	if i := slices.Index(settings[p].known, name); i >= 0 {
		return i
	}
	return len(settings[p].known)
}
