package rules

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// bothWays reads data by itself and by yaml.v3, and returns whether the first could.
func bothWays(t *testing.T, data []byte) bool {
	t.Helper()
	o := Outside{Env: func(name string) (string, bool) { return "v" + name, name != "UNSET" }}
	first, text := readSource(o, "f.yaml", data)
	if len(first.errs) > 0 {
		return false
	}
	got := (&converter{source: first}).readPlain()
	if got == nil {
		if len(first.errs) > 0 {
			t.Fatalf("given up with errors: %v", first.errs)
		}
		return false
	}
	second, _ := readSource(o, "f.yaml", data)
	want := decodeAny(second, text)
	if !got.equal(want) {
		t.Fatalf("%q\nread plainly: %s\nby yaml.v3:   %s\n%v", data, dump(got), dump(want), second.errs)
	}
	if !reflect.DeepEqual(first.errs, second.errs) {
		t.Fatalf("%q\nread plainly: %v\nby yaml.v3:   %v", data, first.errs, second.errs)
	}
	return true
}

// equal reports whether n and m are the same tree, to the last place.
func (n *node) equal(m *node) bool {
	if n == nil || m == nil {
		return n == m
	}
	a, b := *n, *m
	a.keys, a.items, b.keys, b.items = nil, nil, nil, nil
	return reflect.DeepEqual(a, b) && slices.EqualFunc(n.keys, m.keys, (*node).equal) && slices.EqualFunc(n.items, m.items, (*node).equal)
}

// dump writes a tree with all that is in it.
func dump(n *node) string {
	if n == nil {
		return "nothing"
	}
	var b strings.Builder
	var write func(*node)
	write = func(n *node) {
		b.WriteString(quote(n.text))
		b.WriteString(Pos{Line: n.line(), Col: n.col()}.String())
		for _, v := range []int{int(n.shape), int(n.word), int(n.size)} {
			b.WriteByte(byte('0' + v%10))
		}
		b.WriteByte('{')
		for i, item := range n.items {
			if n.shape == mapping {
				write(n.keys[i])
				b.WriteByte(':')
			}
			write(item)
			b.WriteByte(' ')
		}
		b.WriteByte('}')
	}
	write(n)
	return b.String()
}

// plainFiles are read by the plain reader, and each form of it once.
var plainFiles = []string{
	"a: b\n",
	"---\na: b",
	"# c\n\na: b # c\n  # c\nc: 1\n",
	"rules:\n  - { name: a, match: /x/:id/**, limit: 100/m }\n  - {name: b, key: [ip, header.X-Key], burst: 5, dry_run: true}\n",
	"rules:\n- name: a\n  limit: 5 per 15 minutes\n-  name: b\n   key:\n   - ip\n   - header.X\n",
	"a:\n  b:\n    c: [x, [y, z], {k: v}]\n    d: {}\n  e: []\nf: ''\n",
	"a: [ b,\n  c, # d\n\n  e\n  ]\nb: { c: d,\n e: f }\n",
	"a: \"b: c # d\"\n'e f': 'g'\n\"h\": {\"i\": j, 'k': \"l\"}\n",
	"a: http://x:80/y?z#w\nb: [http://x:80/y, GET /z]\n",
	"a: 1\nb: 1.5\nc: 0x10\nd: -3\ne: 1_000\nf: 2020-01-01\ng: .5\nh: +1\ni: 0\nj: 1e3\nk: true\nl: No\nm: 12345678901234567890\nn: 1:2\n",
	"a: ${X}\nb: [$$, \"${X:-y}\"]\nc: x${UNSET}\nd: ${X\n",
	"a:\n-\n  b: c\n- - d\n  - e\n-\n  - f\n",
	"a: x-y\n",
	"  \n#\na:  b   \n",
	"a: b\r\nc: d\r\n",
}

func TestPlainFilesAreReadAlike(t *testing.T) {
	for _, text := range plainFiles {
		if !bothWays(t, []byte(text)) {
			t.Errorf("%q is left to yaml.v3", text)
		}
	}
}

// What is not plain, or a mistake, is for yaml.v3.
func TestWhatIsNotPlainIsLeftToYAML(t *testing.T) {
	for _, text := range []string{
		"", "a", "- a\n", " a: b\n", "a:\n", "a: ~\n", "a: null\n", "a: b\na: c\n", "a: &x b\n", "a: *x\n", "a: !!str b\n", "a: |\n  b\n", "a: b\n  c\n",
		"a: \"b\\n\"\n", "a: 'b''c'\n", "a: [b\n", "a: [b\nc]\n", "a: b\n---\nc: d\n", "a: b\n...\n", "... b: c\n", "%YAML 1.2\n---\na: b\n", "a: é\n", "a:\tb\n", "? a\n: b\n",
		"<<: a\n", "a: [b: c]\n", "a: {b}\n", "a: [${X}]\n", "a: {b: c, b: d}\n", "a: {b: }\n", "a: [,]\n", "a: [b,,c]\n", "a: b:\n", "a: - b\n", "a: b\n c: d\n", "a:\n  b: c\n d: e\n",
		"a: {b: c}}\n", "a: {b: c} d\n", "a: 'b' c\n", "a: @b\n", "a: `b\n", "a: %b\n", "null: a\n", "a: {b:c}\n", "a: [b]#c\n", "a:\n  b\n", "a: b\n- c\n", "a : b\n",
		"a: " + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + "\n",
	} {
		if bothWays(t, []byte(text)) {
			t.Errorf("%q is not left to yaml.v3", text)
		}
	}
}

// Nearly all files that there are to try it with are plain.
func TestTheFilesOfTheTestsAreReadAlike(t *testing.T) {
	plain, all := 0, 0
	for _, pattern := range []string{"../gateway.example.yaml", "../cmd/gateway/*.yaml", "testdata/*.yaml", "testdata/*/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if all++; bothWays(t, data) {
				plain++
			}
		}
	}
	if all < 200 || plain < all/2 {
		t.Errorf("%d of %d files are plain", plain, all)
	}
	t.Logf("%d of %d files are plain", plain, all)
}

// Whatever is read plainly is what yaml.v3 reads, to the last place.
func FuzzPlainYAML(f *testing.F) {
	for _, text := range plainFiles {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { bothWays(t, data) })
}

// Texts made of what YAML is made of, in any order.
func TestAnyTextIsReadAlikeOrLeft(t *testing.T) {
	pieces := []string{
		"a", "b", "name", "/x/:id", "1", "10/m", "true", "~", ".5", "-", "- ", ": ", ":", ", ", ",", "{ ", "}", "[", "]", "{", " }",
		"\n", "\n", "\n  ", "\n  ", "\n- ", "\n  - ", "\n    ", "\n# c\n", " # c", "#", "\"q\"", "'q'", "\"q: r\"", "a: ", "b: ", "c: b", "\nd: ", "\ne:\n  ", "\nf: b",
		"- a: b\n  c: d", "{ a: b }", "[a, b]", " ", "${X}", "$$", "---\n", "...", "&x ", "*x", "|", "? ", "!!str ", "\t", "é", "a-b", "a  b", "=", "<<", "@", "%", "\r\n", "null",
	}
	random := rand.New(rand.NewPCG(1, 2))
	plain := 0
	for range 30_000 {
		var b strings.Builder
		if random.IntN(4) > 0 {
			b.WriteString("a: ")
		}
		for range 1 + random.IntN(9) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		if bothWays(t, []byte(b.String())) {
			plain++
		}
	}
	if plain < 1000 {
		t.Errorf("only %d texts were plain", plain)
	}
	t.Logf("%d texts were plain", plain)
}

func TestNamesOfRulesAreThoseOfThePattern(t *testing.T) {
	for _, text := range []string{
		"", "a", "0", "-", "_", "a-", "a_b-c", "A", "aB", "a b", "é", "a\n", strings.Repeat("x", 63), strings.Repeat("x", 64), "9-9", "a.b", "a\x00", "-a", "_a",
	} {
		if got, want := isRuleName(text), ruleName.MatchString(text); got != want {
			t.Errorf("%q: %v, the pattern says %v", text, got, want)
		}
	}
}
