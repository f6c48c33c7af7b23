package rules

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"mime"
	"mime/multipart"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The words in which these tests say what becomes of a field.
const (
	missingField = "(missing)"
	noneReadable = "(unreadable)"
)

// read returns the value of a field of a body, or one of those words.
func read(body, contentType, field string) string {
	f := &Facts{Header: http.Header{}}
	if contentType != "" {
		f.Header["Content-Type"] = strings.Split(contentType, "\n")
	}
	f.SetBody(Body{State: BodyWhole, Bytes: []byte(body)})
	out, is := f.appendBody([]byte("before"), field)
	again, same := f.appendBody(nil, field) // from memory
	value, had := bytes.CutPrefix(out, []byte("before"))
	if !had || is != same || !bytes.Equal(value, again) {
		panic(fmt.Sprintf("%q, then %q", out, again))
	}
	switch is {
	case present:
		return string(value)
	case absent:
		return missingField
	case unreadable:
		return noneReadable
	}
	panic(is)
}

// checkFields checks that the user of bodies of a type is what it should be.
func checkFields(t *testing.T, contentType string, want map[string][]string) {
	t.Helper()
	for value, bodies := range want {
		for _, body := range bodies {
			if got := read(body, contentType, "user"); got != value {
				t.Errorf("%.70q: user is %q, want %q", body, got, value)
			}
		}
	}
}

const jsonType, formType, jsonDeep = "application/json", "application/x-www-form-urlencoded", `{"user":"ann","x":`

func TestAFieldOfJSON(t *testing.T) {
	checkFields(t, jsonType, map[string][]string{
		"ann": {
			`{"user":"ann"}`, ` { "user" : "ann" } `, "\r\n\t{\"user\":\"ann\"}\n", `{"USER":"ANN"}`, `{"uſer":"ann"}`, // ſ folds to s
			`{"user":"  Ann\t"}`, "{\"user\":\"\u200bann\ufeff\"}", `{"\u0075ser":"a\u006en"}`, `{"x":[{"user":"bob"}],"user":"ann"}`,
			`{"x":{"user":"bob"},"user":"ann"}`, `{"user":"ann","pass":"\ud800"}`, `{"a":-0.5e+7,"b":[true,false,null,[],{},1e9],"user":"ann"}`,
			jsonDeep + strings.Repeat("[", 511) + strings.Repeat("]", 511) + "}",
			`{"user name":"bob","users":"bob","use":"bob","":1,"user":"ann"}`, `{"user[]":"bob","user":"ann"}`, `{" user":"bob","user":"ann"}`,
			`{"k":"a&user=bob","user":"ann"}`,
		},
		"k":            {`{"user":"\u212a"}`, `{"user":"K"}`}, // the Kelvin sign
		"é":            {`{"user":"É"}`, `{"user":"\u00c9"}`, `{"user":"\u00E9"}`},
		"e\u0301":      {`{"user":"E\u0301"}`}, // bytes decide
		"😀":            {`{"user":"\ud83d\ude00"}`, `{"user":"😀"}`},
		`a"\/` + "\bb": {`{"user":"a\"\\\/\bb"}`},
		"12": {
			`{"user":12}`, `{"user":"12"}`, `{"user":12.0}`, `{"user":1.2e1}`, `{"user":0.12E+2}`, `{"user":120e-1}`, `{"user":12.000e0}`,
			`{"user":1200000000000000000000000000000000000000000000e-44}`,
		},
		"-7":                          {`{"user":-7}`, `{"user":-7.0}`, `{"user":-70e-1}`},
		"0":                           {`{"user":0}`, `{"user":-0}`, `{"user":0.0}`, `{"user":0e999999999999999999999}`, `{"user":-0.00e-7}`},
		"175928847299117063":          {`{"user":175928847299117063}`, `{"user":1.75928847299117063e17}`},
		"175928847299117064":          {`{"user":175928847299117064}`}, // a float would not tell the two apart
		"1" + strings.Repeat("0", 39): {`{"user":1e39}`},
		"true":                        {`{"user":true}`, `{"user":"True"}`},
		"false":                       {`{"user":false}`},
		missingField: {
			``, `{}`, `[]`, `null`, `12`, `"user"`, `{"user":null}`, `{"user":""}`, `{"user":" \n\t "}`, `{"user":{}}`, `{"user":["ann"]}`,
			`{"user":{"user":"ann"}}`, `[{"user":"ann"}]`, `{"users":"ann"}`, `{"a":{"user":"ann"}}`,
		},
		noneReadable: {
			// given twice
			`{"user":"ann","user":"ann"}`, `{"user":"bob","USER":"ann"}`, `{"user":"bob","\u0075ser":"ann"}`, `{"user":null,"user":"ann"}`,
			`{"user":{},"User":"ann"}`, `{"user":"ann","uſer":"bob"}`,
			// not JSON, or only to some
			` `, `{`, `{"user":"ann"`, `{"user":"ann"}}`, `{"user":"ann"} x`, `{"user":"ann"}{"user":"bob"}`, "{\"user\":\"ann\"}\x00",
			"\ufeff{\"user\":\"ann\"}", `{"user":"ann",}`, `{,"user":"ann"}`, `{"user":"ann"/**/}`, `//` + "\n" + `{"user":"ann"}`,
			`{'user':'ann'}`, `{user:"ann"}`, `{"user":'ann'}`, `{"user":ann}`, `{"user":"a` + "\n" + `nn"}`, "{\"user\":\"ann\x01\"}",
			"{\"user\":\"ann\",\"x\":\"\xff\"}", "{\"us\xc3er\":\"ann\"}", `{"user":"\x61nn"}`, `{"user":"\u00"}`, `{"user":"\`, `{"user":"\u12"`,
			`{"user" "ann"}`, `{"user":}`, `{"user":"ann" "x":1}`, `{"user":"ann","x":[1,]}`, `{"user":"ann","x":[1 2]}`, `{"user":"ann","x":[}`,
			`{"user":"ann","x":01}`, `{"user":"ann","x":+1}`, `{"user":"ann","x":1.}`, `{"user":"ann","x":.5}`, `{"user":"ann","x":1e}`,
			`{"user":"ann","x":-}`, `{"user":"ann","x":0x1}`, `{"user":"ann","x":NaN}`, `{"user":"ann","x":Infinity}`, `{"user":"ann","x":True}`,
			`{"user":"ann","x":nul}`, "{\"user\":\"ann\"\v}", "{\"user\":\"ann\"\u00a0}", `user=ann`, `<user>ann</user>`,
			"\xff\xfe{\x00\"\x00u\x00s\x00e\x00r\x00", "{\x00\"\x00u\x00",
			jsonDeep + strings.Repeat("[", 512) + strings.Repeat("]", 512) + "}", jsonDeep + strings.Repeat("[", 30_000),
			jsonDeep + strings.Repeat(`{"user":`, 30_000),
			// text that servers in C end early, half a character
			`{"user":"ann\u0000x"}`, `{"user\u0000":"ann"}`, `{"user":"\ud800"}`, `{"user":"\ude00\ud83d"}`, `{"us\ud800er":"bob","user":"ann"}`,
			`{"user":"\ud83d\u0061"}`,
			// numbers that are rounded in different ways
			`{"user":12.5}`, `{"user":12.00000000000000000000000001}`, `{"user":1e400}`, `{"user":1e-400}`, `{"user":1e41}`,
			`{"user":1e99999999999999999999999999}`, `{"user":1` + strings.Repeat("0", 41) + `}`,
		},
	})
}

func TestAFieldInsideAnother(t *testing.T) {
	for body, want := range map[string]string{
		`{"user":{"name":"ann"}}`: "ann", `{"USER":{"x":1,"Name":"Ann"}}`: "ann", `{"user.name":"ann"}`: "ann",
		`{"user":{"name":{"name":"ann"}}}`: missingField, `{"user":"ann"}`: missingField, `{"user":["name"]}`: missingField,
		`{"name":"ann","user":null}`: missingField, `{"user":[{"name":"ann"}]}`: missingField,
		`{"user":{"name":"ann"},"user":{}}`: noneReadable, `{"user":{},"User":{"name":"ann"}}`: noneReadable,
		`{"user":{"name":"ann","NAME":"bob"}}`: noneReadable, `{"user":{"name":"ann"},"user.name":"bob"}`: noneReadable,
		`{"user":{"x":{"user":{"name":"bob"}},"name":"ann"}}`: "ann",
	} {
		if got := read(body, jsonType, "user.name"); got != want {
			t.Errorf("%s: user.name is %q, want %q", body, got, want)
		}
	}
	for body, want := range map[string]string{
		"user[name]=ann": "ann", "User%5BName%5D=Ann": "ann", "user.name=ann": "ann",
		"user=ann": missingField, "name=ann": missingField, "user[names]=ann": missingField, "user[]=ann": missingField,
		"user[name]=ann&user.name=bob": noneReadable, "user[name][]=ann": noneReadable, "user_name=ann": noneReadable,
		"user[name=ann": noneReadable, "user name=ann": noneReadable,
	} {
		if got := read(body, formType, "user.name"); got != want {
			t.Errorf("%s: user.name is %q, want %q", body, got, want)
		}
	}
	if got := read(`{"a":{"b.c":{"d":"x"}}}`, jsonType, "a.b.c.d"); got != "x" {
		t.Errorf("a.b.c.d is %q", got)
	}
	if got := read(`{"a":{"b.c":{"d":"x"}},"a.b":{"c.d":"y"}}`, jsonType, "a.b.c.d"); got != noneReadable {
		t.Errorf("a.b.c.d in two places is %q", got)
	}
}

func TestAFieldOfAForm(t *testing.T) {
	many := func(n int) string { return strings.Repeat("x=1&", n) }
	checkFields(t, formType, map[string][]string{
		"ann": {
			"user=ann", "user=ann&pass=x", "pass=x&user=ann", "USER=ANN", "%75ser=%61nn", "user=+ann+", "user=ann%20", "user=ann\r\n", "&&user=ann&&",
			"user=ann&pass=a;b", "user=ann&x=1=2", "users=bob&use=b&xuser=b&user=ann", "user=ann&=x&y", "user=ann&x=%ff%00", many(999) + "user=ann",
			"user=ann&_charset_=UTF-8", "user=ann&user%3D=bob",
		},
		"a;b": {"user=a%3Bb"}, "a b": {"user=a+b"}, "é": {"user=%C3%89", "user=é"}, "12": {"user=12"}, "a=b": {"user=a=b"},
		missingField: {"", "user", "user=", "user=+%09", "users=ann", "x=user", "x=%26user%3Dann", "&", "x=1;y=2"},
		noneReadable: {
			// given twice, or so that some servers take it for the name
			"user=ann&user=ann", "user&user=ann", "user=bob&User=ann", "user=bob&%75ser=ann", "user=ann&user[]=bob", "user[]=ann", "user[0]=ann",
			"user%5B%5D=ann", "user[x]=ann", "user%00=ann", "user%00x=ann", "+user=ann", "%20user=ann", "user+=ann", "%09user=ann", "user]=ann",
			// ";" separates pairs to some
			"user=ann;x=1", "x=1;user=ann", "user=bob&x=1;user=ann", "user;x=ann", "x;user=ann", "x=1;user[]=ann", "user=ann;",
			// broken codes
			"user=%", "user=ann&x=%4", "user=ann&x=%zz", "%u0075ser=ann", "user=bob&%u0075ser=ann", "user=%u0061",
			// no text
			"user=%ff", "user=a%00b", "user=ann\x00", "user=ann&\x01", "user=ann\x7f", "u\x00s\x00e\x00r\x00=\x00a\x00",
			"user=ann&_charset_=ibm037", "_CHARSET_=utf-16&user=ann",
			many(1000) + "user=ann", "user=ann&" + many(1000),
		},
	})
}

func TestWhatTheTypeOfABodyMeans(t *testing.T) {
	const both = `{"a":"&user=bob&b=","user":"ann"}`
	for _, row := range []struct{ contentType, body, want string }{
		// JSON, whatever the type says
		{"", `{"user":"ann"}`, "ann"},
		{"text/plain", `{"user":"ann"}`, "ann"},
		{formType, `{"user":"ann"}`, "ann"}, // curl -d
		{formType, ` {"user":"ann","note":"100%"}`, "ann"},
		{"application/vnd.api+json; charset=utf-8", `{"user":"ann"}`, "ann"},
		{"Application/JSON;charset=\"UTF-8\"", `{"user":"ann"}`, "ann"},
		{"multipart/form-data; boundary=b", `{"user":"ann"}`, "ann"},
		{"json", `{"user":"ann"}`, "ann"},
		{formType, `{"user":"ann"}&user=bob`, noneReadable}, // a server may stop behind the JSON
		{formType, `{=1&user=ann`, noneReadable},
		{formType, "\x00{\"user\":\"ann\"}", noneReadable},
		{formType, "\ufeff{\"user\":\"ann\"}", noneReadable},
		{"multipart/form-data; boundary=b", "{\"user\":\"ann\"}\r\n--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nbob\r\n--b--\r\n", noneReadable},
		// JSON to one server, a form to another
		{jsonType, both, "ann"},
		{formType, both, noneReadable},
		{"", both, noneReadable},
		{"text/plain", `{"a":";user=bob"}`, noneReadable},
		{formType, `{"a":"&%75ser=bob"}`, noneReadable},
		// forms
		{formType + "; charset=UTF-8", "user=ann", "ann"},
		{formType + ";", "user=ann", "ann"},
		{"APPLICATION/x-www-form-urlencoded", "user=ann", "ann"},
		{formType + "; charset=ibm037", "user=ann", noneReadable},
		{formType + "; charset=utf-16le", "user=ann", noneReadable},
		{formType + "; charset=utf-8; charset=ibm037", "user=ann", noneReadable},
		{formType + "; charset*=utf-8''x", "user=ann", noneReadable},
		{formType + "; charset", "user=ann", noneReadable},
		{formType + ", application/json", "user=ann", noneReadable},
		{formType + "\n" + jsonType, "user=ann", noneReadable},
		{jsonType + "\n" + jsonType, `{"user":"ann"}`, noneReadable},
		{jsonType + "; charset=utf-7", `{"user":"ann"}`, noneReadable},
		// everything else
		{"", "user=ann", noneReadable},
		{"text/plain", "user=ann", noneReadable},
		{"application/xml", "<user>ann</user>", noneReadable},
		{"application/octet-stream", "\x81\xa4user\xa3ann", noneReadable},
		{"multipart/mixed; boundary=b", "--b--", noneReadable},
		{"", "", missingField},
		{"application/xml", "", missingField},
	} {
		if got := read(row.body, row.contentType, "user"); got != row.want {
			t.Errorf("%q as %q: user is %q, want %q", row.body, row.contentType, got, row.want)
		}
	}
	f := &Facts{Header: http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"identity"}}}
	f.SetBody(Body{State: BodyWhole, Bytes: []byte(`{"user":"ann"}`)})
	if _, is := f.appendBody(nil, "user"); is != unreadable {
		t.Errorf("with a Content-Encoding: %d", is)
	}
}

// multi writes a multipart body of boundary "b" with parts that are header and
// value, "|" between them and "\n" for CRLF.
func multi(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		head, value, _ := strings.Cut(p, "|")
		b.WriteString("--b\n" + head + "\n\n" + value + "\n")
	}
	return strings.ReplaceAll(b.String()+"--b--\n", "\n", "\r\n")
}

func TestAFieldOfMultipart(t *testing.T) {
	const cd = `Content-Disposition: form-data; name=`
	const user = cd + `"user"`
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	checkFields(t, "multipart/form-data; boundary=b", map[string][]string{
		"ann": {
			multi(user + "|ann"), multi(cd+`"x"|1`, user+"|ann"), multi(cd + `user|ann`), multi("content-disposition: Form-Data;name=\"USER\"|Ann"),
			multi(user + "\nContent-Type: text/plain; charset=utf-8|ann"), multi(user + "\nContent-Transfer-Encoding: 8bit\nX-Other: 1|ann"),
			multi(user+"|ann", cd+`"f"; filename="user"`+"\nContent-Type: image/png|\x89PNG\x00--b"),
			multi(user+"|ann", cd+`"file"; filename="C:\dir\a.txt"|x`), multi(user+"|ann", cd+`"file"; filename="é.txt"; filename*=utf-8''x|x`),
			strings.TrimSuffix(multi(user+"|ann"), "\r\n"), "\r\n" + multi(user+"|ann"), multi(user+"|ann", cd+`"_charset_"|utf-8`),
			multi(user+"|ann", cd+`"x"|{"user":"bob"}`), multi(user+"|ann", cd+`"x"|a --b-- user=bob`),
		},
		"a\nb": {"--b\r\n" + user + "\r\n\r\na\nb\r\n--b--"},
		missingField: {
			"", multi(), multi(cd + `"x"|ann`), multi(user + "|"), multi(user + "|  "), multi(cd + `"users"|ann`), "--b--", "--b--\r\n",
			multi(cd + `"x"; filename="user"|ann`),
		},
		noneReadable: {
			// given twice, or so that some servers take it for the name
			multi(user+"|ann", user+"|bob"), multi(user+"|ann", cd+`"User"|bob`), multi(user+"|", user+"|ann"), multi(cd + `"user[]"|ann`),
			multi(cd + `"us%65r"|ann`), multi(cd + `" user"|ann`), multi(cd + `"use\r"|ann`), multi(cd + `"=?utf-8?q?user?="|ann`), multi(cd + `"x"; name="user"|ann`),
			multi(cd + `"x"; name*=utf-8''user|ann`), multi("Content-Disposition: form-data|ann"), multi("Content-Disposition: attachment; name=\"user\"|ann"),
			multi(cd + `"x"` + "\n" + user + "|ann"), multi("X-Y: 1|ann"), multi(cd + `"x\"; name="user"|ann`), multi(cd + `'user'; x|ann`), multi(cd + `"user|ann`),
			// files and encodings
			multi(user + `; filename="a"|ann`), multi(user + `; filename=""|ann`), multi(user + "\nContent-Transfer-Encoding: base64|YW5u"),
			multi(user + "\nContent-Transfer-Encoding: quoted-printable|=61nn"), multi(user + "\nContent-Type: text/plain; charset=utf-16|ann"),
			multi(user+"|ann", cd+`"_charset_"|ibm037`),
			// text that servers in C end early, or no text
			multi(user + "|ann\x00"), multi(user + "|\xff"),
			// boundaries
			"x" + multi(user+"|ann"), "preamble\r\n" + multi(user+"|ann"), multi(user+"|ann") + "x", multi(user+"|ann") + multi(user+"|bob"),
			"--x", "--b", "--b\r\n", "--c--", crlf("--b\n" + user + "\n\nann"), crlf("--b\n" + user + "\n\nann\n--b"), crlf("--b\n" + user + "\n\nann\n--b-"),
			strings.ReplaceAll(multi(user+"|ann"), "\r\n", "\n"),
			crlf("--b\n"+user+"\n\nann") + "\n" + crlf("--b\n"+cd+"\"x\"\n\n1\n--b--"), // a bare LF before what may be a boundary
			crlf("--b \n" + user + "\n\nann\n--b--"), crlf("--b\n" + user + "\n\nann\n--bx\n\n--b--"), crlf("--b\n" + user + "\n\nann\n--b \n" + user + "\n\nbob\n--b--"),
			crlf("--b\n" + user + "\n\n--b\n" + cd + "\"x\"\n\nann\n--b--"), crlf("--b\n\nann\n--b--"),
			// headers
			crlf("--b\n" + cd + "\n \"user\"\n\nann\n--b--"), crlf("--b\n" + user + "\n x\n\nann\n--b--"), crlf("--b\n" + user + "\nx\n\nann\n--b--"),
			crlf("--b\n"+user) + "\rX: 1" + crlf("\n\nann\n--b--"), crlf("--b\nContent-Disposition : form-data; name=\"user\"\n\nann\n--b--"),
			multi(repeated(1001, cd+`"x"|1`)...),
		},
	})
	const body = "--b\r\n" + user + "\r\n\r\nann\r\n--b--\r\n"
	for contentType, want := range map[string]string{
		`multipart/form-data; boundary="b"`: "ann", `Multipart/Form-Data; Boundary=b; charset=utf-8`: "ann",
		`multipart/form-data`: noneReadable, `multipart/form-data; boundary=`: noneReadable, `multipart/form-data; boundary=b; boundary=c`: noneReadable,
		`multipart/form-data; boundary*0=b`: noneReadable, `multipart/form-data; boundary=b; boundary*=utf-8''c`: noneReadable,
		`multipart/form-data; boundary="b`: noneReadable, `multipart/form-data, boundary=b`: noneReadable, `multipart/form-data; boundary=b, x`: noneReadable,
		`multipart/form-data; boundary="b\c"`: noneReadable, "multipart/form-data; boundary=b\nmultipart/form-data; boundary=b": noneReadable,
		`multipart/form-data; boundary=` + strings.Repeat("b", 71): noneReadable,
	} {
		if got := read(body, contentType, "user"); got != want {
			t.Errorf("as %q: user is %q, want %q", contentType, got, want)
		}
	}
}

func repeated(n int, s string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s
	}
	return list
}

func TestTheUserOfBasicAuthentication(t *testing.T) {
	code := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for lines, want := range map[string]string{
		code("ann:secret"): "ann", code("Ann:"): "ann", code(" ann :x:y"): "ann", code("É:x"): "é", strings.Replace(code("ann:secret"), "Basic", "bAsIc  ", 1): "ann",
		strings.TrimRight(code("ann:pw"), "="): "ann", code("\xe9:x"): "\xe9",
		"": missingField, "Bearer abc": missingField, "Basic": missingField, code(":secret"): missingField, code("  :x"): missingField, "Basically x": missingField,
		"Bearer a\nBearer b": missingField,
		code("ann"):          noneReadable, "Basic !": noneReadable, "Basic YW5uOg=x": noneReadable, code("a:b") + ", Bearer x": noneReadable,
		code("ann:x") + "\n" + code("bob:x"): noneReadable, "Bearer x\n" + code("ann:x"): noneReadable, code("ann\x00:x"): noneReadable,
	} {
		f := &Facts{Header: http.Header{}}
		if lines != "" {
			f.Header["Authorization"] = strings.Split(lines, "\n")
		}
		out, is := f.appendBasic(nil)
		got := map[presence]string{present: string(out), absent: missingField, unreadable: noneReadable}[is]
		if got != want {
			t.Errorf("%q: user is %q, want %q", lines, got, want)
		}
	}
}

func TestFoldingPutsTogetherWhatDiffersByCaseAlone(t *testing.T) {
	folds := map[rune]rune{}
	for r := range rune(unicode.MaxRune + 1) {
		f := foldRune(r)
		if foldRune(f) != f {
			t.Fatalf("%q folds to %q, and that to %q", r, f, foldRune(f))
		}
		for s := unicode.SimpleFold(r); s != r; s = unicode.SimpleFold(s) {
			if foldRune(s) != f {
				t.Fatalf("%q folds to %q, %q to %q", r, f, s, foldRune(s))
			}
		}
		folds[r] = f
	}
	for r, want := range map[rune]rune{'A': 'a', 'z': 'z', 'É': 'é', 'ß': 'ß', 'ẞ': 'ß', 'ſ': 's', '\u212a': 'k', 'Σ': 'σ', 'ς': 'σ', '1': '1', '_': '_'} {
		if folds[r] != want {
			t.Errorf("%q folds to %q, want %q", r, folds[r], want)
		}
	}
}

func TestWhatIsHopelessIsNotReadOn(t *testing.T) {
	for _, row := range []struct {
		contentType, encoding, begin string
		want                         bool
	}{
		{"", "", "", false}, {"text/plain", "", "", false}, {"image/png", "", "", false}, {jsonType, "", "x", false}, {formType, "", "x", false},
		{"multipart/form-data; boundary=b", "", "x", false}, {"", "", " \r\n", false}, {"image/png", "", "\x00\x00", false}, {"image/png", "", " {", false},
		{"text/event-stream", "", "[", false}, {"image/png", "", "\x89PNG", true}, {"", "", "user=ann", true}, {"text/xml", "", "\n<", true},
		{"application/grpc", "", "", true}, {"application/grpc-web+proto", "", "", true}, {jsonType, "gzip", "", true}, {jsonType + "; charset=utf-16", "", "", true},
		{jsonType + "\n" + jsonType, "", "", true}, {"multipart/form-data", "", "", true},
	} {
		f := &Facts{Header: http.Header{}}
		if row.contentType != "" {
			f.Header["Content-Type"] = strings.Split(row.contentType, "\n")
		}
		if row.encoding != "" {
			f.Header.Set("Content-Encoding", row.encoding)
		}
		if got := f.Hopeless([]byte(row.begin)); got != row.want {
			t.Errorf("%q of %q, %q: hopeless is %v", row.begin, row.contentType, row.encoding, got)
		}
		f.SetBody(Body{State: BodyHopeless})
		if _, is := f.appendBody(nil, "user"); is != unreadable {
			t.Errorf("a body that is hopeless: %d", is)
		}
	}
}

func TestABodyThatIsNotThere(t *testing.T) {
	f := &Facts{Client: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"Content-Type": {jsonType}, "X-Key": {"k"}}}
	for _, row := range []struct {
		key, missing string
		body         Body
		want, local  Outcome
	}{
		{"body.user", "ip", Body{}, KeyPending, KeyPending},
		{"ip,body.user", "ip", Body{}, KeyPending, KeyPending},
		{"ip", "body.user", Body{}, KeyFound, KeyFound},
		{"header.X-None", "body.user", Body{}, KeyPending, KeyPending},
		{"header.X-None,body.user", "skip", Body{}, KeySkip, KeySkip}, // whatever the body says
		{"body.user,header.X-None", "reject", Body{}, KeyReject, KeyReject},
		{"body.user,header.X-None", "ip", Body{}, KeyFallback, KeyFallback},
		{"body.user", "ip", Body{State: BodyWhole}, KeyFallback, KeyFallback},
		{"body.user", "skip", Body{State: BodyWhole}, KeySkip, KeySkip},
		{"body.user", "reject", Body{State: BodyWhole, Bytes: []byte(`{}`)}, KeyReject, KeyReject},
		{"body.user", "header.X-Key", Body{State: BodyWhole, Bytes: []byte(`{}`)}, KeyFallback, KeyFallback},
		{"body.user", "ip", Body{State: BodyWhole, Bytes: []byte(`{"user":"a"}`)}, KeyFound, KeyFound},
		{"body.user", "ip", Body{State: BodyWhole, Bytes: []byte(`{`)}, KeyUnreadable, KeyFallback},
		{"body.user", "reject", Body{State: BodyWhole, Bytes: []byte(`{`)}, KeyUnreadable, KeyReject},
		{"body.user,header.X-None", "skip", Body{State: BodyWhole, Bytes: []byte(`{`)}, KeySkip, KeySkip},
		{"body.user", "skip", Body{State: BodyTooLong}, KeyTooLong, KeySkip},
		{"body.user", "ip", Body{State: BodyNoMemory}, KeyNoMemory, KeyFallback},
		{"header.X-None", "body.user", Body{State: BodyTooLong}, KeyTooLong, KeyFallback},
	} {
		f.SetBody(row.body)
		r := recipe(t, row.key, row.missing)
		if _, got := r.Digest(&testSecret, f, nil); got != row.want {
			t.Errorf("%s, missing %s, body %v: outcome %d, want %d", row.key, row.missing, row.body, got, row.want)
		}
		r.local = true
		if _, got := r.Digest(&testSecret, f, nil); got != row.local {
			t.Errorf("%s, missing %s, body %v, local: outcome %d, want %d", row.key, row.missing, row.body, got, row.local)
		}
	}
}

func TestReadingAFieldTakesNoMemory(t *testing.T) {
	for contentType, body := range map[string]string{
		jsonType: `{"pass":"x\n","US\u0045R":"\u0041nn"}`, formType: "a=%20&user=ann",
	} {
		f := &Facts{Header: http.Header{"Content-Type": {contentType}, "Authorization": {"Basic YW5uOng="}}}
		b := Body{State: BodyWhole, Bytes: []byte(body)}
		r := recipe(t, "body.user,basic.username,ip", "ip")
		f.Client = netip.MustParseAddr("192.0.2.1")
		work := func() {
			f.SetBody(b)
			if _, is := r.Digest(&testSecret, f, nil); is != KeyFound {
				t.Fatalf("outcome %d", is)
			}
		}
		work() // the scratch grows
		if n := testing.AllocsPerRun(100, work); n != 0 {
			t.Errorf("%s: a digest allocates %v times", contentType, n)
		}
	}
}

// folded is what a value is as a key.
func folded(s string) string { return string(appendFolded(nil, []byte(s))) }

// checkAgainst checks what was read of a field against the values that the
// standard library finds for names that are its name but for case. Whatever the
// library refuses must be unreadable.
func checkAgainst(t *testing.T, got string, values []string, refused bool) {
	t.Helper()
	switch {
	case got == noneReadable:
	case refused:
		t.Fatalf("read %q of a body that the library refuses", got)
	case got == missingField:
		for _, v := range values {
			if folded(v) != "" {
				t.Fatalf("missing, but the library has %q", values)
			}
		}
	case len(values) != 1 || folded(values[0]) != got:
		t.Fatalf("read %q, but the library has %q", got, values)
	}
}

func FuzzJSONField(f *testing.F) {
	for _, seed := range []string{
		`{"user":"ann"}`, `{"USER":12.0,"x":[1,{"user":2}]}`, `{"user":"a","\u0075ser":"b"}`, `{"user":null}`, `{"user":true} `, `{"user":"\ud83d\ude00"}`, `[`, `{"a":{"user":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := read(string(body), jsonType, "user")
		if len(body) == 0 {
			return
		}
		values, err := topLevel(body, "user")
		checkAgainst(t, got, values, err != nil || !json.Valid(body))
		// What a server in Go gets out of it.
		var server struct {
			User any `json:"user"`
		}
		if got != noneReadable && got != missingField {
			if err := json.Unmarshal(body, &server); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
				t.Fatalf("read %q, but a server gets %v", got, err)
			}
			if s, ok := server.User.(string); ok && folded(s) != got {
				t.Fatalf("read %q, but a server gets %q", got, s)
			}
		}
	})
}

// topLevel returns the values, as text, that an object has under name but for case.
func topLevel(body []byte, name string) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var values []string
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if !equalFold([]byte(key.(string)), name) {
			continue
		}
		switch v := value.(type) {
		case string:
			values = append(values, v)
		case bool:
			values = append(values, fmt.Sprint(v))
		case json.Number:
			n := exactly(v.String())
			values = append(values, n)
		default:
			values = append(values, "") // nothing that is a key
		}
	}
	return values, nil
}

func FuzzFormField(f *testing.F) {
	for _, seed := range []string{"user=ann&x=1", "user=a;b", "%75ser=x&user", "a=%zz", "user[]=1", "x=;&user=+a+", "user=é", "%u=1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if looksLikeJSON(body) {
			return
		}
		got := read(string(body), formType, "user")
		// Go takes ";" for an error; to everybody else it is text or a separator.
		for _, separators := range []string{"&", "&;"} {
			plain := strings.ReplaceAll(string(body), ";", "%3B")
			if separators == "&;" {
				plain = strings.ReplaceAll(string(body), ";", "&")
			}
			q, err := url.ParseQuery(plain)
			var values []string
			for name, list := range q {
				if equalFold([]byte(name), "user") {
					values = append(values, list...)
				}
			}
			checkAgainst(t, got, values, err != nil)
		}
	})
}

func FuzzMultipartField(f *testing.F) {
	const user = `Content-Disposition: form-data; name="user"`
	for _, seed := range []string{
		multi(user + "|ann"), multi(user+"|ann", user+"|bob"), multi(user + `; filename="x"|ann`), multi(user + "\nContent-Transfer-Encoding: quoted-printable|=61"),
		"--b\n" + user + "\n\nann\n--b--", multi(`Content-Disposition: form-data; name="x\"; name="user"|ann`), "x\r\n" + multi(user+"|a"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if looksLikeJSON(body) || len(body) == 0 {
			return
		}
		got := read(string(body), "multipart/form-data; boundary=b", "user")
		form, err := multipart.NewReader(bytes.NewReader(body), "b").ReadForm(1 << 20)
		var values []string
		if err == nil {
			for name, list := range form.Value {
				if equalFold([]byte(name), "user") {
					values = append(values, list...)
				}
			}
			for name := range form.File {
				if equalFold([]byte(name), "user") {
					values = append(values, "a file", "is none")
				}
			}
			form.RemoveAll()
		}
		checkAgainst(t, got, values, err != nil)
	})
}

func FuzzFieldName(f *testing.F) {
	for _, seed := range []string{"user", "user.name", "user[name]", "USER", "u\x00", "[", "user[", "user_name", " user"} {
		f.Add([]byte(seed), "user.name")
	}
	f.Fuzz(func(t *testing.T, name []byte, field string) {
		a, err := ParseAttribute("body." + field)
		if err != nil {
			return
		}
		field = a.name
		if again, err := ParseAttribute(a.String()); err != nil || again != a {
			t.Fatalf("%s, written and read again: %v, %v", a, again, err)
		}
		is := compareName(name, field)
		if utf8.Valid(name) && strings.EqualFold(string(name), field) && is != thatName {
			t.Fatalf("%q is %s, but compares as %d", name, field, is)
		}
		if is == thatName && utf8.Valid(name) && !bytes.ContainsRune(name, '[') && string(appendFolded(nil, name)) != field {
			t.Fatalf("%q is not %s", name, field)
		}
	})
}

// exactly returns a whole number of at most 41 digits as it is usually written,
// and what cannot be a key as what no key is.
func exactly(text string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(strings.TrimLeft(exponent, "+-0")) > 6 || len(mantissa) > 1000 {
		return "(a number beyond all reason)"
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() {
		return "(no whole number)"
	}
	return n.Num().String()
}

func FuzzContentType(f *testing.F) {
	for _, seed := range []string{
		`multipart/form-data; boundary=b`, `Multipart/Form-Data; boundary="a b"; charset=utf-8`, `multipart/form-data; boundary=b; boundary=c`,
		`multipart/form-data; boundary*=utf-8''b`, `multipart/form-data;boundary="b\"c"`, formType + `; charset=utf-16`, `application/json;`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, ok := parseContentType([]string{line})
		media, params, err := mime.ParseMediaType(line)
		if !ok || got.kind == typeOther || got.kind == typeGRPC {
			return
		}
		if err != nil {
			t.Fatalf("%q is good, but the library says %v", line, err)
		}
		if kindOf(media) != got.kind || got.kind == typeMultipart && params["boundary"] != got.boundary || params["charset"] != "" && !plainCharset(params["charset"]) {
			t.Fatalf("%q is %+v, but the library reads %s %v", line, got, media, params)
		}
	})
}

func BenchmarkField(b *testing.B) {
	pad := strings.Repeat(`"key":"some text of a body",`, 64<<10/28-2)
	for name, body := range map[string]string{"login": `{"username":"ann","password":"correct horse"}`, "64KiB": "{" + pad + `"username":"ann"}`} {
		f := &Facts{Header: http.Header{"Content-Type": {jsonType}}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			whole := Body{State: BodyWhole, Bytes: []byte(body)}
			var out []byte
			for b.Loop() {
				f.SetBody(whole)
				out, _ = f.appendBody(out[:0], "username")
			}
		})
	}
}
