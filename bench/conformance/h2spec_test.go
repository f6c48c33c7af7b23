package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// excused are the cases of h2spec that the gateway fails, and why: decisions of
// Go's HTTP/2 that nothing in a handler changes.
var excused = map[string]string{
	"http2/6.5.3 Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE": "Go ends connections that set one thing twice in a frame",

	"http2/8.1.2.2 Sends a HEADERS frame that contains the connection-specific header field": "Go answers 400, as RFC 9113 8.1.1 allows, before the stream is reset",

	`http2/8.1.2.2 Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`: "the same",
}

// excusedInClear is one more in cleartext.
const excusedInClear = "http2/3.5 Sends invalid connection preface" // the port speaks HTTP/1 too: a 400 of that, and then the end

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
	const rules = "\nrules: [{ name: all, key: global, limit: 1000000/s }]\n"
	up := hello(t)
	clear, _ := h2spec(t, serve(t, "upstream: "+up+rules), func(name string) bool { return name == excusedInClear || excused[name] != "" })
	cert, key := selfSigned(t)
	secure := serve(t, "tls: { certificates: [{ cert: '"+cert+"', key: '"+key+"' }], redirect: false }\nupstream: "+up+rules)
	over, total := h2spec(t, secure, func(name string) bool { return excused[name] != "" }, "-t", "-k")
	t.Attr("S09", fmt.Sprintf("%d of %d over TLS; %d of 145 in cleartext", over, total, clear))
}

// h2spec runs it against g, fails for each case that does not end as may be, and
// returns how many passed of those there are.
func h2spec(t *testing.T, g gateway, mayFail func(name string) bool, args ...string) (passed, total int) {
	t.Helper()
	host, port, err := net.SplitHostPort(g.addr)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.xml")
	out, runErr := exec.Command(filepath.Join(bin, "h2spec"), append(args, "-h", host, "-p", port, "-o", "10", "-j", path)...).CombinedOutput()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v, %v\n%s", err, runErr, out)
	}
	var r report
	if err := xml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, suite := range r.Suites {
		for _, c := range suite.Cases {
			total++
			name := suite.Package + " " + c.Name
			switch failed := c.Failure != nil || c.Error != nil || c.Skipped != nil; {
			case !failed:
				passed++
				if mayFail(name) {
					t.Errorf("%s passes: take it off the list", name)
				}
			case !mayFail(name):
				t.Errorf("%s failed", name)
			}
		}
	}
	if total != 145 {
		t.Errorf("%d cases, want 145", total)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	return passed, total
}

// selfSigned returns files with a certificate of its own and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
