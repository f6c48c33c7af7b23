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
	"binary_remote_addr": "ip", "remote_address": "ip", "realip_remote_addr": "ip", "ipv4": "ip", "ipv6": "ip", "ip_address": "ip",
	"api_key": "header", "apikey": "header", "api-key": "header",
	"request_uri": "path", "request_method": "method", "http_host": "host", "server_name": "host",
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
	if name := otherVariable(text); name != "" {
		return "write " + name
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

// headerLike is what can hardly be anything but the name of a header.
var headerLike = lazily(`^[A-Za-z0-9]+(-[A-Za-z0-9]+)+$`)

// otherVariable returns the attribute that is meant by a variable of nginx, by a name
// of Caddy's or Envoy's that begins with "request.", or by the bare name of a header; or "".
func otherVariable(text string) string {
	lower := strings.ToLower(text)
	for prefix, family := range map[string]string{"$http_": "header.", "$arg_": "query.", "$cookie_": "cookie."} {
		if name, ok := strings.CutPrefix(lower, prefix); ok && name != "" && lower != "$http_host" {
			if family == "header." {
				name = strings.ReplaceAll(name, "_", "-")
			}
			return family + name
		}
	}
	if i := strings.Index(lower, "request."); i == 0 || i == len("http.") && strings.HasPrefix(lower, "http.") {
		if rest := text[i+len("request."):]; rest != "" {
			if _, err := ParseAttribute(rest); err == nil {
				return rest
			}
		}
	}
	if headerLike().MatchString(text) && otherWords[lower] == "" && nearestAttribute(lower) == "" {
		return "header." + text
	}
	return ""
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
