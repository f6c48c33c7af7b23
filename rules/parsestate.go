package rules

import (
	"path/filepath"
	"strings"
)

// StateDir is the variable of the environment that names the folder for what is to
// outlive the process, as systemd sets it; of several folders the first one.
const StateDir = "STATE_DIRECTORY"

// state reads where levels are kept over a restart.
func (p *parser) state() {
	v := p.top.get("state")
	switch {
	case v != nil && v.shape == scalar && v.text == "off":
	case v != nil && v.word == wordBool:
		p.failAt(v, "write the path of a file, or off", "state %s: not a path", quote(v.text))
	case v != nil && v.word == wordText && (v.text == "on" || v.text == "yes" || v.text == "no"):
		p.failAt(v, "write the path of a file, or off", "state %s: not a path", quote(v.text))
	case v != nil:
		p.file.State = p.filePath(v, "state")
		if strings.HasSuffix(v.text, "/") {
			p.failAt(v, "name a file in it: "+v.text+"levels", "state %s: a folder", quote(v.text))
		}
	case p.top.lacks("state"):
		all, _ := p.outside.env(StateDir)
		if dir, _, _ := strings.Cut(all, ":"); filepath.IsAbs(dir) {
			p.file.State = FilePath{Path: filepath.Join(dir, "levels")}
		}
	}
}
