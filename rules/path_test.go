package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestEverySpellingOfAPathIsThePathOrIsRefused(t *testing.T) {
	// What a rule for /admin makes of each: "same" is matched, "other" is
	// another path for us as for the upstream, anything else is answered 400.
	const same, other = "/admin", "other"
	for _, test := range []struct{ sent, want string }{
		{"/admin", same},
		{"/admin/", same},
		{"/admin//", same},
		{"//admin", same},
		{"///admin", same},
		{"/./admin", same},
		{"/admin/.", same},
		{"/../admin", same},
		{"/x/../admin", same},
		{"/x/y/../../admin", same},
		{"/admin/x/..", same},
		{"/admin/x/../", same},
		{"/%2e/admin", same},
		{"/%2E%2e/admin", same},
		{"/x/%2e%2e/admin", same},
		{"/x/.%2e/admin", same},
		{"/%61dmin", same},
		{"/%61%64%6d%69%6E", same},
		{"/ADMIN", other},
		{"/admin;x=1", other},
		{"/admin%3Bx=1", other},
		{"/;/admin", other},
		{"/admin%20", other},
		{"/admin ", other},
		{"/admin#f", other},
		{"/admin%23f", other},
		{"/admin%3Fa", other},
		{`/\admin`, other},
		{"/%5cadmin", other},
		{"/admin%5C", other},
		{"/admin%2f", other},
		{"/%2fadmin", other},
		{"/admin%252f", other},
		{"/%2561dmin", other},
		{"/adm%C3%ADn", other},
		{"/admin...", other},
		{"/.../admin", other},
		{"/..admin", other},
		{"/admin%0a", other},
		{"/%25252e/admin", other},
		{"/admin%00", "a NUL"},
		{"/admin\x00", "a NUL"},
		{"/x%00/../admin", "a NUL"},
		{"/admin%ff", "not UTF-8"},
		{"/%c0%ae%c0%ae/admin", "not UTF-8"},
		{"/x%c0%af/../admin", "not UTF-8"},
		{"/admin%", "broken percent code"},
		{"/admin%2", "broken percent code"},
		{"/admin%zz", "broken percent code"},
		{"/%u0061dmin", "broken percent code"},
		{"admin", `does not begin with "/"`},
		{"*", `does not begin with "/"`},
		{"/x//../admin", "meets an empty segment"},
		{"//../admin", "meets an empty segment"},
		{"/x/y//../admin", "meets an empty segment"},
		{"/x//y/../../admin", "meets an empty segment"},
		{"/x//./../admin", "meets an empty segment"},
		{"/x//%2e%2e/admin", "meets an empty segment"},
		{"/x%2f..%2fadmin", "hides a dot segment"},
		{"/x/..%2fadmin", "hides a dot segment"},
		{"/x%2F../admin", "hides a dot segment"},
		{"/.%2Fadmin", "hides a dot segment"},
		{"/x/..%5cadmin", "hides a dot segment"},
		{`/x/..\admin`, "hides a dot segment"},
		{`/x\..\admin`, "hides a dot segment"},
		{"/x/..;/admin", "hides a dot segment"},
		{"/x/..;a=b;c/admin", "hides a dot segment"},
		{"/x/..%3b/admin", "hides a dot segment"},
		{"/.;/admin", "hides a dot segment"},
		{"/x/%252e%252e/admin", "hides a dot segment"},
		{"/x/.%252E/admin", "hides a dot segment"},
		{"/x/..%252fadmin", "hides a dot segment"},
		{"/x%255c..%255cadmin", "hides a dot segment"},
		{"/x/%252e%252e%253b/admin", "hides a dot segment"},
		{"/x/..;/../admin", "hides a dot segment"},
	} {
		got, err := NormalPath(test.sent)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("NormalPath(%q): %v, want %s", test.sent, err, test.want)
			}
			if got != "" {
				t.Errorf("NormalPath(%q) = %q beside an error", test.sent, got)
			}
		case (got == same) != (test.want == same) || test.want != same && test.want != other:
			t.Errorf("NormalPath(%q) = %q, want %s", test.sent, got, test.want)
		}
	}
}

func TestNormalPath(t *testing.T) {
	for _, test := range []struct{ sent, want string }{
		{"", "/"},
		{"/", "/"},
		{"//", "/"},
		{"/.", "/"},
		{"/..", "/"},
		{"/../..", "/"},
		{"/a/..", "/"},
		{"/a/../", "/"},
		{"/a/b/", "/a/b"},
		{"/a//b", "/a/b"},
		{"/a/./b", "/a/b"},
		{"/a/b/..", "/a"},
		{"/a/../../b", "/b"},
		{"/a/..//b", "/b"},
		{"/a%20b", "/a b"},
		{"/a+b", "/a+b"},
		{"/%7Euser", "/~user"},
		{"/%C3%A9", "/é"},
		{"/e%CC%81", "/e\u0301"}, // bytes decide: this is no é
		{"/a%2Fb", "/a%2Fb"},
		{"/a%2fb", "/a%2Fb"},
		{"/a%2F%2fb", "/a%2F%2Fb"},
		{"/100%25", "/100%25"},
		{"/a%252Fb", "/a%252Fb"},
		{"/a%252fb", "/a%252fb"},
		{"/a;v=1/b", "/a;v=1/b"},
		{"/a%3Fb%23c", "/a?b#c"},
		{`/a\b`, `/a\b`},
		{"/.well-known/acme", "/.well-known/acme"},
		{"/a/..b/c..", "/a/..b/c.."},
		{"/a%2F%2Fb", "/a%2F%2Fb"},
		{"/a;..;b", "/a;..;b"},
	} {
		got, err := NormalPath(test.sent)
		if err != nil || got != test.want {
			t.Errorf("NormalPath(%q) = %q, %v; want %q", test.sent, got, err, test.want)
			continue
		}
		if again, err := NormalPath(got); err != nil || again != got {
			t.Errorf("NormalPath(%q), itself a normal form, = %q, %v", got, again, err)
		}
	}
}

func TestForwardedPathIsWhatWasSentUnlessDotsWereFolded(t *testing.T) {
	for _, test := range []struct{ sent, forward string }{
		{"/a", "/a"},
		{"//a/%62/", "//a/%62/"},
		{"/a%2fb;x", "/a%2fb;x"},
		{"/a/./b", "/a/b"},
		{"/a/x/../b%20c%2fd/", "/a/b%20c%2Fd"},
		{"/a/x/../%c3%a9%25", "/a/%C3%A9%25"},
		{"/x/../a?b", "/a%3Fb"},
		{"/..", "/"},
	} {
		p, err := ReadPath(test.sent)
		if err != nil {
			t.Errorf("ReadPath(%q): %v", test.sent, err)
			continue
		}
		if got := p.Forward(); got != test.forward {
			t.Errorf("ReadPath(%q).Forward() = %q, want %q", test.sent, got, test.forward)
		}
		if again, err := NormalPath(p.Forward()); err != nil || again != p.Normal {
			t.Errorf("NormalPath(%q), forwarded for %q, = %q, %v; want %q", p.Forward(), test.sent, again, err, p.Normal)
		}
	}
}

func TestCutPrefixLeavesTheBytesAsSent(t *testing.T) {
	const no = "-"
	for _, test := range []struct{ sent, prefix, want string }{
		{"/api/users", "/api", "/users"},
		{"/api", "/api", ""},
		{"//api", "/api", ""},
		{"/x/../api", "/api", ""},
		{"/api/", "/api", "/"},
		{"/api//", "/api", "//"},
		{"//api//users/", "/api", "//users/"},
		{"/%61pi/a%2fb", "/api", "/a%2fb"},
		{"/api/v1/x", "/api/v1", "/x"},
		{"/api//v1/x", "/api/v1", "/x"},
		{"/api/x/../y/", "/api", "/y"},
		{"/x/../api/a%20b", "/api", "/a%20b"},
		{"/apis", "/api", no},
		{"/", "/api", no},
		{"/x/../../apis/..", "/api", no},
		{"/API/x", "/api", no},
		{"/a/../b", "/", "/b"},
		{"//a/", "/", "//a/"},
	} {
		p, err := ReadPath(test.sent)
		if err != nil {
			t.Fatalf("ReadPath(%q): %v", test.sent, err)
		}
		got, ok := p.Cut(test.prefix)
		if !ok {
			got = no
		}
		if got != test.want {
			t.Errorf("ReadPath(%q).Cut(%q) = %q, want %q", test.sent, test.prefix, got, test.want)
		}
	}
}

func TestNormalPathsTakeNoMemory(t *testing.T) {
	for _, path := range []string{"/", "/v1/users/42/exports", "/v1/users/", "/.well-known/x", "/a/..b"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = NormalPath(path) }); n != 0 {
			t.Errorf("NormalPath(%q) allocates %v times", path, n)
		}
	}
}

// naiveHidden looks for hidden dot segments the long way round: under every
// combination of the readings that NormalPath has to reckon with.
func naiveHidden(sent string) bool {
	for mode := range 16 {
		bit := func(n int) bool { return mode>>n&1 == 1 }
		s := naiveDecode(sent, !bit(0), bit(1))
		if bit(3) {
			s = naiveDecode(s, !bit(0), bit(1))
		}
		for _, seg := range strings.Split(s, "/") {
			if bit(2) {
				seg, _, _ = strings.Cut(seg, ";")
			}
			if seg == "." || seg == ".." {
				return true
			}
		}
	}
	return false
}

// naiveDecode decodes once; a separator that is only one to some becomes "/", or
// a letter that says nothing.
func naiveDecode(s string, slashIsText, backslash bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c, coded := s[i], false
		if c == '%' && i+2 < len(s) {
			if d, ok := percentByte(s[i:]); ok {
				c, coded = d, true
				i += 2
			}
		}
		switch {
		case c == '/' && coded && slashIsText:
			c = 'x'
		case c == '\\' && backslash:
			c = '/'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// withoutDots drops the segments that are dot segments for everybody.
func withoutDots(sent string) string {
	segs := strings.Split(sent, "/")
	return strings.Join(slices.DeleteFunc(segs, func(seg string) bool { return isDots(naiveDecode(seg, true, false)) }), "/")
}

func FuzzNormalPath(f *testing.F) {
	for _, s := range []string{
		"/", "/a/b", "/a//../b", "/x%2f..%2fadmin", "/..;/a", "/%252e%252e/", "/%25%32%65", `/a\..\b`, "/a/%2e%2E/b",
		"/é", "/%ff", "/%00", "/a%", "//", "/a%2F/../b", "/..%3bx", "/%5c.%5c", "/%255c..",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		p, err := ReadPath(sent)
		if err != nil {
			if errors.Is(err, errPathHidden) && !naiveHidden(sent) {
				t.Fatalf("%q hides no dot segment", sent)
			}
			return
		}
		again, err := ReadPath(p.Normal)
		if err != nil || again.Normal != p.Normal || again.Dots {
			t.Fatalf("ReadPath(%q) = %+v, and of that %+v, %v", sent, p, again, err)
		}
		if naiveHidden(p.Normal) {
			t.Fatalf("NormalPath(%q) = %q, which holds a dot segment", sent, p.Normal)
		}
		if naiveHidden(withoutDots(sent)) {
			t.Fatalf("NormalPath(%q) = %q lets a hidden dot segment pass", sent, p.Normal)
		}
		if strings.Contains(p.Normal, "//") || p.Normal[0] != '/' || len(p.Normal) > 1 && strings.HasSuffix(p.Normal, "/") {
			t.Fatalf("NormalPath(%q) = %q", sent, p.Normal)
		}
		if fwd, err := ReadPath(p.Forward()); err != nil || fwd.Normal != p.Normal || fwd.Dots {
			t.Fatalf("ReadPath(%q).Forward() = %q, read as %+v, %v", sent, p.Forward(), fwd, err)
		}
		for prefix := p.Normal; prefix != ""; prefix = prefix[:strings.LastIndexByte(prefix, '/')] {
			rest, ok := p.Cut(prefix)
			normal, err := NormalPath(rest)
			if want := strings.TrimPrefix(p.Normal, prefix); !ok || err != nil || normal != max(want, "/") {
				t.Fatalf("ReadPath(%q).Cut(%q) = %q, %v, which is %q, %v", sent, prefix, rest, ok, normal, err)
			}
		}
	})
}
