package rules

import (
	"maps"
	"slices"
	"strings"
)

// manualEntry is a setting with what its value may be and what it is for.
type manualEntry struct {
	name string
	takes
	help string
}

// manual returns what is to be said of the settings of every part.
func manual() map[part][]manualEntry {
	all := manualFile()
	maps.Copy(all, manualRule())
	return all
}

// Setting is a setting of the file, in words.
type Setting struct {
	Name string
	// Takes says what its value may be, Default what holds without it; "" where
	// nothing does, or where Help says it.
	Takes, Default string
	// Help says what it is for.
	Help string
}

// Settings are those of a part of the file, in its usual order.
type Settings struct {
	// Part is where in the file they stand: "rules[]", "upstreams.<name>.health"; ""
	// is the top level.
	Part string
	List []Setting
}

// Manual returns the settings that this version has, all parts from the top of the
// file down, for a reader.
func Manual() []Settings {
	explanations := manual()
	var all []Settings
	seen := map[part]bool{}
	var add func(p part, path string)
	add = func(p part, path string) {
		if seen[p] {
			return
		}
		seen[p] = true
		s := Settings{Part: path}
		for _, name := range settings[p] {
			one := Setting{Name: name}
			if i := slices.IndexFunc(explanations[p], func(e manualEntry) bool { return e.name == name }); i >= 0 {
				one.Takes, one.Help = explanations[p][i].says, explanations[p][i].help
			}
			if text, ok := p.preset(name); ok && text != "{}" && text != "[]" {
				one.Default = text
			}
			s.List = append(s.List, one)
		}
		all = append(all, s)
		for _, name := range settings[p] {
			path := strings.TrimPrefix(path+"."+name, ".")
			if of, ok := inside[p][name]; ok {
				add(of, path)
			}
			if of, ok := items[p][name]; ok {
				add(of, path+map[bool]string{true: ".<name>", false: "[]"}[name == "upstreams" || name == "tiers"])
			}
			if name == "match" {
				add(partMatch, path)
				add(partPath, path+".path")
			}
		}
	}
	add(partFile, "")
	add(partGroupFile, "groups.<name>.<attribute>")
	return all
}

// Attributes returns the attributes that this version has, as one writes them:
// "ip", "ip/48", "header.<name>".
func Attributes() []string {
	var all []string
	for _, name := range kindNames {
		switch {
		case name == "":
		case strings.HasSuffix(name, "."):
			all = append(all, name+"<name>")
		case name == kindNames[kindIP]:
			all = append(all, name, name+"/48")
		default:
			all = append(all, name)
		}
	}
	return all
}
