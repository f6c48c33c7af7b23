package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
)

// SwitchedRule is what POST /rules/RULE says: how the rule is now.
type SwitchedRule struct {
	Rule string `json:"rule"`
	// DryRun says that it refuses nobody, Switched that the file says otherwise.
	DryRun   bool `json:"dry_run"`
	Switched bool `json:"switched"`
}

// serveRule makes a rule a dry run, or none, as dry_run in the form says.
func serveRule(c Config) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("rule")
		set := c.Gateway.Current().Rules()
		if set.Rule(name) == nil {
			say(w, http.StatusNotFound, noRule(set, name))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		on, err := onOff(r)
		if err != nil {
			say(w, http.StatusBadRequest, err.Error())
			return
		}
		if err := c.DryRun(name, on); err != nil {
			say(w, http.StatusConflict, err.Error())
			return
		}
		now := c.Gateway.Current().Rules().Rule(name)
		if now == nil { // a reload has come in between
			say(w, http.StatusNotFound, noRule(c.Gateway.Current().Rules(), name))
			return
		}
		if c.Logger != nil {
			c.Logger.LogAttrs(r.Context(), slog.LevelWarn, "rule switched", slog.String("rule", name), slog.Bool("dry_run", now.DryRun), slog.String("from", r.RemoteAddr))
		}
		answerJSON(w, SwitchedRule{Rule: name, DryRun: now.DryRun, Switched: now.Switched})
	}
}

// onOff reads dry_run of the form of a request.
func onOff(r *http.Request) (bool, error) {
	if err := r.ParseForm(); err != nil {
		return false, fmt.Errorf("the form cannot be read: %w", err)
	}
	switch r.PostForm.Get("dry_run") {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, errors.New("say dry_run=on or dry_run=off in the form")
}
