package rules

import (
	"net/http"
	"net/netip"
	"testing"
)

func affine(t *testing.T, hash string) *Set {
	t.Helper()
	f, err := Parse("test.yaml", []byte(`
upstreams: { api: { servers: [http://a, http://b], balance: { hash: `+hash+` } }, web: http://c }
routes: [{ match: "/users/:id/**", upstream: api }, { upstream: web }]
rules: []
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asked(path, query, client string, header ...string) *Facts {
	f := &Facts{Method: "GET", Host: "example.com", Path: path, RawPath: path, RawQuery: query, Client: netip.MustParseAddr(client), Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		f.Header.Add(header[i], header[i+1])
	}
	return f
}

func TestAffinityIsOfTheAttributeAndElseOfTheAddress(t *testing.T) {
	for hash, same := range map[string][2]*Facts{
		"header.X-Key": {asked("/users/1", "", "192.0.2.1", "X-Key", "k"), asked("/users/2", "", "192.0.2.2", "X-Key", "k")},
		"cookie.sid":   {asked("/users/1", "", "192.0.2.1", "Cookie", "sid=k"), asked("/users/2", "", "192.0.2.2", "Cookie", "a=b; sid=k")},
		"query.q":      {asked("/users/1", "q=k", "192.0.2.1"), asked("/users/2", "x=y&q=%6b", "192.0.2.2")},
		"path.id":      {asked("/users/7", "", "192.0.2.1"), asked("/users/7/x", "", "192.0.2.2")},
		"ip":           {asked("/users/1", "", "192.0.2.1"), asked("/users/2", "a=b", "192.0.2.1")},
		"ip/24":        {asked("/users/1", "", "192.0.2.1"), asked("/users/2", "a=b", "192.0.2.77")},
	} {
		route := affine(t, hash).Routes[0]
		other := asked("/users/8", "q=l", "192.0.3.9", "X-Key", "l", "Cookie", "sid=l")
		if a, b, c := route.Affinity(same[0]), route.Affinity(same[1]), route.Affinity(other); a != b || a == c || a == 0 {
			t.Errorf("%s: got %x and %x for the same, %x for another", hash, a, b, c)
		}
	}
	route := affine(t, "header.X-Key").Routes[0]
	first, again := route.Affinity(asked("/users/1", "", "192.0.2.1")), route.Affinity(asked("/users/2", "", "192.0.2.1", "X-Key", " "))
	if first != again || first == route.Affinity(asked("/users/1", "", "192.0.2.2")) {
		t.Error("without the header the address does not decide")
	}
	if got := affine(t, "header.X-Key").Routes[1].Affinity(asked("/", "", "192.0.2.1")); got != 0 {
		t.Errorf("a pool that hashes nothing: %x", got)
	}
}

func TestAffinityIsTheSameInEveryProcess(t *testing.T) {
	route := affine(t, "header.X-Key").Routes[0]
	if got := route.Affinity(asked("/users/1", "", "192.0.2.1", "X-Key", "k")); got != 0xaf63e64c8601fd8a {
		t.Errorf("got %#x: gateways of two versions side by side would send a key to two servers", got)
	}
}

func TestWhatIsHashedReachesTheUpstream(t *testing.T) {
	if got := affine(t, "header.X-Key").HeadersRead(); len(got) != 1 || got[0] != "X-Key" {
		t.Errorf("headers read: %q", got)
	}
}
