package rules

import (
	"strings"
	"testing"
)

// attribute parses a name that is good.
func attribute(t testing.TB, text string) Attribute {
	t.Helper()
	a, err := ParseAttribute(text)
	if err != nil {
		t.Fatalf("ParseAttribute(%q): %v", text, err)
	}
	return a
}

func TestAttributesOfOneMeaningAreEqual(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"ip", "ip"}, {"ip/48", "ip/48"}, {"ip/1", "ip/1"}, {"ip/128", "ip/128"}, {"host", "host"}, {"method", "method"},
		{"path", "path"}, {"path.id", "path.id"}, {"path.user_id", "path.user_id"}, {"path.user-id", "path.user-id"},
		{"header.X-API-Key", "header.X-Api-Key"}, {"header.x-api-key", "header.X-Api-Key"}, {"header.Authorization", "header.Authorization"},
		{"query.key", "query.key"}, {"query.Key", "query.Key"}, {"query.a.b[]", "query.a.b[]"}, {"query.é", "query.é"},
		{"route", "route"}, {"basic.username", "basic.username"}, {"body.username", "body.username"}, {"body.User.E-Mail", "body.user.e-mail"},
		{"body.É", "body.é"}, {"body._csrf", "body._csrf"}, {"body.\u212aey", "body.key"},
		{"cookie.sid", "cookie.sid"}, {"cookie.__Host-sid", "cookie.__Host-sid"}, {"global", "global"},
		{"jwt.sub", "jwt.sub"}, {"jwt.https://example.com/plan", "jwt.https://example.com/plan"}, {"jwt.realm_access.x", "jwt.realm_access.x"},
	} {
		a := attribute(t, test.text)
		if a.String() != test.want {
			t.Errorf("ParseAttribute(%q) = %s, want %s", test.text, a, test.want)
		}
		if again := attribute(t, a.String()); again != a {
			t.Errorf("%s, written and read again, is %s", a, again)
		}
	}
	if attribute(t, "query.key") == attribute(t, "query.Key") {
		t.Error("query.key == query.Key")
	}
}

func TestBadAttributesSayWhatToWrite(t *testing.T) {
	for _, test := range []struct {
		text     string
		off, len int
		want     string
	}{
		{"", 0, 0, "unknown attribute"},
		{"Ip", 0, 2, `did you mean "ip"?`},
		{"hots", 0, 4, `did you mean "host"?`},
		{"metod", 0, 5, `did you mean "method"?`},
		{"globel", 0, 6, `did you mean "global"?`},
		{"client_ip", 0, 9, "write ip"},
		{"remote_addr", 0, 11, "write ip"},
		{"$remote_addr", 0, 12, "write ip"},
		{"user", 0, 4, "use ip, host"},
		{"header", 0, 6, "write header.<name>"},
		{"query", 0, 5, "write query.<name>"},
		{"header:X-API-Key", 0, 16, "write header.X-API-Key"},
		{"header[X-API-Key]", 0, 17, "write header.X-API-Key"},
		{"Header.X-API-Key", 0, 16, "write header.X-API-Key"},
		{"headers.X-API-Key", 0, 17, "write header.X-API-Key"},
		{"heder.X-API-Key", 0, 15, `did you mean "header.X-API-Key"?`},
		{"param.key", 0, 9, "write query.key"},
		{"ip.x", 0, 4, "unknown attribute"},
		{"ip/", 3, 0, "from 1 to 128"},
		{"ip/0", 3, 1, "write global"},
		{"ip/129", 3, 3, "from 1 to 128"},
		{"ip/064", 3, 3, "from 1 to 128"},
		{"ip/x", 3, 1, "from 1 to 128"},
		{"path.", 5, 0, "name of a path segment"},
		{"path.1", 5, 1, "name of a path segment"},
		{"path.a b", 6, 1, "name of a path segment"},
		{"header.", 7, 0, "write header.<Name>"},
		{"header.X Key", 8, 4, "no such letter"},
		{"header.X_API_Key", 7, 9, "write header.X-API-Key"},
		{"header.host", 0, 11, "write host"},
		{"query.", 6, 0, "write query.<name>"},
		{"cookie.a b", 8, 1, "no such letter"},
		{"cookie.", 7, 0, "write cookie.<name>"},
		{"query.a\x00", 7, 1, "no such letter"},
		{"body", 0, 4, "write body.<name>"},
		{"body.", 5, 0, "write body.<field>"},
		{"body.user[email]", 9, 1, "write body.user.email"},
		{"body.tags[]", 9, 1, "write body.tags"},
		{"body:username", 0, 13, "write body.username"},
		{"bdy.username", 0, 12, `did you mean "body.username"?`},
		{"form.username", 0, 13, "write body.username"},
		{"json.user.name", 0, 14, "write body.user.name"},
		{"body..a", 0, 7, "1 to 8 names"},
		{"body.a.", 0, 7, "1 to 8 names"},
		{"body.a.b.c.d.e.f.g.h.i", 0, 22, "1 to 8 names"},
		{"body.a b", 6, 1, "no such letter"},
		{"body.a&b", 6, 1, "no such letter"},
		{"basic", 0, 5, "write basic.username"},
		{"basic.user", 0, 10, "write basic.username"},
		{"basic.usrname", 0, 13, `did you mean "basic.username"?`},
		{"rout", 0, 4, `did you mean "route"?`},
		{"jwt", 0, 3, "write jwt.<name>"},
		{"jwt.", 4, 0, "write jwt.<name>"},
		{"jwt:sub", 0, 7, "write jwt.sub"},
		{"claim.sub", 0, 9, "write jwt.sub"},
	} {
		a, err := ParseAttribute(test.text)
		if err == nil {
			t.Errorf("ParseAttribute(%q) = %s, want an error", test.text, a)
			continue
		}
		if err.Off != test.off || err.Len != test.len || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParseAttribute(%q): %d+%d %v; want %d+%d %q", test.text, err.Off, err.Len, err, test.off, test.len, test.want)
		}
	}
}

func TestAttributesKnowWhoChoosesThem(t *testing.T) {
	for text, chosen := range map[string]bool{
		"ip": false, "ip/48": false, "host": false, "method": false, "path": false, "path.id": false, "global": false,
		"header.X": true, "query.x": true, "cookie.x": true, "body.x": true, "basic.username": true, "route": false,
	} {
		a := attribute(t, text)
		if got := a.ClientChosen(); got != chosen {
			t.Errorf("%s is chosen by the client: %v", text, got)
		}
		if got := a.IsIP(); got != strings.HasPrefix(text, "ip") {
			t.Errorf("%s is an address: %v", text, got)
		}
		if got := a.PathName(); (got == "id") != (text == "path.id") {
			t.Errorf("%s names the segment %q", text, got)
		}
	}
}

func TestMissingPolicies(t *testing.T) {
	for _, text := range []string{"ip", "skip", "reject", "host", "header.X-Key", "ip/24", "path.id", "global", "body.x", "basic.username", "route"} {
		m, err := ParseMissing(text)
		if err != nil || m.String() != text {
			t.Errorf("ParseMissing(%q) = %s, %v", text, m, err)
		}
		if got := m.Skips(); got != (text == "skip") {
			t.Errorf("%s skips: %v", text, got)
		}
		if a, ok := m.Attribute(); ok == (text == "skip" || text == "reject") || ok && a.String() != text {
			t.Errorf("%s stands for %s, %v", text, a, ok)
		}
	}
	for text, want := range map[string]string{
		"skipp": `did you mean "skip"?`, "deny": "unknown attribute", "rejct": `did you mean "reject"?`, "": "unknown",
	} {
		if m, err := ParseMissing(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseMissing(%q) = %s, %v; want %q", text, m, err, want)
		}
	}
}
