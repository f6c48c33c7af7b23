package main

import (
	"encoding/json"
	"errors"
	"io"

	"gateway/rules"
)

// report is what `gateway check --json` prints.
type report struct {
	File string `json:"file"`
	// OK says that the file can be used; with --strict that it has no warnings either.
	OK        bool         `json:"ok"`
	Errors    []finding    `json:"errors"`
	Warnings  []finding    `json:"warnings"`
	Upstreams int          `json:"upstreams"`
	Routes    int          `json:"routes"`
	Rules     []ruleReport `json:"rules"`
}

// finding is an error or a warning. Line and column count from 1, the column in
// characters; they are 0 where only the line, or only the file, is known.
type finding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Length  int    `json:"length"`
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// ruleReport says what a rule means.
type ruleReport struct {
	Name      string       `json:"name"`
	File      string       `json:"file,omitempty"` // where that is an included one
	Line      int          `json:"line"`
	Match     string       `json:"match"`
	Key       string       `json:"key"`
	Algorithm string       `json:"algorithm"`
	Limit     string       `json:"limit,omitempty"`
	Meaning   string       `json:"meaning"`
	DryRun    bool         `json:"dry_run"`
	Tiers     []tierReport `json:"tiers,omitempty"`

	Candidate *candidateReport `json:"candidate,omitempty"`
}

// candidateReport says what numbers mean that are counted and never enforced.
type candidateReport struct {
	Limit   string `json:"limit"`
	Meaning string `json:"meaning"`
}

type tierReport struct {
	Group   string `json:"group"`
	Limit   string `json:"limit,omitempty"`
	Meaning string `json:"meaning"`
}

// checkJSON prints the report of a file that was read, or could not be.
func checkJSON(out io.Writer, name string, data []byte, err error, strict bool) error {
	r := report{File: name, Errors: []finding{}, Warnings: []finding{}, Rules: []ruleReport{}}
	if err == nil {
		err = r.load(name, data)
	}
	if list, ok := errors.AsType[rules.ErrorList](err); ok {
		r.Errors = findings(list)
	} else if err != nil {
		r.Errors = []finding{{File: name, Message: err.Error()}}
	}
	r.OK = err == nil && !(strict && len(r.Warnings) > 0)
	if err := printJSON(out, r); err != nil {
		return err
	}
	if !r.OK {
		return errSaid
	}
	return nil
}

func (r *report) load(name string, data []byte) error {
	snap, warnings, err := checkFile(name, data)
	if err != nil {
		return err
	}
	set := snap.Rules()
	r.Warnings = findings(warnings)
	r.Upstreams, r.Routes = len(set.File.Upstreams), len(set.Routes)
	for _, rule := range set.Rules {
		one := ruleReport{
			Name: rule.Name, Line: rule.Pos.Line, Match: rule.MatchText, Key: rule.KeyText, Algorithm: rule.Algorithm,
			Limit: rule.Base.Limit, Meaning: rule.Describe(), DryRun: rule.DryRun,
		}
		if rule.Pos.File != name {
			one.File = rule.Pos.File
		}
		if trial := rule.Base.Candidate; trial != nil {
			one.Candidate = &candidateReport{Limit: trial.Limit, Meaning: trial.Describe()}
		}
		for _, tier := range rule.Tiers {
			one.Tiers = append(one.Tiers, tierReport{Group: tier.Tier, Limit: tier.Limit, Meaning: tier.Describe()})
		}
		r.Rules = append(r.Rules, one)
	}
	return nil
}

func findings(list rules.ErrorList) []finding {
	all := make([]finding, len(list))
	for i, e := range list {
		all[i] = finding{
			File: e.Pos.File, Line: e.Pos.Line, Column: e.Pos.Col, Length: e.Len, Rule: e.Rule, Message: e.Msg, Hint: e.Hint,
		}
	}
	return all
}

// printJSON prints v as JSON, for people too.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
