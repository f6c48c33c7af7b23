package rules

import "testing"

func TestARuleThatIsSwitchedIsTheSameRule(t *testing.T) {
	const text = "upstream: http://a\nrules:\n  - { name: a, limit: 5/m }\n  - { name: b, limit: 7/m, dry_run: true }\n"
	file := compile(t, text, nil)
	on := file.WithDryRun("a", true)
	if a := on.Rule("a"); !a.DryRun || !a.Switched || a != on.Rules[0] || a.Live != file.Rule("a").Live || a.Base != file.Rule("a").Base {
		t.Errorf("switched on, a is %+v", a)
	}
	if file.Rule("a").DryRun || file.Rules[0].DryRun || file.Switched() {
		t.Error("the Set it was made of has changed")
	}
	if on.Rule("b") != file.Rule("b") || !on.Switched() {
		t.Error("the other rule has changed, or the Set does not know of the switch")
	}
	off := on.WithDryRun("a", false)
	if off.Rule("a").DryRun || off.Switched() {
		t.Error("switched back, it is not as the file says")
	}
	if off.WithDryRun("a", false) != off || off.WithDryRun("nobody", true) != off {
		t.Error("a change of nothing makes another Set")
	}
	if enforced := file.WithDryRun("b", false); enforced.Rule("b").DryRun || !enforced.Rule("b").Switched {
		t.Error("a dry run of the file cannot be switched off")
	}
	all := file.AllDryRun()
	if !all.Rule("a").DryRun || !all.Rule("b").DryRun || all.Rule("b").Switched {
		t.Error("not all rules are dry runs, or one is switched that is one in the file")
	}
	// What a reload makes of it: the file holds again, and the counters are the same.
	f, err := Parse("gateway.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Compile(on)
	if err != nil {
		t.Fatal(err)
	}
	if again.Rule("a").DryRun || again.Switched() || again.Rule("a").Live != file.Rule("a").Live || again.Rule("a").Base.Live != file.Rule("a").Base.Live {
		t.Error("after a reload the rule is still switched, or counts anew")
	}
	const want = `changed "a" (dry_run true → false; counters kept)`
	if got := again.Change(on).String(); got != want {
		t.Errorf("the reload says %q, want %q", got, want)
	}
}
