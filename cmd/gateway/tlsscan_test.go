package main

import (
	"encoding/xml"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scan is what sslscan finds.
type scan struct {
	Protocols []struct {
		Type    string `xml:"type,attr"`
		Version string `xml:"version,attr"`
		Enabled int    `xml:"enabled,attr"`
	} `xml:"ssltest>protocol"`
	Compression struct {
		Supported int `xml:"supported,attr"`
	} `xml:"ssltest>compression"`
	Renegotiation struct {
		Supported int `xml:"supported,attr"`
		Secure    int `xml:"secure,attr"`
	} `xml:"ssltest>renegotiation"`
	Heartbleed []struct {
		Vulnerable int `xml:"vulnerable,attr"`
	} `xml:"ssltest>heartbleed"`
	Ciphers []struct {
		Version  string `xml:"sslversion,attr"`
		Bits     int    `xml:"bits,attr"`
		Name     string `xml:"cipher,attr"`
		Strength string `xml:"strength,attr"`
		Exchange int    `xml:"ecdhebits,attr"`
	} `xml:"ssltest>cipher"`
	Groups []struct {
		Name string `xml:"name,attr"`
		Bits int    `xml:"bits,attr"`
	} `xml:"ssltest>group"`
}

// faults are the findings that scanners rate medium or worse.
func (s *scan) faults() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, p := range s.Protocols {
		if p.Enabled == 1 && (p.Type == "ssl" || p.Version < "1.2") {
			add("%s %s is spoken", p.Type, p.Version)
		}
	}
	if s.Compression.Supported == 1 {
		add("compression")
	}
	if s.Renegotiation.Supported == 1 && s.Renegotiation.Secure == 0 {
		add("insecure renegotiation")
	}
	for _, h := range s.Heartbleed {
		if h.Vulnerable == 1 {
			add("heartbleed")
		}
	}
	for _, c := range s.Ciphers {
		strong := c.Strength == "strong" || c.Strength == "acceptable"
		aead := strings.Contains(c.Name, "GCM") || strings.Contains(c.Name, "CHACHA20")
		if !strong || !aead || c.Bits < 128 || c.Exchange < 224 {
			add("%s with %s", c.Name, c.Version)
		}
	}
	for _, g := range s.Groups {
		if g.Bits < 112 {
			add("group %s", g.Name)
		}
	}
	return all
}

// Row S40, by a scanner that others wrote.
func TestScannerFindsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keyPair(t, dir, "ec", time.Now().Add(1000*time.Hour), "api.example.com")
	cert, key := rsaSigned(t, "rsa.example.com")
	write(t, filepath.Join(dir, "rsa.pem"), cert)
	write(t, filepath.Join(dir, "rsa.key"), key)
	p := newPlaces(t)
	addr := fmt.Sprintf("127.0.0.1:%d", p.secure)
	path := filepath.Join(dir, "gateway.yaml")
	write(t, path, "listen: "+addr+"\nadmin: 127.0.0.1:0\nupstream: http://localhost:1\nrules: []\n"+
		"tls: { redirect: false, certificates: [{ cert: ec.pem, key: ec.key }, { cert: rsa.pem, key: rsa.key }] }\n")
	serveFileAt(t, path)
	faults, suites := 0, 0
	for _, name := range []string{"api.example.com", "rsa.example.com"} {
		out := filepath.Join(dir, name+".xml")
		cmd := exec.Command("sslscan", "--no-colour", "--xml="+out, "--sni-name="+name, "--timeout=30", "--connect-timeout=30", addr)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("sslscan (.ci/test installs it): %v\n%s", err, text)
		}
		data, err := os.ReadFile(out)
		do(t, err)
		var s scan
		do(t, xml.Unmarshal(data, &s))
		if len(s.Protocols) != 6 || len(s.Ciphers) < 6 || len(s.Groups) == 0 || len(s.Heartbleed) == 0 {
			t.Fatalf("%s: the scan is not whole:\n%s", name, data)
		}
		for _, f := range s.faults() {
			t.Errorf("%s: %s", name, f)
			faults++
		}
		suites += len(s.Ciphers)
	}
	if c, err := net.Dial("tcp", addr); err != nil {
		t.Errorf("after the scans: %v", err)
	} else {
		c.Close()
	}
	t.Attr("S40", fmt.Sprintf("%d findings of medium severity or worse by sslscan, with %d suites", faults, suites))
}

func TestScannersFindingsAreRead(t *testing.T) {
	t.Parallel()
	var s scan
	do(t, xml.Unmarshal([]byte(`<document><ssltest>
		<protocol type="ssl" version="3" enabled="1" /><protocol type="tls" version="1.1" enabled="1" /><protocol type="tls" version="1.2" enabled="1" />
		<compression supported="1" /><renegotiation supported="1" secure="0" /><heartbleed sslversion="TLSv1.2" vulnerable="1" />
		<cipher sslversion="TLSv1.2" bits="128" cipher="ECDHE-RSA-AES128-SHA" strength="acceptable" ecdhebits="253" />
		<cipher sslversion="TLSv1.2" bits="128" cipher="AES128-GCM-SHA256" strength="strong" />
		<cipher sslversion="TLSv1.2" bits="128" cipher="ECDHE-RSA-AES128-GCM-SHA256" strength="strong" ecdhebits="253" />
		<group name="secp160r1" bits="80" /></ssltest></document>`), &s))
	if f := s.faults(); len(f) != 8 {
		t.Errorf("%d faults are seen, want 8: %q", len(f), f)
	}
}
