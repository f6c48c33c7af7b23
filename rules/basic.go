package rules

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// appendBasic appends the user name of HTTP's Basic authentication, trimmed and
// folded. Nobody has verified it. Credentials that servers may read in different
// ways are unreadable: two lines, broken base64, no colon.
func (f *Facts) appendBasic(out []byte) ([]byte, presence) {
	lines := f.Header["Authorization"]
	basic, code := false, ""
	for _, line := range lines {
		scheme, rest := cutToken(trimSpace(line))
		if strings.EqualFold(scheme, "basic") && trimSpace(rest) != "" {
			basic, code = true, trimSpace(rest)
		}
	}
	if !basic {
		return out, absent
	}
	f.text = append(f.text[:0], code...)
	start := len(out)
	out, err := base64.StdEncoding.AppendDecode(out, f.text)
	if err != nil {
		out, err = base64.RawStdEncoding.AppendDecode(out[:start], f.text)
	}
	name, _, colon := bytes.Cut(out[start:], []byte(":"))
	if err != nil || !colon || len(lines) > 1 || bytes.IndexByte(name, 0) >= 0 {
		return out[:start], unreadable
	}
	f.text = append(f.text[:0], name...)
	if out = appendFolded(out[:start], f.text); len(out) == start {
		return out, absent
	}
	return out, present
}
