package rules

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

//go:generate sh -c "go run ../cmd/gateway schema > gateway.schema.json"

// Schema returns a JSON schema (draft-07) of the format, for editors: they complete
// the names of settings, show what they are for, and mark what Parse would refuse
// as far as a schema can say it. It takes every file that Parse takes.
func Schema() []byte {
	return schemaOf("gateway.yaml", func(file object) {})
}

// IncludedSchema is Schema for the files that `include` names, which may have some of
// the settings only.
func IncludedSchema() []byte {
	return schemaOf("a file that gateway.yaml includes", func(file object) {
		all := file["properties"].(object)
		some := object{}
		for _, name := range includable {
			some[name] = all[name]
		}
		clear(file)
		maps.Copy(file, object{"type": "object", "properties": some, "additionalProperties": false})
	})
}

// schemaOf returns the schema of a file; change makes another of that of the whole one.
func schemaOf(title string, change func(file object)) []byte {
	explanations := manual()
	definitions := object{
		"variable": object{"type": "string", "pattern": variesPattern},
		"text":     object{"type": []string{"string", "number", "boolean"}, "pattern": textPattern},
		"match":    matchSchema(),
	}
	for p := range settings {
		if p != partFile && p != partMatch {
			definitions[p.definition()] = p.schema(explanations[p])
		}
	}
	clause := partMatch.schema(explanations[partMatch])
	clause["minProperties"] = 1
	clause["patternProperties"] = object{
		`^(?:header\.` + tokenPattern + `|cookie\.` + tokenPattern + `|query\..+|jwt\..+|basic\.username)$`: described(oneOrList(anyText(), 1).schema, "Its value; * stands for any letters."),
	}
	definitions["clause"] = clause
	file := partFile.schema(explanations[partFile])
	change(file)
	file["$schema"] = "http://json-schema.org/draft-07/schema#"
	file["title"] = title
	file["definitions"] = definitions
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(file); err != nil {
		panic("rules: the schema is no JSON: " + err.Error())
	}
	return b.Bytes()
}

// described is a schema with the words that an editor shows. It is wrapped: beside
// a reference nothing else counts.
func described(schema object, help string) object {
	if help == "" {
		return schema
	}
	if _, is := schema["$ref"]; is {
		return object{"description": help, "allOf": []object{schema}}
	}
	with := maps.Clone(schema)
	with["description"] = help
	return with
}

// schema returns that of a part: its settings that work, and what must go together.
func (p part) schema(explanations []manualEntry) object {
	properties := object{}
	for _, name := range settings[p] {
		i := slices.IndexFunc(explanations, func(e manualEntry) bool { return e.name == name })
		if i < 0 { // a test demands that there is one
			properties[name] = object{}
			continue
		}
		one := described(explanations[i].schema, explanations[i].help)
		if text, ok := p.preset(name); ok && text != "{}" && text != "[]" {
			one = maps.Clone(one)
			one["default"] = jsonOf(text)
		}
		properties[name] = one
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	maps.Copy(schema, together(p))
	return schema
}

// preset returns what a setting holds that is not in the file.
func (p part) preset(name string) (string, bool) {
	i := slices.IndexFunc(presets[p], func(d preset) bool { return d.name == name })
	if i < 0 {
		return "", false
	}
	return presets[p][i].text, true
}

// jsonOf returns the value that a text is in YAML.
func jsonOf(text string) any {
	switch wordOf(text) {
	case wordBool:
		return text == "true"
	case wordNumber:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	}
	return text
}

func matchSchema() object {
	one := []object{like(requestPattern), ref("clause")}
	return anyOf(append(one, object{"type": "array", "items": anyOf(one...)})...)
}

// together returns what a schema says of settings of a part that need or exclude
// each other.
func together(p part) object {
	has := func(names ...string) object { return object{"required": names} }
	not := func(o object) object { return object{"not": o} }
	inside := func(name string, o object) object { return object{"properties": object{name: o}} }
	when := func(is, then object) object { return object{"if": is, "then": then} }
	with := func(of ...object) object { return object{"allOf": of} }
	none := func(names ...string) object {
		var all []object
		for _, name := range names {
			all = append(all, not(has(name)))
		}
		return with(all...)
	}
	is := func(name string, words ...string) object { // a setting that is one of these
		return with(has(name), inside(name, object{"enum": words}))
	}
	plain := not(object{"type": "string", "pattern": `(?:week|month)s?\s*$`}) // a rate that needs no calendar
	switch p {
	case partFile:
		var source []object
		for _, name := range []string{"upstream", "upstreams", "include"} {
			source = append(source, has(name))
		}
		answers := anyOf(has("redirect"), has("respond"))
		source = append(source, with(has("routes"), inside("routes", object{"items": answers})))
		many := with(has("upstreams"), inside("upstreams", object{"type": "object", "minProperties": 2}))
		proxies := with(has("trusted_proxies"), inside("trusted_proxies", object{"minItems": 1}))
		reject := inside("reject", object{"dependencies": object{"content_type": []string{"body"}}})
		return with(
			anyOf(has("rules"), has("include")), anyOf(source...), notBoth("upstream", "upstreams"), notBoth("upstream", "routes"),
			when(many, with(anyOf(has("routes"), has("include")), inside("routes", object{"items": anyOf(has("upstream"), has("redirect"), has("respond"))}))),
			when(with(has("proxy_protocol"), inside("proxy_protocol", object{"const": true})), proxies), reject,
		)
	case partRule:
		var bursting []any
		for _, name := range algorithms {
			if hasBurst(name) {
				bursting = append(bursting, name)
			}
		}
		tier := func(o object) object { // of every other plan
			return object{"properties": object{"tiers": object{"additionalProperties": o}, "candidate": o}}
		}
		windows := with(has("algorithm"), inside("algorithm", with(object{"type": "string"}, not(object{"enum": bursting}), not(ref("variable")))))
		return object{
			"required": []string{"name"},
			"allOf": []object{
				{"oneOf": []object{has("limit"), has("concurrency")}},
				when(has("concurrency"), with(none("burst", "algorithm", "count", "refund", "cost", "max_wait", "calendar"), tier(with(has("concurrency"), none("limit", "burst"))))),
				when(has("limit"), tier(with(has("limit"), none("concurrency")))),
				when(windows, with(none("burst"), tier(none("burst")))),
				notBoth("count", "refund"),
				when(not(has("calendar")), with(inside("limit", plain), tier(inside("limit", plain)))),
				when(has("calendar"), with(has("algorithm"), inside("algorithm", anyOf(object{"enum": []string{fixedWindow}}, ref("variable"))))),
				when(is("algorithm", fixedWindow, slidingWindow, slidingLog), none("max_wait")),
				when(is("algorithm", leakyBucket), with(has("max_wait"), none("count", "refund"), inside("cost", not(with(object{"type": "object"}, has("header")))))),
			},
		}
	case partRoute:
		own := anyOf(has("redirect"), has("respond"))
		silent := inside("headers", none("request"))
		return with(notBoth("redirect", "respond"), notBoth("rewrite", "strip_prefix"), when(own, with(none("upstream", "strip_prefix", "rewrite", "timeout"), silent)))
	case partHeaders:
		edit := func(owned []string, prefixes ...string) object {
			set := headerMap(owned, prefixes...).schema
			set["additionalProperties"] = object{"allOf": []object{set["additionalProperties"].(object), filledIn(headerPlaces)}}
			return object{"properties": object{"set": set, "remove": oneOrList(takes{"", set["propertyNames"].(object)}, 0).schema}}
		}
		return with(inside("request", edit(slices.Concat(ofConnection, ofRequest), "X-Forwarded")), inside("response", edit(slices.Concat(ofConnection, ofResponse))))
	case partStore:
		return has("redis")
	case partRedis:
		return has("url", "replicas")
	case partRespond:
		empty := with(has("status", "body"), inside("status", object{"enum": []int{204, 205, 304}}))
		return object{"dependencies": object{"content_type": []string{"body"}}, "allOf": []object{when(empty, inside("body", object{"enum": []string{""}}))}}
	case partTLS:
		return object{
			"anyOf":        []object{has("domains"), has("certificates")},
			"dependencies": object{"client_auth": []string{"client_ca"}, "ca_root": []string{"ca"}},
			"allOf":        []object{when(has("ca_root"), inside("ca", not(object{"enum": []string{"production", "staging"}})))},
		}
	case partUpstreamTLS:
		return object{
			"dependencies": object{"cert": []string{"key"}, "key": []string{"cert"}},
			"allOf":        []object{when(with(has("insecure"), inside("insecure", object{"const": true})), none("ca"))},
		}
	case partUpstream:
		backup := with(object{"type": "object"}, has("backup"), inside("backup", object{"const": true}))
		return object{"required": []string{"servers"}, "allOf": []object{inside("servers", not(anyOf(backup, object{"type": "array", "minItems": 1, "items": backup})))}}
	case partAdmin:
		return anyOf(has("token"), inside("listen", anyOf(loopAddress().schema, object{"enum": []string{"off"}})))
	case partSecret, partJWT:
		return object{"minProperties": 1, "maxProperties": 1}
	case partPenalty:
		return with(has("after", "block"), inside("after", plain))
	case partCalendar:
		return has("zone")
	case partCount:
		return has("status")
	case partRefund:
		return anyOf(has("status"), has("upstream_error"))
	case partServer, partHealth, partBalance, partRedirect, partCertificate, partGroupFile, partOverload, partCost, partPath:
		return has(map[part][]string{
			partServer: {"url"}, partHealth: {"path"}, partBalance: {"hash"}, partRedirect: {"to"}, partCertificate: {"cert", "key"},
			partGroupFile: {"file"}, partOverload: {"max_in_flight"}, partCost: {"header"}, partPath: {"regex"},
		}[p]...)
	}
	return nil
}

// notBoth says that two settings are not both there.
func notBoth(a, b string) object { return object{"not": object{"required": []string{a, b}}} }
