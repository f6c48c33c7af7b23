package rules

import (
	"slices"
	"strconv"
	"strings"
)

// attributeNames are what an unknown name is compared with; true are those that
// have a name of their own after a dot.
var attributeNames = map[string]bool{
	"ip": false, "host": false, "method": false, "path": false, "global": false, "route": false, "basic.username": false,
	"header": true, "query": true, "cookie": true, "body": true, "jwt": true,
}

// otherWords are what other gateways call attributes, and what they are here.
var otherWords = map[string]string{
	"client_ip": "ip", "clientip": "ip", "remote_addr": "ip", "remoteaddr": "ip", "remote_ip": "ip", "addr": "ip",
	"address": "ip", "client": "ip", "source_ip": "ip", "sourceip": "ip", "x-forwarded-for": "ip",
	"uri": "path", "url": "path", "verb": "method", "hostname": "host", "domain": "host",
	"headers": "header", "param": "query", "params": "query", "querystring": "query", "query_param": "query",
	"cookies": "cookie", "all": "global", "none": "global", "*": "global",
	"basic": "basic.username", "basic_auth": "basic.username", "auth": "basic.username",
	"token": "jwt", "claim": "jwt", "claims": "jwt", "bearer": "jwt", "auth_jwt": "jwt", "jwt_claim": "jwt",
	"form": "body", "json": "body", "post": "body", "postform": "body", "request_body": "body",
}

// attributeHint says what to write instead of an attribute that is not known,
// of which family is what stands before the first dot.
func attributeHint(text, family string, dotted bool) string {
	if i := strings.IndexAny(text, ":[/"); i > 0 {
		if k := strings.ToLower(text[:i]); attributeNames[k] || k == "path" {
			return "write " + k + "." + strings.Trim(text[i:], `:[/]"'`)
		}
	}
	if user := didYouMean(text, []string{kindNames[kindBasic]}); user != "" {
		return user
	}
	lower := strings.ToLower(strings.TrimPrefix(family, "$"))
	word, known := otherWords[lower]
	if _, same := attributeNames[lower]; same {
		word, known = lower, true
	}
	if !known {
		word = nearestAttribute(lower)
	}
	switch named := attributeNames[word]; {
	case word == "":
		return "use ip, host, method, path, path.<name>, header.<Name>, query.<name>, cookie.<name>, body.<field>, basic.username, jwt.<claim>, route or global"
	case named && dotted && len(text) > len(family)+1:
		word += text[len(family):]
	case named:
		return "write " + word + ".<name>"
	}
	if known && word != lower {
		return "write " + word
	}
	return "did you mean " + strconv.Quote(word) + "?"
}

// nearestAttribute returns the attribute, or the start of one, that a word is
// nearest to, or "".
func nearestAttribute(word string) string {
	names := make([]string, 0, len(attributeNames))
	for name := range attributeNames {
		names = append(names, name)
	}
	slices.Sort(names)
	return nearest(word, names)
}
