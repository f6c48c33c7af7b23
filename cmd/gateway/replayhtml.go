package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"sync"
	"time"

	"gateway/rules/replay"
)

//go:embed replay.html
var replayText string

//go:embed replay.css
var replayStyle string

// replayTemplate returns the template of the report.
var replayTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("replay").Funcs(replayFuncs).Parse(replayText))
})

var replayFuncs = template.FuncMap{
	"grouped": grouped, "percent": percentText, "period": inPeriod, "span": spanText,
	"seconds": seconds,
	"clock":   func(t time.Time) string { return t.Format("2006-01-02 15:04:05") },
	"time":    func(t time.Time) string { return t.Format("15:04:05") },
	"share":   share,
	"width":   func(share float64) int { return int(share*100 + 0.5) },
	"when":    plotWhen, "busiest": plotBusiest, "curve": plotCurve,
	"css": func() template.CSS { return template.CSS(replayStyle) },
}

// replayPage returns the report as a page that needs nothing from anywhere: its
// plots are in it, and it has no script.
func replayPage(rep *replay.Report) ([]byte, error) {
	var b bytes.Buffer
	err := replayTemplate().Execute(&b, rep)
	return b.Bytes(), err
}
