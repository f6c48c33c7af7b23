package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fileSystem is a set of files by path.
type fileSystem map[string]string

func (fs fileSystem) read(name string) ([]byte, error) {
	text, ok := fs[name]
	if !ok {
		return nil, errors.New("no such file or directory")
	}
	return []byte(text), nil
}

// compileWith parses and compiles a good file, with good group files.
func compileWith(t testing.TB, text string, files fileSystem, prev *Set) *Set {
	t.Helper()
	f, err := parse(t, text).ReadGroups(prev, files.read)
	if err != nil {
		t.Fatalf("groups refused:\n%v", err)
	}
	s, err := f.Compile(prev)
	if err != nil {
		t.Fatalf("does not compile:\n%v", err)
	}
	return s
}

// hashOf is how the file names a text of which it holds only the hash.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// group returns the group of that name.
func (s *Set) group(name string) *Group {
	for i := range s.File.Groups {
		if s.File.Groups[i].Name == name {
			return &s.File.Groups[i]
		}
	}
	return nil
}

func TestAGroupIsAnyOfItsAttributes(t *testing.T) {
	s := compileWith(t, `
upstream: http://a
groups:
  vip:
    header.x-api-key: [plain, "pre*", "*mid*", "`+hashOf("secret")+`"]
    cookie.plan: gold
    query.token: { file: tokens }
    ip: [192.0.2.0/24, "2001:db8::/32"]
    host: "*.vip.example.com"
rules: [{name: a, match: {group: vip}, limit: 1/s}]
`, fileSystem{"tokens": "t 1\n" + hashOf("t&2") + "\n"}, nil)
	g := s.group("vip")
	for _, tt := range []struct {
		what string
		in   bool
		set  func(f *Facts)
	}{
		{"nobody", false, func(*Facts) {}},
		{"a plain key", true, func(f *Facts) { f.Header["X-Api-Key"] = []string{"plain"} }},
		{"another case", false, func(f *Facts) { f.Header["X-Api-Key"] = []string{"Plain"} }},
		{"a prefix of a key", false, func(f *Facts) { f.Header["X-Api-Key"] = []string{"plai"} }},
		{"a key twice", false, func(f *Facts) { f.Header["X-Api-Key"] = []string{"plain", "plain"} }},
		{"a star at the end", true, func(f *Facts) { f.Header["X-Api-Key"] = []string{"prefix"} }},
		{"stars around", true, func(f *Facts) { f.Header["X-Api-Key"] = []string{"amidst"} }},
		{"a key of which the file has the hash", true, func(f *Facts) { f.Header["X-Api-Key"] = []string{"secret"} }},
		{"the hash itself", false, func(f *Facts) { f.Header["X-Api-Key"] = []string{hashOf("secret")} }},
		{"the bare hash", false, func(f *Facts) { f.Header["X-Api-Key"] = []string{hashOf("secret")[7:]} }},
		{"an empty key", false, func(f *Facts) { f.Header["X-Api-Key"] = []string{""} }},
		{"another header", false, func(f *Facts) { f.Header["X-Key"] = []string{"plain"} }},
		{"a cookie", true, func(f *Facts) { f.Header["Cookie"] = []string{"a=b; plan=gold"} }},
		{"a query value, decoded", true, func(f *Facts) { f.RawQuery = "x=1&token=t%201" }},
		{"a query value by its hash", true, func(f *Facts) { f.RawQuery = "token=t%262&token=no" }},
		{"an address", true, func(f *Facts) { f.Client = netip.MustParseAddr("192.0.2.255") }},
		{"a mapped address", true, func(f *Facts) { f.Client = netip.MustParseAddr("::ffff:192.0.2.1") }},
		{"an IPv6 address", true, func(f *Facts) { f.Client = netip.MustParseAddr("2001:db8:ffff::1") }},
		{"the next address", false, func(f *Facts) { f.Client = netip.MustParseAddr("192.0.3.0") }},
		{"a host", true, func(f *Facts) { f.Host = "a.vip.example.com" }},
	} {
		f := request("203.0.113.9")
		tt.set(f)
		for range 2 { // the second time what is remembered of the request answers
			if got := g.Has(f); got != tt.in {
				t.Errorf("%s: in the group is %v, want %v", tt.what, got, tt.in)
			}
		}
		if got := len(s.Match(f, nil)) > 0; got != tt.in {
			t.Errorf("%s: the rule applies is %v, want %v", tt.what, got, tt.in)
		}
	}
}

// A set of texts of every kind agrees with looking at one after the other.
func TestTextsOfAGroupAgreeWithANaiveModel(t *testing.T) {
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("ab/.-é")), 1, 4, -1)
	a, _ := ParseAttribute("header.X")
	rapid.Check(t, func(r *rapid.T) {
		b := newValueSetBuilder(a)
		var naive []func(string) bool
		for range rapid.IntRange(0, 30).Draw(r, "values") {
			text, after := letters.Draw(r, "text"), letters.Draw(r, "after")
			written, is := text, func(v string) bool { return v == text }
			switch rapid.SampledFrom([]string{"plain", "hash", "glob"}).Draw(r, "kind") {
			case "hash":
				written = hashOf(text)
			case "glob":
				written = text + "*" + after
				is = func(v string) bool {
					return len(v) >= len(text)+len(after) && strings.HasPrefix(v, text) && strings.HasSuffix(v, after)
				}
			}
			if err := b.add(written); err != nil {
				r.Fatalf("%q is refused: %v", written, err)
			}
			naive = append(naive, is)
		}
		set := b.done()
		f := request("192.0.2.1")
		for range 20 {
			f.Reset()
			v := letters.Draw(r, "value")
			f.Header = map[string][]string{"X": {v}}
			want := false
			for _, is := range naive {
				want = want || is(v)
			}
			if got := set.holds(f, a); got != want {
				r.Fatalf("%q is in the set: %v, want %v", v, got, want)
			}
		}
	})
}

// 100,000 prefixes agree with looking at one after the other.
func TestAddressesOfALargeGroupAgreeWithANaiveModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	prefixes := make([]netip.Prefix, 100_000)
	var text strings.Builder
	for i := range prefixes {
		var addr netip.Addr
		bits := 0
		if i%4 == 0 {
			addr, bits = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))}), 40+random.IntN(20)
		} else {
			addr, bits = netip.AddrFrom4([4]byte{byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))}), 18+random.IntN(15)
		}
		prefixes[i] = netip.PrefixFrom(addr, bits)
		fmt.Fprintln(&text, prefixes[i])
	}
	s := compileWith(t, "upstream: http://a\ngroups: { g: { ip: { file: cidrs } } }\nrules: [{name: a, match: {group: g}, limit: 1/s}]\n",
		fileSystem{"cidrs": text.String()}, nil)
	g := s.group("g")
	if n := g.Size(); n != len(prefixes) {
		t.Errorf("%d values, want %d", n, len(prefixes))
	}
	in := 0
	for i := range 400 {
		addr := netip.AddrFrom4([4]byte{byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))})
		if i%4 == 0 { // near one that is in it
			addr = prefixes[random.IntN(len(prefixes))].Addr().Next()
		}
		want := false
		for _, p := range prefixes {
			want = want || p.Contains(addr)
		}
		if want {
			in++
		}
		if got := g.Has(request(addr.String())); got != want {
			t.Errorf("%v is in the group: %v, want %v", addr, got, want)
		}
	}
	if in < 40 || in > 360 {
		t.Errorf("%d of 400 addresses are in the group; the test shows little", in)
	}
}

func TestAValueIsHashedOnceARequest(t *testing.T) {
	text := "upstream: http://a\ngroups:\n"
	for i := range 20 {
		text += fmt.Sprintf("  g%d: { header.X: %q }\n", i, hashOf(fmt.Sprint("secret", i)))
	}
	text += "rules:\n"
	for i := range 20 {
		text += fmt.Sprintf("  - { name: r%d, match: { group: g%d }, limit: 1/s }\n", i, i)
	}
	s := compile(t, text, nil)
	f := request("192.0.2.1")
	f.Header["X"] = []string{"secret7"}
	if hits := s.Match(f, nil); len(hits) != 1 || hits[0].Rule.Name != "r7" {
		t.Errorf("hits %v", hits)
	}
	if len(f.sums) != 1 {
		t.Errorf("%d hashes for one header that 20 groups look at, want 1", len(f.sums))
	}
	f.Reset()
	if len(f.sums) != 0 {
		t.Error("the hash outlives the request")
	}
}

// What a group looks at must reach the upstream, and its query values are
// somebody's key.
func TestWhatGroupsReadIsKnown(t *testing.T) {
	s := compile(t, `
upstream: http://a
groups: { g: { header.X-Plan: gold, cookie.plan: gold, query.key: abc } }
rules: [{name: a, limit: 1/s, match: {not: {header.X-Not: "1"}}, tiers: {g: {limit: 2/s}}}]
`, nil)
	if got := fmt.Sprint(s.HeadersRead(), s.QueryKeys()); got != "[Cookie X-Not X-Plan] [key]" {
		t.Errorf("got %s", got)
	}
}

func TestGroupFilesAreReadAsTheyAreWritten(t *testing.T) {
	values := "\ufeff# keys\r\n\r\n  a  \r\n\tb\t# the second\r\nc#d\r\n#e\r\nf g # h\r\nlast"
	s := compileWith(t, "upstream: http://a\ngroups: { g: { header.X: { file: k } } }\nrules: [{name: a, match: {group: g}, limit: 1/s}]\n", fileSystem{"k": values}, nil)
	g := s.group("g")
	for value, want := range map[string]bool{
		"a": true, "b": true, "c#d": true, "c": false, "e": false, "#e": false, "f g": true, "last": true, "keys": false, "": false,
	} {
		f := request("192.0.2.1")
		f.Header["X"] = []string{value}
		if got := g.Has(f); got != want {
			t.Errorf("%q is in the group: %v, want %v", value, got, want)
		}
	}
	if g.Size() != 5 {
		t.Errorf("%d values, want 5", g.Size())
	}
}

const fileOfGroups = "upstream: http://a\ngroups:\n  keys: { header.X: { file: keys.txt } }\n  nets: { ip: { file: nets.txt } }\nrules: [{name: a, match: {group: [keys, nets]}, limit: 1/s}]\n"

func TestBadGroupFilesAreRefusedWithTheirMessages(t *testing.T) {
	good := fileSystem{"/etc/gw/keys.txt": "a\n", "/etc/gw/nets.txt": "10.0.0.0/8\n"}
	for _, tt := range []struct {
		name, keys, nets string
		want             string
	}{
		{"missing", "-", "10.0.0.1\n", `/etc/gw/gateway.yaml:3:29: group "keys": file "/etc/gw/keys.txt": no such file or directory
   3 |   keys: { header.X: { file: keys.txt } }
     |                             ^^^^^^^^`},
		{"empty", "a\n", "", `/etc/gw/gateway.yaml:4:23: group "nets": file "/etc/gw/nets.txt" holds no value
   4 |   nets: { ip: { file: nets.txt } }
     |                       ^^^^^^^^  to have no such group, remove it here`},
		{"only comments", "\n# a\n", "10.0.0.1\n", `/etc/gw/gateway.yaml:3:29: group "keys": file "/etc/gw/keys.txt" holds no value
   3 |   keys: { header.X: { file: keys.txt } }
     |                             ^^^^^^^^  to have no such group, remove it here`},
		{"a bad address", "a\n", "10.0.0.1\n\n  10.0.0.999  # typo\n", `/etc/gw/nets.txt:3:3: not an address, a CIDR or "private"
   3 |   10.0.0.999  # typo
     |   ^^^^^^^^^^`},
		{"bad bits", "a\n", "10.0.0.0/33", `/etc/gw/nets.txt:1:10: the bits of a CIDR are a number from 0 to 32
   1 | 10.0.0.0/33
     |          ^^`},
		{"a hash that is none, not shown", "good\nsha256:topsecret\n", "10.0.0.1\n", `/etc/gw/keys.txt:2:8: a SHA-256 is 64 hexadecimal digits
     | printf %s "$key" | sha256sum prints them`},
		{"a CIDR among keys", "a\n10.0.0.0/8\n", "10.0.0.1\n", `/etc/gw/keys.txt:2:1: a CIDR, where text is meant
     | put it under ip:`},
		{"a control character", "a\nbc\x00d\n", "10.0.0.1\n", `/etc/gw/keys.txt:2:3: control character U+0000`},
		{"no text", "\xff\xfe\x00a", "10.0.0.1\n", `/etc/gw/keys.txt:1:1: this is no text in UTF-8`},
		{"a very long line", strings.Repeat("x", 5000) + "\n", "10.0.0.1\n", `/etc/gw/keys.txt:1:1: a value of 5000 bytes; the most is 4096`},
		{"two files", "-", "x\n", `/etc/gw/gateway.yaml:3:29: group "keys": file "/etc/gw/keys.txt": no such file or directory
   3 |   keys: { header.X: { file: keys.txt } }
     |                             ^^^^^^^^
/etc/gw/nets.txt:1:1: not an address, a CIDR or "private"
   1 | x
     | ^`},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			files := fileSystem{}
			for name, text := range map[string]string{"keys.txt": tt.keys, "nets.txt": tt.nets} {
				if text != "-" {
					files[path.Join("/etc/gw", name)] = text
				}
			}
			f, err := Parse("/etc/gw/gateway.yaml", []byte(fileOfGroups))
			if err != nil {
				t.Fatal(err)
			}
			before, err := f.ReadGroups(nil, good.read)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.ReadGroups(nil, files.read)
			if _, ok := err.(ErrorList); !ok || got != nil {
				t.Fatalf("got %v and a %T, want an ErrorList alone", got, err)
			}
			if err.Error() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", err, tt.want)
			}
			if _, err := before.Compile(nil); err != nil {
				t.Errorf("what was read before is spoiled: %v", err)
			}
			if _, err := f.Compile(nil); err == nil || !strings.Contains(err.Error(), "has not been read") {
				t.Errorf("a file whose groups were not read compiles: %v", err)
			}
		})
	}
}

func TestAFileOfNonsenseIsNotToldOfLineByLine(t *testing.T) {
	f := parse(t, fileOfGroups)
	_, err := f.ReadGroups(nil, fileSystem{"keys.txt": "a\n", "nets.txt": strings.Repeat("nonsense\n", 100_000)}.read)
	list, _ := err.(ErrorList)
	if len(list) != 11 || !strings.Contains(list[10].Error(), "more than 10 errors") {
		t.Errorf("%d errors, the last %v", len(list), list[max(0, len(list)-1)])
	}
}

func TestReloadKeepsTheSetsOfUnchangedGroupFiles(t *testing.T) {
	files := fileSystem{"keys.txt": "a\nb\n", "nets.txt": "10.0.0.0/8\n"}
	before := compileWith(t, fileOfGroups, files, nil)
	same := compileWith(t, fileOfGroups, files, before)
	if got := same.Change(before); !got.Empty() {
		t.Errorf("the same files change %v", got)
	}
	for _, name := range []string{"keys", "nets"} {
		if same.group(name).Members[0].values != before.group(name).Members[0].values {
			t.Errorf("the set of %s was made again", name)
		}
	}
	files["keys.txt"] = "a\nb\nc\n"
	after := compileWith(t, fileOfGroups, files, same)
	if after.group("nets").Members[0].values != before.group("nets").Members[0].values {
		t.Error("the set of nets was made again")
	}
	if got, want := after.Change(same).String(), `groups changed "keys" (2 → 3 listed)`; got != want {
		t.Errorf("change %s, want %s", got, want)
	}
	f := request("192.0.2.1")
	f.Header["X"] = []string{"c"}
	if before.group("keys").Has(f) || !after.group("keys").Has(f) {
		t.Error("the new key is not in the new set alone")
	}
	// The same file for another attribute is another set.
	other := compileWith(t, strings.Replace(fileOfGroups, "header.X", "header.Y", 1), files, after)
	if other.group("keys").Has(f) {
		t.Error("the values of one header are those of another")
	}
	added := compileWith(t, strings.Replace(fileOfGroups, "  nets: { ip: { file: nets.txt } }\n", "  nets: { ip: 10.0.0.0/8 }\n  more: { ip: 10.0.0.1 }\n", 1), files, after)
	if got, want := added.Change(after).String(), `groups added "more", changed "nets" (1 → 1 listed)`; got != want {
		t.Errorf("change %s, want %s", got, want)
	}
	if got, want := after.Change(added).String(), `groups changed "nets" (1 → 1 listed), removed "more"`; got != want {
		t.Errorf("change %s, want %s", got, want)
	}
}

func TestGroupsTakeNoMemoryOfARequest(t *testing.T) {
	s := compile(t, `
upstream: http://a
groups:
  nobody: { header.X-API-Key: ["zz*", "`+hashOf("other")+`"], ip: 203.0.113.0/24, cookie.plan: gold, query.key: none }
  hashed: { header.X-API-Key: "`+hashOf("a-key-of-a-usual-length-of-32-by")+`" }
rules:
  - { name: a, key: header.X-API-Key, known: [nobody, hashed], limit: 1/s, tiers: { nobody: { limit: 2/s }, hashed: { limit: 3/s } } }
  - { name: b, match: { not: { group: nobody } }, limit: 1/s, tiers: { hashed: { limit: 3/s } } }
`, nil)
	f := keyed("192.0.2.1", "a-key-of-a-usual-length-of-32-by")
	f.RawQuery, f.Header["Cookie"] = "a=1&key=x", []string{"plan=silver"}
	var hits []Hit
	once := func() {
		f.sums = f.sums[:0]
		if hits = s.Match(f, hits[:0]); len(hits) != 2 || hits[0].Plan.Tier != "hashed" || hits[1].Plan.Tier != "hashed" {
			t.Fatalf("hits %+v", hits)
		}
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("a request allocates %v times", n)
	}
}

func FuzzAGroupFileIsReadOrRefused(f *testing.F) {
	for _, seed := range []string{"a\n", "10.0.0.0/8 # x\n", hashOf("x"), "sha256:", "*\n**\n", "\xff", "\ufeff#\r\n a*b \r"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, addresses bool) {
		a := Attribute{kind: kindHeader, name: "X"}
		if addresses {
			a = Attribute{kind: kindIP}
		}
		b := newValueSetBuilder(a)
		errs := readLines(b, "file", text)
		if len(errs) > maxGroupErrors+1 {
			t.Errorf("%d errors", len(errs))
		}
		checkErrors(t, errs)
		if len(errs) > 0 || addresses {
			return
		}
		// Every value that is neither hashed nor has a star is in the set; what a
		// request sends is as net/http lets it through.
		set := b.done()
		facts := request("192.0.2.1")
		for line := range strings.Lines(text) {
			value := lineValue(strings.TrimRight(strings.TrimPrefix(line, "\ufeff"), "\r\n"))
			if value == "" || strings.HasPrefix(value, hashPrefix) || strings.Contains(value, "*") {
				continue
			}
			facts.Reset()
			facts.Header = map[string][]string{"X": {value}}
			if !set.holds(facts, a) {
				t.Errorf("%q is listed and not in the set", value)
			}
		}
	})
}

func BenchmarkGroup(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		var cidrs, keys, hashes strings.Builder
		for i := range n {
			fmt.Fprintf(&cidrs, "10.%d.%d.%d/32\n", i>>15&255, i>>7&255, 2*i&255) // with gaps, so that no two become one
			fmt.Fprintf(&keys, "key-%d\n", i)
			fmt.Fprintln(&hashes, hashOf(fmt.Sprint("key-", i)))
		}
		s := compileWith(b, "upstream: http://a\ngroups:\n  ip: { ip: { file: ip } }\n  text: { header.X: { file: text } }\n  hash: { header.X: { file: hash } }\nrules: []\n",
			fileSystem{"ip": cidrs.String(), "text": keys.String(), "hash": hashes.String()}, nil)
		f := request("10.0.0.8")
		f.Header["X"] = []string{"key-7"}
		for _, name := range []string{"ip", "text", "hash"} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				g := s.group(name)
				for b.Loop() {
					f.sums = f.sums[:0]
					if !g.Has(f) {
						b.Fatal("not in the group")
					}
				}
			})
		}
	}
}

// What is wrong in a group is told once, not again where the group is named.
func TestAnErrorInAGroupIsToldOnce(t *testing.T) {
	_, err := Parse("gateway.yaml", []byte(`upstream: http://a
groups: { premium: { header.X-Api-Key: [abc, ""], ip: 192.0.2.1 } }
rules: [{ name: a, limit: 1/s, key: header.X-Other, known: [premium, premum], tiers: { premium: { limit: 2/s } } }]
`))
	list, _ := err.(ErrorList)
	if len(list) != 2 || list[0].Pos.Line != 2 || list[1].Msg != `known: unknown group "premum"` {
		t.Errorf("got\n%v\nwant the empty value and the unknown group", err)
	}
}
