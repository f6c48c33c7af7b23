package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func readExample(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../gateway.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// exampleOutside has what the example names.
var exampleOutside = outsideOf(nil, map[string]string{
	"redis-password": "s3cret", "admin-token": "0123456789abcdef\n", "jwt-secret": "0123456789abcdef0123456789abcdef\n",
	"keys.json": jwks(signers()["ES256"].jwk()), "issuer.pem": signers()["RS256"].pem(),
})

func TestTheExampleIsGood(t *testing.T) {
	f, err := Parse("gateway.example.yaml", []byte(readExample(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Compile(nil); err != nil {
		t.Fatal(err)
	}
}

func TestTheExampleHasEverySetting(t *testing.T) {
	text := readExample(t)
	for part, n := range settings {
		for _, name := range n {
			if !regexp.MustCompile(`(^|[^a-z_.])` + name + `:`).MatchString(text) {
				t.Errorf("setting %q of a %s is not in gateway.example.yaml", name, part)
			}
		}
	}
	for _, c := range []choice{algorithms, balances, hosts, transports, routePriorities, rateLimitHeaders, logFormats, logAccess} {
		for _, word := range c {
			if !strings.Contains(text, word) {
				t.Errorf("value %q is not in gateway.example.yaml", word)
			}
		}
	}
}

// TestEveryCommentedSettingOfTheExampleCanBeSwitchedOn takes the comment sign
// off one setting at a time.
func TestEveryCommentedSettingOfTheExampleCanBeSwitchedOn(t *testing.T) {
	lines := strings.Split(readExample(t), "\n")
	commented := regexp.MustCompile(`^(\s*)# ([a-z_]+: .*)$`)
	n, schema := 0, compiledSchema(t)
	for i, line := range lines {
		m := commented.FindStringSubmatch(line)
		if m == nil || !isSetting(m[2][:strings.Index(m[2], ":")]) {
			continue
		}
		n++
		changed := append([]string(nil), lines...)
		changed[i] = m[1] + m[2]
		f, err := exampleOutside.Parse("gateway.example.yaml", []byte(strings.Join(changed, "\n")))
		if err == nil {
			_, err = f.Compile(nil)
		}
		if err != nil {
			t.Errorf("line %d switched on:\n%v", i+1, err)
		}
		if err := schemaVerdict(schema, []byte(strings.Join(changed, "\n"))); err != nil {
			t.Errorf("line %d switched on is refused by the schema:\n%v", i+1, err)
		}
	}
	if n < 18 {
		t.Errorf("only %d commented settings found", n)
	}
}
