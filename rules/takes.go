package rules

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// object is a piece of a JSON schema.
type object = map[string]any

// takes says what the value of a setting may be: for people, and as a JSON schema.
// A schema may take more than the decoder does, never less.
type takes struct {
	says   string
	schema object
}

// Pieces of patterns. They mean the same in Go and in ECMAScript, the language of a
// schema's patterns.
const (
	variablePattern = `\$\{[A-Za-z_][A-Za-z0-9_]*(?::[-?](?:[^}$]|\$[^{}])*\$?)?\}`
	// textPattern is a text in which each ${ begins a variable, and variesPattern one in
	// which some does.
	anyPattern    = `(?:[^$]|\$\$|\$[^${]|` + variablePattern + `)*`
	textPattern   = `^` + anyPattern + `\$?$`
	variesPattern = `^` + anyPattern + variablePattern + anyPattern + `\$?$`
	countPattern  = `[1-9](?:_?[0-9]){0,15}` // one that is not 0
	tokenPattern  = "[!#$%&'*+.^`|~0-9A-Za-z_-]+"
	namePattern   = `[A-Za-z_][A-Za-z0-9_-]*` // of a segment of a path
	octetPattern  = `(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	ipv6Pattern   = `[0-9A-Fa-f:]*:[0-9A-Fa-f:]*(?:[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+)?`
	ipv4Pattern   = octetPattern + `(?:\.` + octetPattern + `){3}`
	cidrPattern   = ipv4Pattern + `/(?:3[0-2]|[12]?[0-9])|` + ipv6Pattern + `/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])`
	// asCIDR takes nothing that is no CIDR, and all that one writes for one.
	asCIDR        = ipv4Pattern + `/(?:3[0-2]|[12]?[0-9])|(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){7}|(?:` + groups6 + `)?::(?:` + groups6 + `)?)/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])`
	groups6       = `[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,2}` // at most three, so that two with :: between fit
	prefixPattern = `private|` + ipv4Pattern + `|` + ipv6Pattern + `|` + cidrPattern
	portPattern   = `(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})`
	socketPattern = `unix:(?://)?/[^/\x00-\x1f\x7f][^\x00-\x1f\x7f]*`
	bracketed     = `\[` + ipv6Pattern + `(?:%[^\]]+)?\]`

	pathSegment       = "(?:\\*|:" + namePattern + "|[^/:*?#{}<>\\[\\]^|\\\\\"` \\t][^/*?#{}<>\\[\\]^|\\\\\"` \\t]*)"
	globSegment       = "(?::" + namePattern + "|[^/:?#{}<>\\[\\]^|\\\\\"` \\t][^/?#{}<>\\[\\]^|\\\\\"` \\t]*)"
	requestPattern    = `(?:[^/ \t]+[ \t]+)?(?:[^/ \t]*[.\[\]*:][^/ \t]*|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt])?(?:/` + pathSegment + `?)*/(?:\*\*/*|` + pathSegment + `?)`
	clausePathPattern = `/(?:` + globSegment + `?/)*` + globSegment + `?`
	hostPattern       = `(?:\[[0-9A-Fa-f:.]+\]|[^/:\[\] \t]+)`
)

// inner returns a regular expression of the decoder without its anchors.
func inner(re *regexp.Regexp) string {
	return strings.TrimSuffix(strings.TrimPrefix(re.String(), "^"), "$")
}

// anyOf takes what one of these takes.
func anyOf(of ...object) object { return object{"anyOf": of} }

// ref is a definition of the schema.
func ref(name string) object { return object{"$ref": "#/definitions/" + name} }

// like is a text that the pattern takes, or one with a variable in it.
func like(pattern string) object {
	return object{"type": "string", "pattern": `^(?:` + pattern + `)$|` + variesPattern}
}

func anyText() takes { return takes{"text", ref("text")} }

func aText(says, pattern string) takes { return takes{says, like(pattern)} }

func yesOrNo() takes {
	return takes{"true or false", anyOf(object{"type": "boolean"}, ref("variable"))}
}

// number is a whole number, which YAML 1.2 takes for text where it holds a _.
func number(low, high int64) takes {
	schema, says := object{"type": "integer", "minimum": low}, "a whole number of at least "+strconv.FormatInt(low, 10)
	if high < maxNumber {
		says = "a whole number, " + strconv.FormatInt(low, 10) + " to " + strconv.FormatInt(high, 10)
	}
	schema["maximum"] = high
	return takes{says, anyOf(schema, like(`[1-9][0-9]*(?:_[0-9]+)+`))}
}

// oneWord is one of a choice.
func oneWord(c choice) takes {
	var all []any
	for _, w := range c {
		all = append(all, w)
		if n, err := strconv.ParseFloat(w, 64); err == nil {
			all = append(all, n)
		}
	}
	return takes{list(c), anyOf(object{"enum": all}, ref("variable"))}
}

func aDuration() takes {
	return takes{"a duration like 500ms, 30s, 5m, 1h30m or 2d", anyOf(object{"enum": []any{0}}, like(`0|`+inner(durationShape())))}
}

func aSize() takes {
	var names []string
	for _, u := range sizes {
		names = append(names, u.name)
	}
	return takes{"a size like 64KiB or 10MB", like(countPattern + `\s*(?:` + strings.Join(names, "|") + `)`)}
}

func aRate() takes {
	names := append(slices.Sorted(maps.Keys(units)), "week", "weeks", "month", "months")
	return takes{"a rate like 100/m, 5/15m or 100 per minute", like(`\s*` + countPattern + `\s*(?:r?\s*/|\sper\s)\s*(?:` + countPattern + `)?\s*(?:` + strings.Join(names, "|") + `)\s*`)}
}

// anAttribute is what a key may be: one of kindNames.
func anAttribute(but ...string) string {
	pattern := []string{}
	if !slices.Contains(but, "ip/") {
		pattern = append(pattern, `ip/(?:12[0-8]|1[01][0-9]|[1-9][0-9]?)`)
	}
	for _, name := range kindNames {
		rest := ""
		switch {
		case name == "" || slices.Contains(but, name):
			continue
		case name == "path.":
			rest = namePattern
		case name == "header.":
			rest = strings.Replace(tokenPattern, "_", "", 1)
		case name == "cookie.":
			rest = tokenPattern
		case name == "body.":
			rest = `[^\[\]\s"\\%&+;=.]+(?:\.[^\[\]\s"\\%&+;=.]+){0,7}`
		case strings.HasSuffix(name, "."):
			rest = `.+`
		}
		pattern = append(pattern, regexp.QuoteMeta(name)+rest)
	}
	return strings.Join(pattern, "|")
}

const attributeSays = "an attribute, such as ip, header.X-API-Key or body.username"

func oneAttribute() takes { return takes{attributeSays, like(anAttribute())} }

// oneOrList is a value or a list of such; with at least so many.
func oneOrList(of takes, least int) takes {
	return takes{of.says + ", or a list of those", anyOf(of.schema, listOf(of, least).schema)}
}

// eachOnce is a list, or one value, in which none is there twice.
func eachOnce(of takes) takes {
	for _, o := range of.schema["anyOf"].([]object) {
		if o["type"] == "array" {
			o["uniqueItems"] = true
		}
	}
	return of
}

// listOf is a list of at least so many values.
func listOf(of takes, least int) takes {
	list := object{"type": "array", "items": of.schema}
	if least > 0 {
		list["minItems"] = least
	}
	return takes{"a list, each " + of.says, list}
}

// mapOf is a map from names to values.
func mapOf(says, names string, of takes) takes {
	return takes{"a map from " + says + " to " + of.says, object{
		"type": "object", "minProperties": 1, "propertyNames": object{"pattern": `^(?:` + names + `)$`}, "additionalProperties": of.schema,
	}}
}

func either(says string, of ...takes) takes {
	var all []object
	for _, t := range of {
		all = append(all, t.schema)
	}
	return takes{says, anyOf(all...)}
}

// settingsOf is a map of the settings of a part.
func settingsOf(p part) takes {
	return takes{"settings: " + strings.Join(settings[p], ", "), ref(p.definition())}
}

// definition is the name of the part in the schema.
func (p part) definition() string { return strings.ReplaceAll(string(p), " ", "_") }

// status is one status or class of statuses, or a list.
func status() takes {
	return oneOrList(takes{"a status like 401 or a class like 4xx", anyOf(
		object{"type": "integer", "minimum": 100, "maximum": 599}, like(`[1-5](?:xx|[0-9]{2})`),
	)}, 0)
}

// headerMap are header fields, but for those that the gateway sets itself.
func headerMap(owned []string, prefixes ...string) takes {
	var b strings.Builder
	b.WriteString(`^(?:`)
	for i, name := range slices.Concat(owned, prefixes) {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, c := range name {
			if low, up := strings.ToLower(string(c)), strings.ToUpper(string(c)); low != up {
				b.WriteString(`[` + up + low + `]`)
			} else {
				b.WriteRune(c)
			}
		}
		if i >= len(owned) {
			b.WriteString(`.*`)
		}
	}
	b.WriteString(`)$`)
	return takes{"a map from names of headers to their values", object{
		"type":                 "object",
		"propertyNames":        object{"pattern": `^` + tokenPattern + `$`, "not": object{"pattern": b.String()}},
		"additionalProperties": object{"allOf": []object{ref("text"), {"not": object{"pattern": "[\x00-\x08\x0a-\x1f\x7f]"}}}},
	}}
}

// serverURL is the URL of a server.
func serverURL() takes {
	pattern := `(?:http|https|h2c)://(?:` + inner(hostName()) + `|` + ipv4Pattern + `|` + bracketed + `)(?::0*` + portPattern + `)?(?:/[^?#]*)?|` + socketPattern
	return takes{"a URL like http://localhost:3000", object{"allOf": []object{
		like(pattern), {"not": object{"pattern": `^(?:h.*[^/:]|unix:.+:(?:/.*)?)/+\.{1,2}(?:/|$)`}},
	}}}
}

// address is one to listen on.
func address() takes {
	return aText("an address like :8080, 127.0.0.1:8080, \"[::1]:8080\", unix:/run/gateway.sock or systemd:http",
		ownAddress+`|systemd:`+inner(socketName()))
}

// ownAddress is one that the gateway binds itself.
var ownAddress = `(?:` + inner(hostName()) + `|` + ipv4Pattern + `|` + bracketed + `)?:(?:0|` + portPattern + `)|` + socketPattern

// loopAddress is one that only this machine reaches.
func loopAddress() takes {
	return aText("an address like 127.0.0.1:9900 or unix:/run/gateway/admin.sock",
		`(?:[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]|127\.[0-9.]+|\[[0:]*:0*1\]|\[::[Ff]{4}:127\.[0-9.]+\]):(?:0|`+portPattern+`)|`+socketPattern)
}

func filePath() takes {
	return takes{"the path of a file", object{"allOf": []object{ref("text"), {"not": object{"enum": []any{""}}}}}}
}

// share is a percentage up to most, which is below 100 or 100.
func share(most string) takes {
	return aText("a share like 20%, at most "+most, map[string]string{"49%": `(?:[1-4]?[0-9])%`, "100%": `(?:100|[1-9]?[0-9])%`}[most])
}

// filledIn is a text with no other placeholders than these.
func filledIn(places []string) object {
	const name = `[A-Za-z0-9_.-]`
	open := `(?:\{` + name + `*)`
	return object{"pattern": `^(?:[^{]|` + open + `*\{(?:` + strings.Join(places, "|") + `)?\}|` + open + `+(?:[^A-Za-z0-9_.{}-]|$))*$`}
}
