package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// goodTexts are the texts of files that can be read.
func goodTexts(t testing.TB) []string {
	t.Helper()
	paths, _ := filepath.Glob("testdata/good/*.yaml")
	var texts []string
	for _, path := range append(paths, "../gateway.example.yaml") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	return texts
}

func badQuoteOf(text string) *badQuote {
	s, _ := readSource(Outside{}, "gateway.yaml", []byte(text))
	return s.badQuote()
}

func TestAGoodFileHasNoBadQuote(t *testing.T) {
	odd := []string{
		"a: it's\nb: say \"no\nc: 5' 3\"\n", "a: |\n  \"\nb: >-\n  it's\n\n  'tis\nc: 'x'\n", "- - |\n    \"\n  - 'a'\n", "a: [it's, 'b', \"c\"]\n",
		"a: 'x\n  y' # it's\nb: {c: \"d\n  e\", f: g}\n", "a: plain\n  \"goes on\n  'still\nb: 1\n", "# it's \"odd\na: 'it''s' #'\nb: \"a\\\"b\"\n",
		"'a': 1\n\"b\": {'c':1, \"d\":2}\n", "a: &x 'y'\nb: *x\nc: !!str \"z\"\n", "a:\n- 'b'\n- \"c\": 'd'\n", "? 'a'\n: \"b\"\n", "a: b: 'c\n",
		"a: [b,\n  'c', # it's\n  d's]\n", "k: |2\n    'x\n  y\n", "a: '\n\n'\n",
	}
	for _, text := range append(goodTexts(t), odd...) {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err == nil {
			if q := badQuoteOf(text); q != nil {
				t.Errorf("line %d, byte %d, closed on %d, in\n%s", q.line, q.at, q.closed, text)
			}
		}
	}
}

// Whichever closing quote is left out, the place that is told is that of the quote
// which opens.
func TestAQuoteThatIsNotClosedIsToldWhereItOpens(t *testing.T) {
	const text = `# it's a file with "quotes"
listen: ":8080"
upstreams:
  "api": { servers: ["http://localhost:3000", 'http://localhost:3001'], health: "/healthz" }
routes:
  - match: '/api/**'
    upstream: "api"
reject:
  detail: |
    it's over, "they" say
  headers: { X-Why: "too many", "X-Then": 'wait' }
groups:
  vip:
    header.X-Key:
      - "a"
      - 'b # c'
rules:
  - name: "per-ip"
    match: [ "/a", '/b' ]
    limit: '100/m' # it's much
  - { name: 'b', key: "header.X-Key", limit: "5/m" }
  - name: c
    limit: "7/m"
`
	parse(t, text)
	opening := regexp.MustCompile(`"[^"]*"|'[^']*'`)
	tried := 0
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		for _, at := range opening.FindAllStringIndex(line, -1) {
			if i == 0 || strings.Contains(line, "say") {
				continue
			}
			tried++
			broken := line[:at[1]-1] + line[at[1]:]
			all := strings.Join(slices.Concat(lines[:i], []string{broken}, lines[i+1:]), "\n")
			_, err := Parse("gateway.yaml", []byte(all))
			if want := fmt.Sprintf("gateway.yaml:%d:%d: a quote opens here", i+1, at[0]+1); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v\nwant %s", broken, err, want)
			}
		}
	}
	if tried != 20 {
		t.Errorf("%d quotes were tried", tried)
	}
}

func FuzzBadQuote(f *testing.F) {
	for _, text := range goodTexts(f) {
		f.Add(text)
	}
	f.Add("a: 'x\n  y'\nb: |\n  '\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, _ := readSource(Outside{}, "gateway.yaml", []byte(text))
		if len(s.errs) > 0 {
			return
		}
		if q := s.badQuote(); q != nil {
			s.failQuote(q) // which must find its place
			if p := s.errs[0].Pos; p.Line != q.line || p.Col < 1 {
				t.Errorf("%v", p)
			}
		}
	})
}
