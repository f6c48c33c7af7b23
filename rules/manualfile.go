package rules

// manualFile returns the settings of the whole file.
func manualFile() map[part][]manualEntry {
	return map[part][]manualEntry{
		partFile: {
			{"version", either("1", takes{"1", object{"enum": []any{1}}}, takes{"", ref("variable")}), "Version of the file's format."},
			{"include", oneOrList(anyText(), 0), "Other files, by patterns relative to this one, with more upstreams, groups, routes and rules; they are watched as this file is."},
			{"listen", eachOnce(oneOrList(address(), 1)), "Public addresses. Default :8080, with tls :443. Every address but one on port 80 speaks TLS where tls is set."},
			{"tls", settingsOf(partTLS), "Certificates of the public side: ordered from an ACME CA, or your own files."},
			{"trusted_proxies", listOf(aText("an address, a CIDR or private", prefixPattern), 0), "Peers whose X-Forwarded-*, Forwarded, X-Request-Id and PROXY headers are believed; nobody by default."},
			{"proxy_protocol", yesOrNo(), "Connections of trusted proxies begin with a PROXY header, version 1 or 2, that says who the client is; nobody else may connect."},
			{"ipv6_prefix", number(32, 128), "How many bits of an IPv6 address make one client."},
			{"upstream", eachOnce(oneOrList(serverURL(), 1)), "The one upstream, for a file that needs no routes: its URL, or those of its servers."},
			{"upstreams", mapOf("a name", inner(upstreamName()), pools()), "Upstreams by name."},
			{"routes", listOf(settingsOf(partRoute), 1), "Which requests go where; the first that matches takes the request. Not needed with one upstream."},
			{"groups", mapOf("a name", inner(groupName()), members()), "Named sets of clients, for tiers, known and match. A client is in a group if any attribute of it has a value that is listed."},
			{"exempt", match(), "Requests that no rule applies to, and whose answers carry no limit headers."},
			{"block", match(), "Requests that are answered 403 before any rule."},
			{"rules", listOf(settingsOf(partRule), 0), "The limits. Every rule that matches a request applies; if one has no room, none is charged."},
			{"jwt", settingsOf("jwt"), "How the signatures of tokens are verified, whose claims are the attributes jwt.<claim>."},
			{"reject", settingsOf(partReject), "The answer to a refused request; a rule may have its own."},
			{"ratelimit_headers", oneWord(rateLimitHeaders), "Which limit headers answers carry: draft-11 is RateLimit and RateLimit-Policy, legacy RateLimit-Limit, -Remaining, -Reset and X-RateLimit-*."},
			{"store", either("memory, or settings: redis", takes{"", object{"enum": []any{"memory"}}}, settingsOf(partStore)), "Where counters live: in this process, or shared by several gateways."},
			{"max_keys", number(1000, maxNumber), "The most keys that a rule remembers; a rule may have its own."},
			{"max_memory", aSize(), "The most memory of all counters together."},
			{"paths", oneWord(choice{"strict", "loose"}), "loose: rules and block match paths without regard to case and to what follows a semicolon in a segment, for upstreams that do so."},
			{"body_limit", aSize(), "The most bytes of a body that are read to find body.<field>."},
			{"limits", settingsOf(partLimits), "Bounds on the head of a request, and on connections."},
			{"timeouts", settingsOf(partTimeouts), "Bounds on how slow the public side may be; none is a bound on total time, and 0 is none."},
			{"state", either("the path of a file, or off", takes{"", object{"allOf": []object{filePath().schema, {"type": "string", "not": object{"pattern": `^(?:on|yes|no)$|/$`}}}}}, takes{"", object{"enum": []any{"off", false}}}), "The file in which what clients have used outlives a restart. Default $STATE_DIRECTORY/levels, without that variable off."},
			{"overload", settingsOf(partOverload), "Bounds the requests in progress in the whole gateway; what is over it is answered 503."},
			{"admin", either("an address, off, or settings: listen, token", loopAddress(), takes{"", object{"enum": []any{"off"}}}, settingsOf(partAdmin)), "The admin listener: status, metrics, reload. Where other machines can reach it, it needs a token."},
			{"log", settingsOf(partLog), "What is logged, and how."},
			{"shutdown_timeout", aDuration(), "How long requests in progress may take after a stop; 0 is not at all."},
			{"shutdown_delay", aDuration(), "How long the gateway serves on, but is not ready, before it stops."},
		},
		partTimeouts: {
			{"read_header", aDuration(), "For the head of a request."},
			{"read", aDuration(), "In each such span of a request body at least 1 KiB arrives, or the body ends; else the answer is 408."},
			{"write", aDuration(), "In each such span in which bytes wait for the client at least 1 KiB is taken; else the connection is closed."},
			{"idle", aDuration(), "Between two requests of a connection."},
			{"tunnel", aDuration(), "Of a WebSocket without a byte either way."},
		},
		partLimits: {
			{"header_bytes", aSize(), "All header fields of a request together; above it the answer is 431."},
			{"headers", number(1, 10_000), "How many header fields a request has; above it the answer is 431."},
			{"url", aSize(), "Bytes of the request target; above it the answer is 414."},
			{"connections", either("a whole number, or auto", number(1, maxNumber), takes{"", object{"enum": []any{"auto"}}}), "The most connections at one time; more are closed as they come. auto: 3/8 of the file descriptors."},
			{"connections_per_ip", either("a whole number, or none", number(1, maxNumber), takes{"", object{"enum": []any{"none"}}}), "The most connections of one client's address."},
		},
		partOverload: {
			{"max_in_flight", number(1, maxNumber), "The most requests in progress. An open WebSocket does not count."},
			{"reserve", share("49%"), "The share that is kept from all but critical requests; twice as much is kept from sheddable ones."},
		},
		partAdmin: {
			{"listen", either("an address, or off", aText("", ownAddress), takes{"", object{"enum": []any{"off"}}}), "Its address. Default 127.0.0.1:9900."},
			{"token", either(secret().says, takes{"", object{"allOf": []object{filePath().schema, {"not": object{"pattern": `\s`}}}}}, settingsOf(partSecret)), "What a request must carry as Authorization: Bearer, but for /healthz, /readyz and /metrics."},
		},
		partSecret: {
			{"file", filePath(), "The file that holds the secret; relative to this file."},
			{"env", aText("the name of a variable", inner(variableName())), "The variable of the environment that holds the secret."},
			{"credential", aText("the name of a credential", `[^/\\.][^/\\]*`), "The name of a systemd credential (LoadCredential=) that holds the secret."},
		},
		partLog: {
			{"level", oneWord(logLevels), "The least level that is logged."},
			{"format", oneWord(logFormats), "auto: text on a terminal, else json."},
			{"access", oneWord(logAccess), "The access log, one line a request. auto: text on a terminal, else json."},
			{"redact", eachOnce(oneOrList(aText("query.<name>, path.<name>, header.Referer or header.User-Agent", anAttribute("ip", "ip/", "host", "method", "path", "route", "global")), 0)), "What the access log does not show of a request, beside what it never shows."},
		},
		partTLS: {
			{"domains", eachOnce(oneOrList(aText("a host name like api.example.com", `[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*`), 1)), "The hosts for which a certificate is ordered and renewed."},
			{"email", aText("an e-mail address", `[^\s<>]+@[^\s<>]+`), "Where the CA writes if something is wrong with a certificate."},
			{"ca", either("production, staging or the URL of an ACME directory", takes{"", object{"enum": []any{"production", "staging"}}},
				aText("", `https://[^/@#?]+(?:[/?][^#]*)?#?`)), "Who issues the certificates. Default production: Let's Encrypt."},
			{"ca_root", filePath(), "The certificate, in PEM, of a CA of your own."},
			{"storage", filePath(), "The folder of keys and certificates. Default $STATE_DIRECTORY, $XDG_DATA_HOME/gateway or ~/.local/share/gateway."},
			{"redirect", either("true, false or an address like :80", yesOrNo(), address()), "Requests to port 80, or to this address, are sent to https."},
			{"certificates", listOf(settingsOf(partCertificate), 1), "Your own certificates, picked by name and watched."},
			{"client_ca", filePath(), "The authorities, in PEM, that certificates of clients are from."},
			{"client_auth", oneWord(clientAuths), "Whether a client must have a certificate, or may. Default require, where client_ca is set."},
			{"min_version", oneWord(tlsVersions), "The least version of TLS."},
		},
		partCertificate: {
			{"cert", filePath(), "The certificate and its chain, in PEM."},
			{"key", filePath(), "Its private key, in PEM."},
		},
		"jwt": {
			{"secret", secret(), "The secret of tokens that are signed with HS256, HS384 or HS512."},
			{"public_key_file", filePath(), "The public key, in PEM, of tokens that are signed with RS, PS, ES or EdDSA; read again when it changes."},
			{"jwks_file", filePath(), "A set of keys (RFC 7517); read again when it changes."},
		},
		partStore: {
			{"redis", settingsOf(partRedis), "Counters in Redis or Valkey, shared by several gateways."},
		},
		partRedis: {
			{"url", oneOrList(aText("a URL like redis://10.0.0.5:6379", storeURLPattern), 1), "redis://, rediss:// or redis-sentinel://; several for a cluster."},
			{"password", secret(), "The password."},
			{"ca", filePath(), "The authorities, in PEM, that are believed instead of the system's."},
			{"timeout", aDuration(), "How long a decision may wait for the store."},
			{"prefix", aText("1 to 24 of A-Z, a-z, 0-9, ., - and _", inner(storePrefix())), "What the names of keys begin with."},
			{"replicas", number(1, 100_000), "How many gateways share the store: after a failure each counts by itself with its share of the limit."},
		},
		partGroupFile: {
			{"file", filePath(), "A file with one value a line; # begins a comment. It is watched."},
		},
	}
}

// pools is an upstream: the URL of its server, several, or settings.
func pools() takes {
	return either("a URL, a list of URLs, or settings", eachOnce(oneOrList(servers(), 1)), settingsOf(partUpstream))
}

func servers() takes {
	return either("a URL, or settings: url, weight, backup", serverURL(), settingsOf(partServer))
}

func secret() takes {
	return either("a secret: { file: … }, { env: … }, { credential: … } or the value itself", filePath(), settingsOf(partSecret))
}

// members are the values of attributes by which a client is in a group.
func members() takes {
	values := func(of object) object {
		list := takes{"", of}
		return anyOf(oneOrList(list, 1).schema, ref(partGroupFile.definition()))
	}
	text := object{"allOf": []object{filePath().schema, anyOf(object{"not": object{"pattern": `^` + hashPrefix}}, object{"pattern": `^` + hashPrefix + `[0-9A-Fa-f]{64}$`}),
		{"not": object{"pattern": `^(?:` + asCIDR + `)$`}}}}
	return takes{"attributes and their values, like header.X-API-Key: [abc]", object{
		"type": "object", "minProperties": 1,
		"properties":           object{"ip": values(like(prefixPattern))},
		"patternProperties":    object{`^(?:` + anAttribute("ip/", "ip", "global", "route", "path.") + `)$`: values(text)},
		"additionalProperties": false,
	}}
}
