package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gateway/rules/replay"
)

// printReplay prints the report of a replay for a person.
func printReplay(w io.Writer, rep *replay.Report, suggest bool) {
	printLogs(w, rep)
	if rep.Requests == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "RULE\tLIMIT\tREQUESTS\tUNITS\tREFUSED\tSHARE\t\tCLIENTS\tREFUSED\n")
	for i := range rep.Rules {
		r := &rep.Rules[i]
		name := r.Name
		if r.DryRun {
			name += " (dry run)"
		}
		if !r.Judged {
			fmt.Fprintf(t, "%s\t%s\tnot judged\n", name, r.Limit)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, r.Limit, grouped(r.Requests), grouped(r.Units), grouped(r.Refused),
			percentText(r.Share), bar(r.Share, 12), grouped(r.Clients), grouped(r.ClientsRefused))
		if c := r.Candidate; c != nil {
			fmt.Fprintf(t, "  candidate\t%s\t%s\t\t%s\t%s\t%s\t%s\t%s\n", c.Limit, grouped(c.Requests), grouped(c.Refused),
				percentText(c.Share), bar(c.Share, 12), grouped(c.Clients), grouped(c.ClientsRefused))
		}
	}
	t.Flush()
	for i := range rep.Rules {
		printRuleReplay(w, rep, &rep.Rules[i], suggest)
	}
	if rep.Against != nil {
		printAgainst(w, rep.Against)
	}
}

// printLogs says what was read.
func printLogs(w io.Writer, rep *replay.Report) {
	const most = 8
	for i, f := range rep.Files {
		if i == most && len(rep.Files) > most+1 {
			fmt.Fprintf(w, "and %d more files\n", len(rep.Files)-most)
			break
		}
		fmt.Fprintf(w, "%s: %s, %s", f.Name, many(f.Lines, "line"), f.Format)
		if f.Unread > 0 {
			fmt.Fprintf(w, ", %s of them unread", grouped(f.Unread))
		}
		fmt.Fprintln(w)
	}
	if rep.Requests == 0 {
		fmt.Fprintln(w, "There is no request in it.")
	} else {
		fmt.Fprintf(w, "%s from %s to %s UTC (%s); %s refused (%s)", many(rep.Requests, "request"),
			rep.From.Format("2006-01-02 15:04:05"), rep.To.Format("2006-01-02 15:04:05"), spanText(rep.To.Sub(rep.From)),
			grouped(rep.Refused), percentText(share(rep.Refused, rep.Requests)))
		if rep.WouldRefuse > 0 {
			fmt.Fprintf(w, ", %s more by rules on trial", grouped(rep.WouldRefuse))
		}
		fmt.Fprintln(w)
	}
	for _, u := range rep.Unread {
		fmt.Fprintf(w, "unread  %s:%d: %s\n", u.File, u.Line, u.Reason)
	}
	if more := rep.LinesUnread - int64(len(rep.Unread)); more > 0 {
		fmt.Fprintf(w, "unread  and %s more\n", grouped(more))
	}
	for _, c := range []struct {
		n    int64
		text string
	}{
		{rep.Malformed, "nothing that rules are asked about (malformed, TLS on a plain port), answered 400"},
		{rep.NoRoute, "no route, answered 404"}, {rep.Blocked, "blocked, answered 403"}, {rep.Lacking, "without a key that a rule insists on, answered 400"},
		{rep.Before, "ended before any rule when logged, and left out"},
		{rep.PathCut, "without the whole path in the log, which is blanked or long: decided by what it says of rules"},
		{rep.Status429, "answered 429 when logged"},
		{rep.Late, "too late in the log for their place in time, and decided late"},
	} {
		if c.n > 0 {
			fmt.Fprintf(w, "note    %s: %s\n", many(c.n, "request"), c.text)
		}
	}
	for _, n := range rep.Notes {
		fmt.Fprintf(w, "note    %s\n", n)
	}
	if a := rep.AsLogged; a != nil {
		if a.Different == 0 {
			fmt.Fprintf(w, "logged  all %s decisions are as they were\n", grouped(a.Same))
			return
		}
		fmt.Fprintf(w, "logged  %s decisions are as they were, %s are not\n", grouped(a.Same), grouped(a.Different))
		for _, d := range a.First {
			fmt.Fprintf(w, "        %s:%d: %s\n", d.File, d.Line, d.Reason)
		}
	}
}

// printRuleReplay prints what one rule would have done.
func printRuleReplay(w io.Writer, rep *replay.Report, r *replay.RuleReport, suggest bool) {
	fmt.Fprintf(w, "\n%s: %s, for each %s\n", r.Name, r.Meaning, r.Key)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note     %s\n", n)
	}
	if !r.Judged || r.Requests == 0 {
		if r.Judged {
			fmt.Fprintln(w, "  it applied to no request")
		}
		return
	}
	if r.Refused > 0 {
		line, step := spark(r.When, rep.Step, 60)
		layout := "Jan 2 15:04"
		if rep.To.Sub(rep.Begin) < time.Hour {
			layout = time.TimeOnly
		}
		fmt.Fprintf(w, "  when     %s  %s to %s, %s each\n", line, rep.Begin.Format(layout), rep.To.Format(layout), spanText(step))
	}
	if b := r.Busiest; b != nil {
		fmt.Fprintf(w, "  busiest  %s of each of %s: half ask for %s or less, 90 %% for %s, 99 %% for %s, 99.9 %% for %s, 99.99 %% for %s; the most is %s, of %s\n",
			periodName(b.Period), many(r.Clients, "key"), grouped(b.P50), grouped(b.P90), grouped(b.P99), grouped(b.P999), grouped(b.P9999), grouped(b.Max), b.MaxKey)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, k := range r.Top {
		label := ""
		if i == 0 {
			label = "refused"
		}
		about := ""
		if k.Over > 0 {
			about = fmt.Sprintf(" (at most %s too many)", grouped(k.Over))
		}
		if k.Requests > 0 {
			fmt.Fprintf(t, "  %-7s\t%s\t%s of %s%s\t%s\t%s\n", label, k.Key, grouped(k.Refused), grouped(k.Requests), about, percentText(k.Share), bar(k.Share, 12))
		} else {
			fmt.Fprintf(t, "  %-7s\t%s\t%s%s\n", label, k.Key, grouped(k.Refused), about)
		}
	}
	t.Flush()
	if l := r.Longest; l != nil && l.Seconds > 0 {
		fmt.Fprintf(w, "  longest  %s was refused each time for %s, from %s\n", l.Key, spanText(seconds(l.Seconds)), l.From.Format("15:04:05"))
	}
	if suggest {
		printCurve(w, r)
	}
}

// printCurve prints what other limits of a rule would have refused.
func printCurve(w io.Writer, r *replay.RuleReport) {
	c := r.Curve
	if c == nil {
		fmt.Fprintln(w, "  suggest  no other limits can be tried for a rule of this kind")
		return
	}
	target := fmt.Sprintf("at most %s of the %s", percentText(c.Wanted.Share), c.Wanted.Of)
	if c.Suggested == "" {
		fmt.Fprintf(w, "  suggest  none of the limits tried refuses %s\n", target)
	} else {
		fmt.Fprintf(w, "  suggest  %s is the smallest limit that refuses %s\n", c.Suggested, target)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "           \tLIMIT\tREQUESTS\t\tCLIENTS\t\n")
	for i, p := range c.Points {
		mark := ""
		switch {
		case p.Limit == c.Suggested:
			mark = "suggested"
		case p.Now:
			mark = "now"
		case p.ClientsShare == 0 && i > 0 && c.Points[i-1].ClientsShare == 0:
			continue
		}
		if mark != "" && p.Now && p.Limit == c.Suggested {
			mark = "suggested, now"
		}
		fmt.Fprintf(t, "           \t%s\t%s\t%s\t%s\t%s\t%s\n", p.Limit, percentText(p.RequestsShare), bar(p.RequestsShare, 10),
			percentText(p.ClientsShare), bar(p.ClientsShare, 10), mark)
	}
	t.Flush()
}

// printAgainst prints what differs from another file.
func printAgainst(w io.Writer, a *replay.Against) {
	fmt.Fprintf(w, "\nAgainst %s:\n", a.File)
	fmt.Fprintf(w, "  %s requests are refused that it lets through, of %s clients of whom it refuses nothing\n", grouped(a.OnlyNow), grouped(a.ClientsNow))
	fmt.Fprintf(w, "  %s requests are let through that it refuses; %s clients are no longer refused anything\n", grouped(a.OnlyThen), grouped(a.ClientsThen))
	fmt.Fprintf(w, "  %s are let through by both, %s refused by both\n", grouped(a.Both), grouped(a.Neither))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range a.Top {
		fmt.Fprintf(t, "  newly refused\t%s\t%s of %s\t%s\t%s\n", k.Key, grouped(k.Refused), grouped(k.Requests), percentText(k.Share), bar(k.Share, 12))
	}
	t.Flush()
}

func share(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// percentText writes a share for people; what is not nothing is never "0 %".
func percentText(share float64) string {
	p := 100 * share
	switch {
	case share == 0:
		return "0 %"
	case p < 0.01:
		return "<0.01 %"
	case share < 1 && p > 99.99:
		return ">99.99 %"
	case p < 10:
		return fmt.Sprintf("%.2f %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}

// bar draws a share in so many columns, in eighths of one.
func bar(share float64, width int) string {
	const parts = " ▏▎▍▌▋▊▉"
	eighths := int(share*float64(8*width) + 0.5)
	if share > 0 {
		eighths = max(1, eighths)
	}
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune(parts)[rest])
	}
	return text
}

// spark draws the refusals over time in at most so many columns, and says how long
// each of them is.
func spark(when []replay.Step, step float64, width int) (string, time.Duration) {
	each := max(1, (len(when)+width-1)/width)
	var sums []int64
	most := int64(1)
	for i, s := range when {
		if i%each == 0 {
			sums = append(sums, 0)
		}
		sums[len(sums)-1] += s.Refused
		most = max(most, sums[len(sums)-1])
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range sums {
		if n == 0 {
			b.WriteByte('.')
			continue
		}
		b.WriteRune(levels[int(n*int64(len(levels)-1)/most)])
	}
	return b.String(), seconds(step * float64(each))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// spanText writes a length of time in its two largest units.
func spanText(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	d = d.Round(time.Second)
	days, d := d/(24*time.Hour), d%(24*time.Hour)
	text := strings.TrimSuffix(strings.TrimSuffix(strings.Replace(d.String(), "m0s", "m", 1), "h0m"), "")
	if strings.HasSuffix(d.String(), "h0m0s") {
		text = strconv.Itoa(int(d/time.Hour)) + "h"
	}
	if days == 0 {
		return text
	}
	if d == 0 {
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%s", days, text)
}

// periodName writes the period of a limit in words: "15m" is "15 minutes".
func periodName(period string) string {
	names := map[string]string{"s": "second", "m": "minute", "h": "hour", "d": "day"}
	if name, ok := names[period]; ok {
		return name
	}
	if name, ok := names[period[max(0, len(period)-1):]]; ok {
		return period[:len(period)-1] + " " + name + "s"
	}
	return period
}

// inPeriod says within which time: "in one minute", "in 15 minutes".
func inPeriod(period string) string {
	name := periodName(period)
	if len(name) > 0 && (name[0] < '0' || name[0] > '9') {
		return "in one " + name
	}
	return "in " + name
}

// many writes how many there are of something.
func many(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// grouped writes a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
