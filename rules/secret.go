package rules

import (
	"crypto/sha256"
	"crypto/subtle"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// MaxSecret is the most bytes of a secret.
const MaxSecret = 64 << 10

// credentialsDirectory is the variable in which systemd says where the
// credentials of a unit are.
const credentialsDirectory = "CREDENTIALS_DIRECTORY"

// Secret is a value that nobody is shown: it prints as ***, however it is
// printed. The zero Secret is none. It is immutable and safe for concurrent use.
type Secret struct {
	// Source is how the file says it: "file", "env" or "credential"; "" when the
	// value itself is written there.
	Source string
	// Pos is where it is in the file.
	Pos Pos

	value *string // behind a pointer, since fmt prints fields without their methods
	from  string  // the path, or the name of the variable
}

// IsSet reports whether there is a secret.
func (s Secret) IsSet() bool { return s.value != nil }

// Reveal returns the secret itself, to be used and not to be shown; "" when there
// is none.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Is reports whether text is the secret. How long it takes says nothing about the
// secret. Without a secret no text is it.
func (s Secret) Is(text string) bool {
	a, b := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(s.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && s.IsSet()
}

// masked stands for every secret.
const masked = "***"

// String returns ***, or "" when there is no secret.
func (s Secret) String() string {
	if !s.IsSet() {
		return ""
	}
	return masked
}

// GoString is String in quotes.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText returns String, so that logs and JSON show no more.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Stale reports whether the place the secret came from holds something else by
// now, or cannot be read any more.
func (s Secret) Stale(o Outside) bool {
	if s.Source == "" {
		return false
	}
	value, _, err := s.read(o)
	return err != nil || value != s.Reveal()
}

// Secrets returns the secrets of the file by the names of their settings.
func (f *File) Secrets() map[string]Secret {
	all := map[string]Secret{}
	if f.Admin.Token.IsSet() {
		all["admin.token"] = f.Admin.Token
	}
	if j := f.JWT; j != nil && j.Source.IsSet() {
		all["jwt."+j.Setting] = j.Source
	}
	if f.Store != nil && f.Store.Password.IsSet() {
		all["store.redis.password"] = f.Store.Password
	}
	return all
}

// SecretFiles returns the paths of the files from which f has secrets.
func (f *File) SecretFiles() []string {
	var paths []string
	for _, s := range f.Secrets() {
		if s.Source == "file" || s.Source == "credential" {
			paths = append(paths, s.from)
		}
	}
	slices.Sort(paths)
	return paths
}

// SecretFiles returns the paths of the files from which a configuration file wants
// secrets, whether they can be read or not; none if anything else is wrong with it.
func (o Outside) SecretFiles(name string, data []byte) []string {
	s, text := readSource(Outside{Env: o.Env, Include: o.Include}, name, data)
	file := Defaults()
	p := &parser{source: s, file: &file, used: map[string]bool{}, blind: map[*node]bool{}}
	if root := s.tree(text); root != nil {
		p.read(root)
	}
	if len(s.errs) > 0 {
		return nil
	}
	return p.secretFiles
}

// read returns what the place of the secret holds, without the newline at the end.
func (s Secret) read(o Outside) (value string, mode fs.FileMode, err *TextError) {
	if s.Source == "env" {
		value, set := o.env(s.from)
		switch {
		case !set:
			return "", 0, &TextError{Msg: "it is not set"}
		case value == "":
			return "", 0, &TextError{Msg: "it is empty"}
		case len(value) > MaxSecret:
			return "", 0, &TextError{Msg: "more than 64 KiB"}
		}
		return value, 0, nil
	}
	if o.ReadFile == nil {
		return "", 0, &TextError{Msg: "no file can be read here"}
	}
	data, mode, cause := o.ReadFile(s.from)
	switch {
	case cause != nil:
		return "", 0, &TextError{Msg: cause.Error()}
	case len(data) > MaxSecret:
		return "", 0, &TextError{Msg: "more than 64 KiB"}
	}
	value = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if value == "" {
		return "", 0, &TextError{Msg: "it is empty", Hint: "put the secret into it"}
	}
	return value, mode, nil
}

// secret reads a secret: {file: …}, {env: …}, {credential: …} or the value itself.
func (p *parser) secret(n *node, what string) Secret {
	s := Secret{Pos: p.posOf(n)}
	if n.shape != mapping {
		text, ok := p.textLike(n, what, "{ file: … }, { env: … } or { credential: … }")
		switch {
		case !ok:
			return Secret{}
		case text == "":
			p.failAt(n, "", "%s is empty", what)
			return Secret{}
		case n.origin == nil:
			p.warnAt(n, "write { file: … }, { env: … } or { credential: … }", "%s stands in this file: whoever reads the file has it", what)
		}
		if p.blind != nil && n.origin == nil {
			p.blind[n] = true
		}
		s.value = &text
		return s
	}
	c := p.section(n, partSecret, what, " in "+what)
	c.check()
	at := (*node)(nil)
	for _, name := range settings[partSecret] {
		switch v := c.get(name); {
		case !c.has(name):
		case s.Source != "":
			p.failAt(c.key(name), "keep one of the two", "%s with %s in %s: a secret comes from one place", name, s.Source, what)
			return Secret{}
		default:
			s.Source, at = name, v
		}
	}
	switch {
	case s.Source == "" && !c.node.partial && len(c.meant) == 0:
		p.failAt(n, "write { file: … }, { env: … } or { credential: … }", "%s: from where?", what)
	case at != nil:
		return p.readSecret(s, at, what)
	}
	return Secret{}
}

// readSecret fetches the secret from the place that n names.
func (p *parser) readSecret(s Secret, n *node, what string) Secret {
	text, ok := p.textLike(n, s.Source, "a name")
	switch {
	case !ok:
		return Secret{}
	case text == "":
		p.failAt(n, "", "%s in %s is empty", s.Source, what)
		return Secret{}
	case s.Source == "file":
		if s.from = text; !filepath.IsAbs(text) {
			s.from = filepath.Join(p.folder(), text)
		}
	case s.Source == "env":
		if s.from = text; !variableName().MatchString(text) {
			hint := "write its name alone"
			if name := strings.Trim(text, "${}"); variableName().MatchString(name) {
				hint = "write " + name
			}
			p.failAt(n, hint, "env %s: not the name of a variable", quote(text))
			return Secret{}
		}
	case s.Source == "credential":
		dir, _ := p.outside.env(credentialsDirectory)
		switch {
		case strings.ContainsAny(text, `/\`) || strings.HasPrefix(text, "."):
			p.failAt(n, "write the name that LoadCredential= has for it", "credential %s: not a name", quote(text))
			return Secret{}
		case dir == "":
			p.failAt(n, "add LoadCredential="+text+":/its/path to the unit", "credential %s: $%s is not set, as systemd does for a unit with credentials", quote(text), credentialsDirectory)
			return Secret{}
		}
		s.from = filepath.Join(dir, text)
	}
	if p.blind != nil {
		if s.Source != "env" {
			p.secretFiles = append(p.secretFiles, s.from)
		}
		return Secret{}
	}
	value, mode, err := s.read(p.outside)
	switch {
	case err != nil:
		p.failAt(n, err.Hint, "%s %s: %s", s.Source, quote(text), err.Msg)
		return Secret{}
	case s.Source == "file" && mode.Perm()&0o007 != 0:
		p.warnAt(n, "chmod 600, or 640 for a group", "file %s has the mode %04o: everybody on this machine can use it", quote(text), mode.Perm())
	}
	s.value = &value
	return s
}
