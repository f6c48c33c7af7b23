package rules

import (
	"net/http"
	"net/netip"
	"testing"
)

// factsOf returns the facts of a request as the front door makes them: from a
// method, a host, an escaped path, and header lines as pairs.
func factsOf(t testing.TB, method, host, path string, header ...string) *Facts {
	t.Helper()
	normal, err := NormalPath(path)
	if err != nil {
		t.Fatalf("NormalPath(%q): %v", path, err)
	}
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &Facts{
		Method: method, Host: host, Path: normal, RawPath: path, Header: h,
		Client: netip.MustParseAddr("192.0.2.1"),
	}
}

func TestResetKeepsScratchButNothingOfTheRequest(t *testing.T) {
	f := factsOf(t, "GET", "example.com", "/a", "X-Key", "k")
	f.RawQuery = "a=%zz"
	if f.ReadQuery() == nil {
		t.Fatal("ReadQuery of a broken query: no error")
	}
	f.buf = make([]byte, 10, 100)
	f.Reset()
	if f.Method != "" || f.Host != "" || f.Path != "" || f.RawPath != "" || f.RawQuery != "" || f.Header != nil || f.Client.IsValid() {
		t.Errorf("Reset left %+v", f)
	}
	if err := f.QueryError(); err != nil {
		t.Errorf("QueryError after Reset = %v", err)
	}
	if len(f.buf) != 0 || cap(f.buf) != 100 {
		t.Errorf("scratch has len %d, cap %d, want 0 and 100", len(f.buf), cap(f.buf))
	}
	f.buf = make([]byte, 0, 2*maxScratch)
	f.Reset()
	if cap(f.buf) > maxScratch {
		t.Errorf("Reset kept %d bytes of scratch", cap(f.buf))
	}
}
