package rules

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected messages in testdata/bad")

// A bad file begins with the message it is refused with, each line after "# ".
func TestBadFilesAreRefusedWithTheirMessages(t *testing.T) {
	paths, _ := filepath.Glob("testdata/bad/*.yaml")
	if len(paths) < 60 {
		t.Fatalf("%d files in testdata/bad; something is missing", len(paths))
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				data = withMessage(t, filepath.Base(path), data)
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, _ := cutMessage(data)
			if diff := cmp.Diff(want, message(t, filepath.Base(path), data)); diff != "" {
				t.Errorf("message of %s (-want +got):\n%s", path, diff)
			}
		})
	}
}

// goldenOutside is what the files in testdata may use.
var goldenOutside = outsideOf(
	map[string]string{
		"RATE": "100/fortnight", "EMPTY": "", "BELL": "ding\a", "LATIN": "caf\xe9", "WORD": "hunter2", "NUMBER": "4000", "URL": "http://user:hunter2@host/",
		"GATEWAY_TOKEN": "0123456789abcdef0123456789abcdef",
	},
	map[string]string{
		"empty": "\n", "large": strings.Repeat("x", MaxSecret+1),
		"jwt.pem": signers()["RS256"].pem(), "jwt.jwks": jwks(signers()["ES256"].jwk()), "weak.jwks": jwks(signers()["weak"].jwk()),
		"enc.jwks": jwks(signers()["RS256"].jwk("use", "enc")), "jwt.private": "-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n",
	},
)

// outsideOf returns what a file may take from outside: these variables and files.
func outsideOf(env, files map[string]string) Outside {
	o := variables(env)
	o.ReadFile = func(path string) ([]byte, fs.FileMode, error) {
		text, ok := files[path]
		if !ok {
			return nil, 0, fs.ErrNotExist
		}
		return []byte(text), 0o600, nil
	}
	return o
}

// message parses data, which must be refused, and returns the error's text.
func message(t *testing.T, name string, data []byte) string {
	t.Helper()
	f, err := goldenOutside.Parse(name, data)
	if f != nil || err == nil {
		t.Fatalf("%s is accepted", name)
	}
	if _, ok := err.(ErrorList); !ok {
		t.Fatalf("the error is a %T, not an ErrorList", err)
	}
	return err.Error() + "\n"
}

// withMessage puts the message of data at its beginning. The message moves the
// lines it speaks of, so it takes more than one turn.
func withMessage(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	_, body := cutMessage(data)
	for range 4 {
		var b bytes.Buffer
		for line := range strings.Lines(message(t, name, data)) {
			b.WriteString("# " + line)
		}
		b.Write(body)
		data = b.Bytes()
	}
	return data
}

// cutMessage splits data after its leading comment.
func cutMessage(data []byte) (msg string, body []byte) {
	for bytes.HasPrefix(data, []byte("# ")) {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		msg += string(line[2:]) + "\n"
		data = rest
	}
	return msg, data
}

func TestGoodFilesAreAcceptedAndCompile(t *testing.T) {
	paths, _ := filepath.Glob("testdata/good/*.yaml")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := goldenOutside.Parse(filepath.Base(path), data)
		if err != nil {
			t.Errorf("%s is refused:\n%v", path, err)
			continue
		}
		f, err = f.ReadGroups(nil, func(name string) ([]byte, error) { return os.ReadFile("testdata/good/" + name) })
		if err != nil {
			t.Errorf("groups of %s are refused:\n%v", path, err)
			continue
		}
		if _, err := f.Compile(nil); err != nil {
			t.Errorf("%s does not compile:\n%v", path, err)
		}
	}
	if len(paths) < 8 {
		t.Errorf("%d files in testdata/good; something is missing", len(paths))
	}
}
