package rules

import (
	"strings"
	"testing"
)

func TestPositionsPrintWhatIsKnown(t *testing.T) {
	for want, p := range map[string]Pos{
		"f.yaml":     {File: "f.yaml"},
		"f.yaml:3":   {File: "f.yaml", Line: 3},
		"f.yaml:3:7": {File: "f.yaml", Line: 3, Col: 7},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v prints as %s, want %s", p, got, want)
		}
	}
}

func TestExcerptsOfLongLinesAreShort(t *testing.T) {
	long := strings.Repeat("a", 500)
	for _, tt := range []struct {
		line  string
		off   int
		text  string
		caret int
	}{
		{"abc", 1, "abc", 2},
		{"abc", 3, "abc", 4},
		{"ä\tb\x1b", 3, "ä b\ufffd", 3},
		{"", 0, "", 1},
		{long, 0, long[:100] + "…", 1},
		{long, 10, long[:100] + "…", 11},
		{long, 250, "…" + long[:100] + "…", 52},
		{long, 499, "…" + long[:51], 52},
		{strings.Repeat("ä", 500), 500, "…" + strings.Repeat("ä", 100) + "…", 52},
	} {
		text, caret := excerpt(tt.line, tt.off)
		if text != tt.text || caret != tt.caret {
			t.Errorf("excerpt(%.10q…, %d) = %q, %d; want %q, %d", tt.line, tt.off, text, caret, tt.text, tt.caret)
		}
	}
}

func TestCaretsStandBelowWhatIsMeant(t *testing.T) {
	_, err := Parse("f.yaml", []byte("upstream: http://a\nrules: []\nlog: {level: \"späät\", format: 'xx'}\n"))
	const want = `f.yaml:3:14: level "späät": must be debug, info, warn or error
   3 | log: {level: "späät", format: 'xx'}
     |              ^^^^^^^
f.yaml:3:31: format "xx": must be auto, text or json
   3 | log: {level: "späät", format: 'xx'}
     |                               ^^^^`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestCountsAreInWords(t *testing.T) {
	e, w := &Error{}, &Error{Warning: true}
	for want, list := range map[string]ErrorList{
		"1 error": {e}, "2 errors": {e, e}, "1 warning": {w}, "3 warnings": {w, w, w}, "0 errors": {},
	} {
		if got := list.Count(); got != want {
			t.Errorf("%d errors are %q, want %q", len(list), got, want)
		}
	}
	if ErrorList(nil).Err() != nil || (ErrorList{e}).Err() == nil {
		t.Error("only an empty list is no error")
	}
}

func TestPasswordsInURLsAreNotRepeated(t *testing.T) {
	for _, url := range []string{"http://user:hunter2@a", "user:hunter2@a", "http://user:hunter2@a:x", "ftp://user:hunter2@a"} {
		_, err := Parse("f.yaml", []byte("upstream: "+url+"\nrules: []\n"))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
