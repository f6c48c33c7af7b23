package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
)

const secretText = "correct-horse-battery-staple"

func withToken(t *testing.T, o Outside, token string) *File {
	t.Helper()
	f, err := o.Parse("/etc/gateway/gateway.yaml", []byte("upstream: http://a\nrules: []\nadmin: { token: "+token+" }\n"))
	if err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	return f
}

func TestSecretsComeFromWhereTheFileSays(t *testing.T) {
	o := outsideOf(
		map[string]string{"TOKEN": secretText, "CREDENTIALS_DIRECTORY": "/run/credentials/gateway.service"},
		map[string]string{
			"/etc/gateway/token": secretText + "\n", "/run/token": secretText, "/run/windows": secretText + "\r\n",
			"/run/credentials/gateway.service/token": secretText + "\n",
		},
	)
	for _, token := range []string{
		"{ env: TOKEN }", "{ file: token }", "{ file: /run/token }", "{ file: /run/windows }", "{ credential: token }", secretText, "'${TOKEN}'",
		"{ file: '/run/${NONE:-token}' }",
	} {
		f := withToken(t, o, token)
		if !f.Admin.Token.Is(secretText) || f.Admin.Token.Reveal() != secretText || !f.Admin.Token.IsSet() {
			t.Errorf("%s: %q", token, f.Admin.Token.Reveal())
		}
		if f.Admin.Addr != "127.0.0.1:9900" {
			t.Errorf("%s: the address is %s, want the default", token, f.Admin.Addr)
		}
		if f.Admin.Token.Stale(o) {
			t.Errorf("%s is stale at once", token)
		}
	}
	// One newline is cut, no more, and nothing else.
	o.ReadFile = func(string) ([]byte, fs.FileMode, error) { return []byte(secretText + "\n\n"), 0o600, nil }
	if _, err := o.Parse("f", []byte("upstream: http://a\nrules: []\nadmin: { token: { file: x } }\n")); err == nil || !strings.Contains(err.Error(), "line break") {
		t.Errorf("two newlines: %v", err)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	f := withToken(t, outsideOf(map[string]string{"TOKEN": secretText}, nil), "{ env: TOKEN }")
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		l := slog.New(h)
		l.Info("x", "token", f.Admin.Token, "pointer", &f.Admin.Token, "admin", f.Admin, "file", f)
	}
	asJSON, err := json.Marshal(map[string]any{"token": f.Admin.Token, "admin": f.Admin, "list": []Secret{f.Admin.Token}})
	if err != nil {
		t.Fatal(err)
	}
	type holder struct{ inside Admin } // whose methods fmt cannot call
	shown := fmt.Sprintf("%v %+v %#v %s %q %v %+v %#v %x %v", f.Admin.Token, f.Admin.Token, f.Admin.Token, f.Admin.Token, f.Admin.Token,
		f.Admin, &f.Admin, holder{f.Admin}, f.Admin.Token, f.Secrets()) + fmt.Sprintf("%+v %#v", *f, holder{f.Admin}) + log.String() + string(asJSON)
	if strings.Contains(shown, secretText[:7]) || strings.Contains(shown, fmt.Sprintf("%x", secretText)) {
		t.Errorf("it is in\n%s", shown)
	}
	if got := fmt.Sprintf("%v|%s|%#v|%v", f.Admin.Token, f.Admin.Token, f.Admin.Token, Secret{}); got != `***|***|"***"|` {
		t.Errorf("it prints as %s", got)
	}
}

func TestOnlyTheSecretIsTheSecret(t *testing.T) {
	s := withToken(t, outsideOf(nil, nil), secretText).Admin.Token
	for text, want := range map[string]bool{
		secretText: true, "": false, secretText[1:]: false, secretText + "\x00": false, strings.ToUpper(secretText): false, masked: false,
	} {
		if got := s.Is(text); got != want {
			t.Errorf("Is(%q) = %v", text, got)
		}
	}
	if (Secret{}).Is("") || (Secret{}).Is("x") {
		t.Error("some text is the secret where there is none")
	}
}

func TestTheFilesOfSecretsAreNamedAlsoWhenTheyCannotBeRead(t *testing.T) {
	o := outsideOf(map[string]string{"TOKEN": secretText, "CREDENTIALS_DIRECTORY": "/c"}, map[string]string{"/etc/gateway/t": secretText, "/c/t": secretText})
	for token, want := range map[string]string{"{ file: t }": "/etc/gateway/t", "{ credential: t }": "/c/t", "{ env: TOKEN }": "", secretText: ""} {
		if got := strings.Join(withToken(t, o, token).SecretFiles(), " "); got != want {
			t.Errorf("%s: %q, want %q", token, got, want)
		}
	}
	text := "upstream: http://a\nrules: []\nadmin: { token: { file: none } }\n"
	if got := o.SecretFiles("/etc/gateway/gateway.yaml", []byte(text)); len(got) != 1 || got[0] != "/etc/gateway/none" {
		t.Errorf("of a file that is not there: %q", got)
	}
	if got := o.SecretFiles("/etc/gateway/gateway.yaml", []byte(text+"nonsense: 1\n")); got != nil {
		t.Errorf("of a broken file: %q", got)
	}
}

func TestAChangedSecretIsStale(t *testing.T) {
	env, files := map[string]string{"TOKEN": secretText, "CREDENTIALS_DIRECTORY": "/c"}, map[string]string{"/etc/gateway/t": secretText, "/c/t": secretText}
	o := outsideOf(env, files)
	for place, change := range map[string]func(string){
		"{ env: TOKEN }":    func(v string) { env["TOKEN"] = v },
		"{ file: t }":       func(v string) { files["/etc/gateway/t"] = v },
		"{ credential: t }": func(v string) { files["/c/t"] = v },
	} {
		s := withToken(t, o, place).Admin.Token
		for _, step := range []struct {
			value string
			stale bool
		}{{secretText, false}, {secretText + "2", true}, {"", true}, {secretText, false}} {
			if change(step.value); s.Stale(o) != step.stale {
				t.Errorf("%s with %q: stale %v", place, step.value, !step.stale)
			}
		}
	}
	if withToken(t, o, secretText).Admin.Token.Stale(Outside{}) {
		t.Error("a secret of the file itself is stale")
	}
	s := withToken(t, o, "{ file: t }").Admin.Token
	if delete(files, "/etc/gateway/t"); !s.Stale(o) {
		t.Error("a secret whose file is gone is not stale")
	}
}

func TestSecretsThatOthersKnowAreWarnedOf(t *testing.T) {
	for _, tt := range []struct {
		token string
		mode  fs.FileMode
		want  string // of the warning, or "" for none
	}{
		{secretText, 0, `f.yaml:3:17: warning: token stands in this file: whoever reads the file has it`},
		{`"${TOKEN}"`, 0, ""},
		{"{ env: TOKEN }", 0, ""},
		{"{ env: SHORT }", 0, `f.yaml:3:17: warning: token is shorter than 16 characters: it can be guessed`},
		{"{ env: ENOUGH }", 0, ""},
		{"{ file: token }", 0o644, `f.yaml:3:25: warning: file "token" has the mode 0644: everybody on this machine can use it`},
		{"{ file: token }", 0o602, `f.yaml:3:25: warning: file "token" has the mode 0602: everybody on this machine can use it`},
		{"{ file: token }", 0o640, ""},
		{"{ file: token }", 0o600, ""},
		{"{ credential: token }", 0o644, ""}, // systemd's own doing
	} {
		o := outsideOf(map[string]string{
			"TOKEN": secretText, "SHORT": secretText[:15], "ENOUGH": secretText[:16], "CREDENTIALS_DIRECTORY": "/c",
		}, nil)
		o.ReadFile = func(string) ([]byte, fs.FileMode, error) { return []byte(secretText), tt.mode, nil }
		f, err := o.Parse("f.yaml", []byte("upstream: http://a\nrules: []\nadmin: { token: "+tt.token+" }\n"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range f.Warnings {
			if strings.Contains(w.Msg, "no rules") {
				continue
			}
			got = append(got, w.Error())
			if strings.Contains(w.Text(), secretText[:7]) {
				t.Errorf("%s: the warning shows it:\n%s", tt.token, w.Text())
			}
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s with mode %o: %q, want %q", tt.token, tt.mode, got, tt.want)
		}
	}
}

// A line with a secret written out is not shown, whatever else is wrong with it.
func TestLinesWithASecretAreNotShown(t *testing.T) {
	for _, text := range []string{
		"admin: { listen: nonsense, token: " + secretText + " }\n",
		"admin: { listen: nonsense, \"token\": '" + secretText + "' }\n",
		"admin:\n  token: " + secretText + ": x\n",
		"admin:\n  token : \"" + secretText + " x\"\n",
		"admin:\n  token:" + secretText + "\n",
		"admin:\n\ttoken: " + secretText + "\n",
		"admin: { tokn: 1, token: [" + secretText + "] }\n",
	} {
		_, err := Parse("f.yaml", []byte("upstream: http://a\nrules: []\n"+text))
		if err == nil || strings.Contains(err.Error(), secretText[:7]) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
