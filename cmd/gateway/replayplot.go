package main

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"gateway/rules/replay"
)

// plot is an SVG in the making. Its coordinates are those of its viewBox.
type plot struct {
	strings.Builder
}

// The plots are this large, with room for the numbers of the axes.
const (
	plotWidth, plotHeight     = 560, 210
	plotLeft, plotRight       = 56, 548
	plotTop, plotBottom       = 14, 172
	plotTextBelow, plotUnders = 188, 204
)

// newPlot begins a plot; label says to those who do not see it what it shows.
func newPlot(label string) *plot {
	p := &plot{}
	fmt.Fprintf(p, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(label))
	return p
}

func (p *plot) svg() template.HTML {
	p.WriteString("</svg>")
	return template.HTML(p.String()) // all texts in it are escaped by text
}

// text writes text at a point; anchor is start, middle or end.
func (p *plot) text(x, y float64, anchor, class, text string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(text))
}

func (p *plot) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(p, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// shares draws the axis of shares, from 0 to top.
func (p *plot) shares(top float64) func(share float64) float64 {
	at := func(share float64) float64 { return plotBottom - share/top*(plotBottom-plotTop) }
	for i := range 5 {
		share := top * float64(i) / 4
		p.line(plotLeft, at(share), plotRight, at(share), "grid")
		p.text(plotLeft-6, at(share)+4, "end", "tick", tickPercent(share))
	}
	return at
}

func tickPercent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// logs draws an axis of numbers in powers of ten, from low to high.
func (p *plot) logs(low, high float64) func(n float64) float64 {
	low, high = max(low, 1), max(high, 10*max(low, 1))
	at := func(n float64) float64 {
		return plotLeft + math.Log(max(n, low)/low)/math.Log(high/low)*(plotRight-plotLeft)
	}
	for power := 1.0; power <= high*1.0001; power *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if n := m * power; n >= low && n <= high*1.0001 && (m == 1 || high/low < 300) {
				p.line(at(n), plotBottom, at(n), plotBottom+4, "grid")
				p.text(at(n), plotTextBelow, "middle", "tick", shortNumber(n))
			}
		}
	}
	return at
}

// shortNumber writes a whole number briefly: 20000 as 20k.
func shortNumber(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3gG", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3gM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.3gk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}

// plotWhen draws the requests of a rule over time, and the refused among them.
func plotWhen(rep *replay.Report, r *replay.RuleReport) template.HTML {
	const most = 120
	each := max(1, (len(r.When)+most-1)/most)
	var sums []replay.Step
	top := int64(1)
	for i, s := range r.When {
		if i%each == 0 {
			sums = append(sums, replay.Step{})
		}
		last := &sums[len(sums)-1]
		last.Requests, last.Refused = last.Requests+s.Requests, last.Refused+s.Refused
		top = max(top, last.Requests)
	}
	step := time.Duration(rep.Step*float64(each)) * time.Second
	p := newPlot("requests over time, and the refused among them")
	at := func(n int64) float64 { return plotBottom - float64(n)/float64(top)*(plotBottom-plotTop) }
	for i := range 3 {
		n := top * int64(i) / 2
		p.line(plotLeft, at(n), plotRight, at(n), "grid")
		p.text(plotLeft-6, at(n)+4, "end", "tick", shortNumber(float64(n)))
	}
	width := float64(plotRight-plotLeft) / float64(max(1, len(sums)))
	for i, s := range sums {
		x, begin := plotLeft+float64(i)*width, rep.Begin.Add(time.Duration(i)*step)
		fmt.Fprintf(p, `<g><title>%s UTC: %s of %s refused</title>`, begin.Format("2006-01-02 15:04:05"), grouped(s.Refused), grouped(s.Requests))
		p.rect(x, at(s.Requests), width, plotBottom-at(s.Requests), "requests")
		p.rect(x, at(s.Refused), width, plotBottom-at(s.Refused), "refused")
		p.WriteString("</g>")
	}
	layout := "15:04"
	if rep.To.Sub(rep.Begin) > 48*time.Hour {
		layout = "Jan 2"
	} else if rep.To.Sub(rep.Begin) < 10*time.Minute {
		layout = "15:04:05"
	}
	for i := range 5 {
		anchor := []string{"start", "middle", "middle", "middle", "end"}[i]
		p.text(plotLeft+float64(i)/4*(plotRight-plotLeft), plotTextBelow, anchor, "tick", rep.Begin.Add(time.Duration(len(sums))*step*time.Duration(i)/4).Format(layout))
	}
	p.text((plotLeft+plotRight)/2, plotUnders, "middle", "axis", "UTC, each bar "+spanText(step))
	return p.svg()
}

func (p *plot) rect(x, y, width, height float64, class string) {
	if height > 0 {
		fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>`, x, y, max(width-0.5, 0.5), height, class)
	}
}

// plotBusiest draws how many of the keys ask for how much in their busiest period.
func plotBusiest(r *replay.RuleReport) template.HTML {
	b := r.Busiest
	p := newPlot("share of the keys that ask for at most so many units in their busiest " + periodName(b.Period))
	y := p.shares(1)
	x := p.logs(1, 1.2*float64(max(b.Max, b.Limit)))
	var path strings.Builder
	fmt.Fprintf(&path, "M%.1f %.1f", float64(plotLeft), y(0))
	for _, q := range b.Points {
		fmt.Fprintf(&path, "H%.1fV%.1f", x(float64(q.Units)), y(q.Share))
	}
	fmt.Fprintf(&path, "H%d", plotRight)
	fmt.Fprintf(p, `<path d="%s" class="curve"/>`, path.String())
	p.mark(x(float64(b.Limit)), plotBottom-8, "limit "+r.Limit) // the curve is high there, if the limit is any good
	p.text((plotLeft+plotRight)/2, plotUnders, "middle", "axis", "units in the busiest "+periodName(b.Period)+" of a key")
	return p.svg()
}

// mark draws an upright line with a text beside it at the height y.
func (p *plot) mark(x, y float64, text string) {
	p.line(x, plotTop-4, x, plotBottom, "limit")
	anchor, dx := "start", 5.0
	if x > (plotLeft+plotRight)/2 {
		anchor, dx = "end", -5
	}
	p.text(x+dx, y, anchor, "limittext", text)
}

// plotCurve draws what other limits would have refused.
func plotCurve(r *replay.RuleReport) template.HTML {
	c := r.Curve
	p := newPlot("share of requests and of clients that other limits would have refused")
	top := 0.0
	for _, pt := range c.Points {
		top = max(top, pt.RequestsShare, pt.ClientsShare)
	}
	y := p.shares(roundUp(top))
	x := p.logs(float64(c.Points[0].Number), float64(c.Points[len(c.Points)-1].Number))
	for _, kind := range []string{"requests", "clients"} {
		var points []string
		for _, pt := range c.Points {
			share := pt.RequestsShare
			if kind == "clients" {
				share = pt.ClientsShare
			}
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(pt.Number)), y(share)))
		}
		fmt.Fprintf(p, `<polyline points="%s" class="line %s"/>`, strings.Join(points, " "), kind)
	}
	for _, pt := range c.Points {
		fmt.Fprintf(p, `<rect x="%.1f" y="%d" width="14" height="%d" class="touch"><title>%s: %s of the requests, %s of the clients refused</title></rect>`,
			x(float64(pt.Number))-7, plotTop, plotBottom-plotTop, html.EscapeString(pt.Limit), percentText(pt.RequestsShare), percentText(pt.ClientsShare))
		if pt.Limit == c.Suggested && !pt.Now {
			p.mark(x(float64(pt.Number)), plotTop+5, "suggested "+pt.Limit)
		} else if pt.Now {
			p.line(x(float64(pt.Number)), plotTop-4, x(float64(pt.Number)), plotBottom, "limit now")
		}
	}
	p.text((plotLeft+plotRight)/2, plotUnders, "middle", "axis", "units a "+periodName(r.Busiest.Period)+"; dashed: the limit now")
	return p.svg()
}

// roundUp returns the end of an axis for shares up to top.
func roundUp(top float64) float64 {
	for _, end := range []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8} {
		if top <= end {
			return end
		}
	}
	return 1
}
