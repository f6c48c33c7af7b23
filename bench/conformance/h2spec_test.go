package conformance

import (
	"encoding/xml"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// excused are the cases of h2spec that the gateway fails in cleartext, and why.
// Three of them are decisions of Go's HTTP/2 that nothing in a handler changes.
var excused = map[string]string{
	"http2/3.5 Sends invalid connection preface": "a cleartext port speaks HTTP/1 too, so the answer is a 400 of that, and then the end",

	"http2/6.5.3 Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE": "Go ends connections that set one thing twice in a frame",

	"http2/8.1.2.2 Sends a HEADERS frame that contains the connection-specific header field": "Go answers 400, as RFC 9113 8.1.1 allows, before the stream is reset",

	`http2/8.1.2.2 Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`: "the same",
}

// report is the JUnit report of h2spec.
type report struct {
	Suites []struct {
		Package string `xml:"package,attr"`
		Cases   []struct {
			Name    string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestH2spec(t *testing.T) {
	g := serve(t, "upstream: "+hello(t)+"\nrules: [{ name: all, key: global, limit: 1000000/s }]\n")
	host, port, err := net.SplitHostPort(g.addr)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.xml")
	out, runErr := exec.Command(filepath.Join(bin, "h2spec"), "-h", host, "-p", port, "-o", "10", "-j", path).CombinedOutput()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v, %v\n%s", err, runErr, out)
	}
	var r report
	if err := xml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	total, passed := 0, 0
	for _, suite := range r.Suites {
		for _, c := range suite.Cases {
			total++
			name := suite.Package + " " + c.Name
			failed := c.Failure != nil || c.Error != nil || c.Skipped != nil
			switch {
			case !failed:
				passed++
				if excused[name] != "" {
					t.Errorf("%s passes: take it off the list", name)
				}
			case excused[name] == "":
				t.Errorf("%s failed", name)
			}
		}
	}
	if total != 145 || total-passed != len(excused) {
		t.Errorf("%d of %d passed, want all of 145 but %d", passed, total, len(excused))
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	t.Attr("S09", fmt.Sprintf("%d of %d in cleartext", passed, total))
}
