package proxy

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gateway/limit"
	"gateway/rules"
)

// wording is what the gateway says to those whom rules refuse. It is made when the
// file is loaded, so that of each refusal only names and numbers are written. Rules
// that say the same share one. It is immutable.
type wording struct {
	status      int
	contentType []string // of the body of the file; nil without one
	body        draft    // that body
	limited     draft    // else this problem+json, of a request that is over a limit
	blocked     draft    // and this one, of a client that is blocked
	// The two details alone, as plain text.
	limitedText, blockedText draft
	headers                  []draftField
	jitter                   int
}

// draftField is a header field of a refusal.
type draftField struct {
	name   string // canonical
	value  draft
	shared []string // the value when it is always the same, else nil; never changed
}

// draft is a text with places that each refusal fills in.
type draft []part

// part is a piece of a draft: some text and the place behind it.
type part struct {
	text  string
	place place
}

type place uint8

const (
	nothing     place = iota
	firstName         // of the first rule that refuses
	firstLimit        // its limit, as plain text
	firstLimitJ       // and within a JSON string
	allNames          // the rules that refuse, in words
	allNamesJ         // the same within a JSON string
	listNames         // the same as a list in JSON
	retryNumber       // Retry-After
	retryText         // what it says, to end a sentence
	retryMember       // the member of a problem
	idOfRequest       // within a JSON string
)

// What is filled into texts of the file, and into those of the gateway's own.
var (
	plainPlaces = map[string]place{"rule": firstName, "limit": firstLimit, "retry_after": retryNumber, "rules": allNames, "when": retryText}
	jsonPlaces  = map[string]place{"rule": firstName, "limit": firstLimitJ, "retry_after": retryNumber, "rules": allNamesJ, "when": retryText}
	// ofFile are the names that a file may use.
	ofFile = []string{"rule", "limit", "retry_after"}
	ofOwn  = []string{"rules", "when"}
)

const (
	limitedDetail = `Over the limit of rule "{rules}"{when}`
	blockedDetail = `Blocked under rule "{rules}" for too many refusals{when}`
)

// readDraft reads a text whose placeholders are among names.
func readDraft(text string, names []string, places map[string]place, escape func(string) string) (d draft) {
	from := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '{' {
			continue
		}
		for _, name := range names {
			if strings.HasPrefix(text[i+1:], name+"}") {
				d = append(d, part{escape(text[from:i]), places[name]})
				from = i + len(name) + len("{}")
				i = from - 1
				break
			}
		}
	}
	return append(d, part{text: escape(text[from:])})
}

func plain(s string) string { return s }

// insideJSON returns s as it stands between the quotes of a JSON string.
func insideJSON(s string) string { return string(appendInsideJSON(nil, s)) }

// problemDraft is the body of a refusal of that kind.
func problemDraft(kind, title string, status int, detail draft) draft {
	head := `{"type":"` + insideJSON(kind) + `","title":"` + insideJSON(title) + `","status":` + strconv.Itoa(status) + `,"detail":"`
	d := append(draft{{text: head}}, detail...)
	return append(d,
		part{`","instance":"urn:request:`, idOfRequest}, part{`","violated-policies":`, listNames}, part{"", retryMember}, part{text: "}\n"})
}

func newWording(r *rules.Reject) *wording {
	limited, blocked, names := limitedDetail, blockedDetail, ofOwn
	if r.Detail != "" {
		limited, blocked, names = r.Detail, r.Detail, ofFile
	}
	w := &wording{
		status: r.Status, jitter: r.Jitter,
		limited:     problemDraft(quotaExceeded, "Too many requests", r.Status, readDraft(limited, names, jsonPlaces, insideJSON)),
		blocked:     problemDraft(abnormalUsage, "Blocked", r.Status, readDraft(blocked, names, jsonPlaces, insideJSON)),
		limitedText: readDraft(limited, names, plainPlaces, plain),
		blockedText: readDraft(blocked, names, plainPlaces, plain),
	}
	if r.Body != "" {
		w.body, w.contentType = readDraft(r.Body, ofFile, plainPlaces, plain), []string{strings.NewReplacer("\r", " ", "\n", " ").Replace(r.ContentType)}
	}
	for _, h := range r.Headers {
		f := draftField{name: h.Name, value: readDraft(h.Value, ofFile, plainPlaces, plain)}
		if len(f.value) == 1 {
			f.shared = []string{h.Value}
		}
		w.headers = append(w.headers, f)
	}
	return w
}

// newWordings returns the wording of each rule, by its index.
func newWordings(list []*rules.Rule) []*wording {
	all, known := make([]*wording, len(list)), map[string]*wording{}
	for i, r := range list {
		s := r.Reject
		if i > 0 && s == list[i-1].Reject { // which most rules have from the file
			all[i] = all[i-1]
			continue
		}
		key := strconv.Itoa(s.Status) + " " + strconv.Itoa(s.Jitter)
		for _, text := range []string{s.Detail, s.Body, s.ContentType} {
			key += " " + strconv.Quote(text)
		}
		for _, h := range s.Headers {
			key += " " + strconv.Quote(h.Name) + strconv.Quote(h.Value)
		}
		if known[key] == nil {
			known[key] = newWording(s)
		}
		all[i] = known[key]
	}
	return all
}

// refusal is what fills in a draft.
type refusal struct {
	rules   []*rules.Hit // those that refuse; the first one words it
	id      string       // of the request
	seconds int64        // Retry-After
	canWait bool         // it helps to wait
}

// write appends d, filled in.
func (f *refusal) write(b []byte, d draft) []byte {
	for i := range d {
		b = append(b, d[i].text...)
		switch first := f.rules[0]; d[i].place {
		case firstName:
			b = append(b, first.Rule.Name...) // letters, digits, - and _
		case firstLimit:
			b = append(b, first.Plan.Limit...)
		case firstLimitJ:
			b = appendInsideJSON(b, first.Plan.Limit)
		case allNames:
			b = f.names(b, `" and rule "`)
		case allNamesJ:
			b = f.names(b, `\" and rule \"`)
		case listNames:
			b = append(f.names(append(b, `["`...), `","`), `"]`...)
		case idOfRequest:
			b = appendInsideJSON(b, f.id)
		case retryNumber:
			if f.canWait {
				b = strconv.AppendInt(b, f.seconds, 10)
			}
		case retryText:
			b = appendWhen(b, f.seconds, f.canWait)
		case retryMember:
			if f.canWait {
				b = strconv.AppendInt(append(b, `,"retry_after":`...), f.seconds, 10)
			}
		}
	}
	return b
}

func (f *refusal) names(b []byte, between string) []byte {
	for i, hit := range f.rules {
		if i > 0 {
			b = append(b, between...)
		}
		b = append(b, hit.Rule.Name...)
	}
	return b
}

// appendWhen says when to try again.
func appendWhen(b []byte, seconds int64, canWait bool) []byte {
	switch {
	case !canWait:
		return append(b, "; this request can never pass."...)
	case seconds == 1:
		return append(b, "; try again in 1 second."...)
	}
	return append(strconv.AppendInt(append(b, "; try again in "...), seconds, 10), " seconds."...)
}

// set adds the header fields of the file.
func (w *wording) set(h http.Header, f *refusal) {
	for i := range w.headers {
		field := &w.headers[i]
		switch {
		case h[field.name] == nil && field.shared != nil:
			h[field.name] = field.shared
		case field.shared != nil:
			h[field.name] = append(h[field.name], field.shared[0])
		default:
			h[field.name] = append(h[field.name], string(f.write(nil, field.value)))
		}
	}
}

// wait is how long a client that is refused has to wait, as it is told.
func (w *wording) wait(x *exchange, v limit.Verdict) (seconds int64, canWait bool) {
	wait := v.Wait
	if wait > 0 {
		// It counts from the instant of the decision; the client begins to wait when
		// it has the answer.
		wait = max(1, wait-x.g.clock.Now().Sub(x.asOf))
		if w.jitter > 0 {
			wait += time.Duration(rand.Int64N(int64(wait)/100*int64(w.jitter) + 1))
		}
	}
	return retryAfter(wait)
}
