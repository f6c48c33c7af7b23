package admin

import (
	"cmp"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// page returns the template of the page, which most processes are never asked for.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(pageFuncs).Parse(pageText))
})

var pageFuncs = template.FuncMap{
	"ago": func(now, then time.Time) string { return max(0, now.Sub(then)).Round(time.Second).String() },
	"classes": func(counts map[string]uint64) string {
		var parts []string
		for _, class := range slices.Sorted(maps.Keys(counts)) {
			if counts[class] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", counts[class], class))
			}
		}
		return strings.Join(parts, ", ")
	},
	"allowed": func(in *float64) string {
		switch {
		case in == nil:
			return "never"
		case *in == 0:
			return "now"
		}
		return "in " + (time.Duration(*in*10) * time.Second / 10).Round(time.Second).String()
	},
	"add":    func(a, b, c int64) int64 { return a + b + c },
	"sparks": sparks,
}

// pageRules is how many rules the page shows.
const pageRules = 200

// pageData is what the page shows.
type pageData struct {
	Status
	Hidden        int // rules that are not shown
	Nonce         string
	Style, Script string
}

// CSS and JS return the style and the script of the page, which are ours.
func (d pageData) CSS() template.CSS { return template.CSS(d.Style) }

// JS returns the script.
func (d pageData) JS() template.JS { return template.JS(d.Script) }

// servePage serves the status page. Nothing but the page's own style and script
// runs in it, and it is shown in no frame.
func servePage(c Config) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := pageData{Status: readStatus(c, time.Now()), Nonce: rand.Text(), Style: pageStyle, Script: pageScript}
		d.Hidden = d.shorten(pageRules)
		var b strings.Builder
		if err := page().Execute(&b, d); err != nil {
			say(w, http.StatusInternalServerError, err.Error())
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+d.Nonce+"'; script-src 'nonce-"+d.Nonce+
			"'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "same-origin")
		head(w, http.StatusOK, "text/html; charset=utf-8")
		fmt.Fprint(w, b.String())
	}
}

// shorten leaves the n rules that refuse most now, if there are more, and returns
// how many it left out.
func (s *Status) shorten(n int) int {
	if len(s.Rules) <= n {
		return 0
	}
	slices.SortStableFunc(s.Rules, func(a, b RuleStatus) int {
		return cmp.Or(cmp.Compare(b.RefusedRate+b.WouldRefuseRate, a.RefusedRate+a.WouldRefuseRate), cmp.Compare(b.AllowedRate, a.AllowedRate))
	})
	hidden := len(s.Rules) - n
	s.Rules = s.Rules[:n]
	return hidden
}

// The sparkline is samples wide and this high.
const sparkHeight = 24

// sparks returns the points of a line of one kind of decisions in the history of a
// rule: 0 allowed, 1 refused, 2 would have refused. All are drawn to one scale. It
// is empty when there was none.
func sparks(history [][3]int64, kind int) string {
	most, any := int64(1), false
	for _, t := range history {
		most = max(most, slices.Max(t[:]))
		any = any || t[kind] > 0
	}
	if !any {
		return ""
	}
	var b strings.Builder
	for i, t := range history {
		y := sparkHeight - 1 - float64(t[kind])*(sparkHeight-2)/float64(most)
		fmt.Fprintf(&b, "%d,%.1f ", (samples-len(history)+i)*2, y)
	}
	return strings.TrimSpace(b.String())
}
