package rules

// manualRule returns the settings of upstreams, routes, rules and matches.
func manualRule() map[part][]manualEntry {
	return map[part][]manualEntry{
		partUpstream: {
			{"servers", either("a URL, or a list of URLs or of settings: url, weight, backup", eachOnce(oneOrList(servers(), 1))), "The servers: http, https, h2c, or unix and the path of a socket; a base path is put before that of a request."},
			{"balance", either(list(balances)+", or { hash: attribute }", oneWord(balances), settingsOf(partBalance)), "Which server gets a request."},
			{"health", either("a path, or settings: path, interval, timeout, status", aText("", `/[^\s#]*`), settingsOf(partHealth)), "Servers are asked for this path; one that fails twice in a row is left out. Without it only requests tell."},
			{"timeout", aDuration(), "For the first byte of the answer; streams may go on. 504 after it."},
			{"connect_timeout", aDuration(), "For a connection, and for a place under max_conns."},
			{"idle_timeout", aDuration(), "How long an idle connection is kept; less than the server keeps it."},
			{"retries", number(0, maxRetries), "How often a GET, HEAD or OPTIONS is sent again whose connection broke before a byte of the answer."},
			{"resolve", aDuration(), "How often a server's name is looked up again; 0 or at least 1s."},
			{"max_conns", number(0, 1_000_000), "The most requests in progress at one server; 0 is no bound."},
			{"host", oneWord(hosts), "preserve sends the client's Host, upstream the server's name."},
			{"transport", oneWord(transports), "How HTTP/1.1 is spoken: direct in the request's own goroutine, net_http by Go's http.Transport."},
			{"tls", settingsOf(partUpstreamTLS), "How https servers are spoken to."},
		},
		partServer: {
			{"url", serverURL(), "Its URL."},
			{"weight", number(1, maxWeight), "Its share of the requests, compared with the others'."},
			{"backup", yesOrNo(), "It gets requests only when no other server is up."},
		},
		partHealth: {
			{"path", aText("a path like /healthz", `/[^\s#]*`), "What is asked for, with GET."},
			{"interval", aDuration(), "Between two checks of a server; at least 100ms."},
			{"timeout", aDuration(), "For an answer. Default 2s, at most the interval."},
			{"status", status(), "The answers of a server that is well."},
		},
		partBalance: {
			{"hash", aText(attributeSays, anAttribute("global")), "The same server for the same value of this attribute."},
		},
		partUpstreamTLS: {
			{"ca", filePath(), "The authorities, in PEM, that are believed."},
			{"server_name", aText("a host name", inner(hostName())+`|`+ipv4Pattern+`|`+ipv6Pattern), "The name that is asked for and that the certificate must have."},
			{"cert", filePath(), "The gateway's own certificate, in PEM."},
			{"key", filePath(), "Its private key, in PEM."},
			{"insecure", yesOrNo(), "Believe any server."},
		},
		partRoute: {
			{"match", someMatch(), "Which requests; without it, the rest."},
			{"upstream", anyText(), "The name of the upstream; not needed where there is one."},
			{"strip_prefix", aText("a path without wildcards, like /api", "/[^*?#]+"), "Cut from the front of the path that the upstream gets."},
			{"rewrite", aText("a path like /new/{path.rest}", `/[^?#]*`), "The path that the upstream gets; {path.<name>} and {path.rest} are what the pattern took."},
			{"redirect", settingsOf(partRedirect), "Send clients elsewhere."},
			{"respond", settingsOf(partRespond), "Answer by itself."},
			{"headers", settingsOf(partHeaders), "Headers to set or remove."},
			{"max_body", aSize(), "A longer request body is answered 413."},
			{"timeout", aDuration(), "For the first byte of the answer, instead of the upstream's; 0 is none."},
			{"priority", oneWord(routePriorities), "Which requests overload refuses first."},
		},
		partHeaders: {
			{"request", settingsOf(partEdit), "Of what the upstream gets."},
			{"response", settingsOf(partEdit), "Of what the client gets."},
		},
		partEdit: {
			{"set", headerMap(nil), "Replaced, or added. Values may hold {ip}, {request_id}, {tier} and {route}."},
			{"remove", oneOrList(aText("the name of a header", tokenPattern), 0), "Taken out."},
		},
		partRedirect: {
			{"to", aText("a path, or a URL with its host written out", `/|/[^/].*|[Hh][Tt][Tt][Pp][Ss]?://[^/?#{].*`), "Where to; may hold {path.<name>} and {path.rest}. The query is kept."},
			{"status", takes{"301, 302, 303, 307 or 308", anyOf(object{"enum": redirects}, ref("variable"))}, "The status."},
		},
		partRespond: {
			{"status", number(200, 599), "The status."},
			{"body", anyText(), "The body."},
			{"content_type", mediaType(), "The type of the body. Default text/plain; charset=utf-8."},
		},
		partRule: {
			{"name", takes{"a name of a-z, 0-9, - and _", anyOf(object{"type": "integer", "minimum": 0}, like(inner(ruleName())))}, "Shown to clients, in logs and in metrics. Counters belong to it."},
			{"match", someMatch(), "Which requests; all, unless given."},
			{"key", eachOnce(oneOrList(oneAttribute(), 1)), "Who shares a counter; a list is the combination of its attributes."},
			{"limit", aRate(), "How many units in which time."},
			{"burst", number(1, maxNumber), "The most at one instant, of token_bucket and gcra. Default the number in limit."},
			{"algorithm", oneWord(algorithms), howCounted()},
			{"concurrency", number(1, maxNumber), "How many requests may be in progress, instead of limit. A WebSocket counts while it is open."},
			{"tiers", takes{"a map from groups to settings: limit, burst, concurrency", object{"type": "object", "minProperties": 1, "maxProperties": maxTiers, "additionalProperties": settingsOf(partTier).schema}}, "Other numbers for clients of a group; the first that a client is in."},
			{"cost", cost(), "Units that a request takes; of patterns the most specific one says."},
			{"count", settingsOf(partCount), "The answers of the upstream that use up the limit; all others give it back."},
			{"refund", settingsOf(partRefund), "The inverse of count: the answers that give it back."},
			{"missing", aText("ip, skip, reject or an attribute", `skip|reject|`+anAttribute()), "What if the request has no such key: count by address, leave it to the other rules, answer 400, or take another attribute."},
			{"known", eachOnce(oneOrList(anyText(), 1)), "A key that no such group lists counts as missing."},
			{"store", takes{"memory", object{"enum": []any{"memory"}}}, "Keep this rule's counters in the process, whatever the file's store."},
			{"max_keys", number(1000, maxNumber), "The most keys that this rule remembers. Default that of the file."},
			{"fail", oneWord(failures), "When the rule cannot decide, since the store is down, memory is full or the body cannot be read: count in this process, let through, or refuse with 503, 400 or 413."},
			{"max_wait", aDuration(), "Hold a request up to so long instead of refusing it; at most 60s."},
			{"penalty", settingsOf(partPenalty), "A block that repeated refusals earn."},
			{"candidate", settingsOf("candidate"), "Numbers that are counted beside those in force and never enforced."},
			{"calendar", settingsOf(partCalendar), "fixed_window of 1day, 1week or 1month that begins at local midnight, on Monday or on the 1st."},
			{"dry_run", yesOrNo(), "Decide, count and log, and never refuse."},
			{"reject", settingsOf(partReject), "The answer to a request that this rule refuses."},
		},
		partTier: {
			{"limit", aRate(), "How many units in which time."},
			{"burst", number(1, maxNumber), "The most at one instant. Default the number in limit."},
			{"concurrency", number(1, maxNumber), "How many requests may be in progress."},
		},
		"candidate": {
			{"limit", aRate(), "How many units in which time."},
			{"burst", number(1, maxNumber), "The most at one instant. Default the number in limit."},
			{"concurrency", number(1, maxNumber), "How many requests may be in progress."},
		},
		partPenalty: {
			{"after", aRate(), "More refusals than this block the key."},
			{"block", aDuration(), "For how long; twice as long at each repeat."},
			{"max", aDuration(), "The longest block. Default 4 times block."},
		},
		partCalendar: {
			{"zone", anyText(), "The time zone, like Europe/Berlin."},
		},
		partCost: {
			{"header", aText("the name of a header", tokenPattern), "The header of the answer that says what the request cost."},
			{"reserve", number(0, maxNumber), "Units taken when the request arrives."},
			{"max", number(1, maxNumber), "The most that an answer can charge."},
		},
		partCount: {
			{"status", status(), "The statuses of those answers."},
		},
		partRefund: {
			{"status", status(), "The statuses of those answers."},
			{"upstream_error", yesOrNo(), "Also requests that got no answer from the upstream."},
		},
		partReject: {
			{"status", number(400, 599), "The status."},
			{"detail", anyText(), "The text of the generated body; {rule}, {limit} and {retry_after} are filled in."},
			{"headers", headerMap(owned), "Headers to add; {rule}, {limit} and {retry_after} are filled in."},
			{"body", anyText(), "Another body, instead of the generated application/problem+json."},
			{"content_type", mediaType(), "The type of body. Default text/plain; charset=utf-8."},
			{"jitter", share("100%"), "How much later Retry-After may be than it must, so that clients do not all come back at once."},
		},
		partMatch: {
			{"path", oneOrList(either("a path pattern, in which * may be a part of a segment, or { regex: /users/[0-9]+ }", aText("", clausePathPattern), settingsOf(partPath)), 1), "The path."},
			{"method", oneOrList(aText("a method", "[!#$%&'*+.^`|~0-9A-Z_-]+"), 1), "The method; GET takes HEAD, too."},
			{"host", oneOrList(aText("a host, perhaps with *", hostPattern), 1), "The host, without its port."},
			{"ip", oneOrList(aText("an address, a CIDR or private", prefixPattern), 1), "The client's address."},
			{"group", oneOrList(anyText(), 1), "A group that the client is in."},
			{"not", match(), "What must not match."},
		},
		partPath: {
			{"regex", aText("a regular expression (RE2)", `[^\n]+`), "It must take the whole path, from its first slash on."},
		},
	}
}

// match is a pattern, a map or a list of those.
func match() takes {
	return takes{"a pattern like POST /login, a map (all of it must match) or a list (any of it)", ref("match")}
}

// someMatch is a match that is no empty list.
func someMatch() takes {
	m := match()
	m.schema = object{"allOf": []object{m.schema, {"not": object{"type": "array", "maxItems": 0}}}}
	return m
}

func mediaType() takes {
	return aText("a media type like text/html; charset=utf-8", `\s*[^\s/;]+/[^\s/;]+\s*(?:;.*)?`)
}

func cost() takes {
	free := number(0, maxNumber)
	patterns := object{
		"type": "object", "minProperties": 1, "maxProperties": maxCosts, "propertyNames": object{"pattern": `^(?:` + requestPattern + `)$`}, "additionalProperties": free.schema,
	}
	return either("a whole number, a map from patterns to such, or settings: header, reserve, max", free, takes{"", patterns}, settingsOf(partCost))
}

// howCounted says what each algorithm of this version does.
func howCounted() string {
	text := "How the limit is counted."
	for _, name := range algorithms {
		text += " " + name + ": " + map[string]string{
			tokenBucket: "burst at once, then evenly.", gcra: "the same decisions.", fixedWindow: "so many in each period of the clock.",
			slidingWindow: "an estimate over the last two of those.", slidingLog: "exact, at 16 bytes a request.", "leaky_bucket": "a queue that is let out evenly.",
		}[name]
	}
	return text
}
