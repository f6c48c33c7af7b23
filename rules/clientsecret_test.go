package rules

import (
	"strings"
	"testing"
)

// What a group, a match or a header holds of clients' and servers' secrets is in no
// message about the line, whatever is wrong with it, nor in what is shown of it.
func TestAnErrorShowsNoSecretOfAClient(t *testing.T) {
	const canary = "Canary7d1f"
	for _, line := range []string{
		`groups: { a: { header.X-API-Key: ` + canary + `, ip: nonsense } }`,
		`groups: { a: { header.X-API-Key: [x1, "` + canary + `", '` + canary + `'], ip: nonsense } }`,
		`groups: { a: { ip: nonsense, "header.x-api-key": "a, ` + canary + `" } }`,
		`groups: { a: { ip: nonsense, cookie.session: ` + canary + ` } }  # why`,
		`groups: { a: { header.Authorization: "Bearer ` + canary + `", ip: nonsense } }`,
		`block: { header.X-Auth: ` + canary + `, hots: a }`,
		`block: [{ query.key: ` + canary + `, path: nonsense }, { query.access_token: ` + canary + ` }]`,
		`block: { header.Private-Token: ` + canary + `, hots: a }`,
		`groups: { a: { header.X-API-Key: "sha256:` + canary + `" } }`,
		"groups:\n  a:\n    header.X-API-Key:\n      - " + canary + "\n      # more\n\n      - [" + canary + "]",
		"groups:\n  a:\n    header.X-API-Key:   # theirs\n    - \"sha256:" + canary + "\"",
		"routes:\n- headers: { request: { set: { Api-Key: " + canary + ", X-Upstream-Auth: " + canary + ", Host: a } } }",
		"routes:\n- headers:\n    request:\n      set:\n        Api-Key: \"" + canary + "\\n\"",
	} {
		_, err := Parse("gateway.yaml", []byte(line+"\nupstreams: { u: http://a }\nrules: []\n"))
		if err == nil {
			t.Errorf("taken: %s", line)
			continue
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("of\n%s\nis shown\n%v", line, err)
		}
	}
}

// All else of the line is shown in its place.
func TestWhatIsNoSecretStaysInItsPlace(t *testing.T) {
	const line = `groups: { a: { header.X-API-Key: [kéy–1, "b c", "${KEY}x${DEF:-y}"], cookie.s: { file: keys }, header.X-Plan: free, ip: nonsense } }`
	const shown = `groups: { a: { header.X-API-Key: [*·*•*, "* *", "${KEY}*${DEF***}"], cookie.s: { file: keys }, header.X-Plan: free, ip: nonsense } }`
	s := &source{lines: strings.Split(line, "\n")}
	if got, _ := s.maskValues(1, line); got != shown || len(got) != len(line) {
		t.Errorf("shown as\n%s, want\n%s", got, shown)
	}
	for _, same := range []string{"key: header.X-API-Key", "missing: cookie.session", "- { name: a, key: [header.X-API-Key, ip], limit: 1/s }", "- a", ""} {
		if got, hidden := s.maskValues(1, same); got != same || hidden != nil {
			t.Errorf("%q is shown as %q", same, got)
		}
	}
}
