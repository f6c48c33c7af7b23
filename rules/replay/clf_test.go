package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// slowly returns the same format without the short way for what its lines begin with.
func slowly(t testing.TB, name string) *Format {
	f := formatNamed(t, name)
	if !f.pattern.clf {
		t.Fatalf("%s takes no short way", name)
	}
	f.pattern.clf = false
	return f
}

var clfFormats = []string{"combined", "nginx main", "Traefik CLF", "common"}

// readAs reads lines as a log's are, one after the other, and writes what they say.
func readAs(f *Format, lines [][]byte) (said []string) {
	c := &reading{wants: newWanted([]string{"User-Agent"}, nil)}
	p := newPageOf(1)
	for _, line := range lines {
		r, err := p.read(f, line, c)
		if err != nil {
			said = append(said, err.Error())
			continue
		}
		said = append(said, describe(r))
	}
	return said
}

// sameShortAndLong holds what a format reads to what it reads without short ways:
// when somebody wants the headers, and when nobody does.
func sameShortAndLong(t *testing.T, name string, lines [][]byte) {
	t.Helper()
	for _, w := range []*wanted{newWanted([]string{"User-Agent", "Authorization"}, nil), newWanted(nil, nil)} {
		short, long := formatNamed(t, name), slowly(t, name)
		short.pattern.keepOnly(w)
		long.pattern.keepOnly(w)
		quick, slow := readAs(short, lines), readAs(long, lines)
		for i := range lines {
			if quick[i] != slow[i] {
				t.Fatalf("%s: %q\nshort:   %s\npattern: %s", name, lines[i], quick[i], slow[i])
			}
		}
	}
}

func describe(r *Record) string {
	return fmt.Sprintf("%d %v %q %q %q %d %d %v %q %q %v %v", r.At, r.Client, r.Method(), r.Target, r.Host, r.Status, r.Count, r.NoRequest, r.Forwarded, r.User, r.headers, r.Duration)
}

// The short way for lines of nginx and Apache says what the pattern says, of sound
// lines and of odd ones.
func TestTheShortWaySaysWhatThePatternSays(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	pick := func(usual string, odd ...string) string {
		if r.IntN(10) > 0 {
			return usual
		}
		return odd[r.IntN(len(odd))]
	}
	short := 0
	for _, name := range clfFormats {
		var lines [][]byte
		for i := range 8_000 {
			b := []byte(pick("203.0.113.9", "1.2.3.4", "255.255.255.255", "2001:db8::7", "1.2.3.04", "1.2.3.256", "1.2.3", "1.2.3.4:80", "", "-") +
				pick(" - - [", " - ann [", " - a b [", " - -  [", " id - [", "- - [") +
				pick("01", "31", "30", "00") + pick("/Oct/", "/Feb/", "/oct/") + pick("2026", "1969", "2201") + pick(":00:00:", ":23:59:", ":24:00:") +
				fmt.Sprintf("%02d", i/120%62) + pick(" +0000", " +0530", " -0700", " +9999", "", ".123") + pick(`] "`, `]  "`) +
				pick("GET /a HTTP/1.1", "POST /a?b=c HTTP/2.0", "GET /", "-", "", `\x16\x03`, `GET /\" HTTP/1.1`, "GET http://h/x HTTP/1.1", "* *", "get /", `GET /a" b HTTP/1.1`) +
				pick(`" `, `"`) + pick("200", "404", "099", "000", "-", "2000", "20") + pick(" ", " ", "  ", "") + pick("12", "-", "x", "") +
				pick(` "-" "curl"`, "", ` "-" "say \"x\""`, ` "-"`) + pick("", ` "-"`, ` "1.2.3.4, 5.6.7.8"`, ` 17 "r" "u" 12ms`, " more"))
			if r.IntN(8) == 0 && len(b) > 0 {
				b[r.IntN(len(b))] = byte(r.IntN(256))
			}
			if r.IntN(8) == 0 {
				b = b[:r.IntN(len(b)+1)]
			}
			if clfHead(b, &Record{Details: &newPageOf(1).none}, &reading{}) > 0 {
				short++
			}
			lines = append(lines, b)
		}
		sameShortAndLong(t, name, lines)
	}
	if short < 2000 {
		t.Errorf("only %d lines went the short way: that shows little", short)
	}
}

func FuzzShortWay(f *testing.F) {
	for _, c := range lines {
		f.Add([]byte(c.line + "\n" + strings.Replace(c.line, ":01 ", ":59 ", 1)))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		var lines [][]byte
		for line := range strings.SplitSeq(string(log), "\n") {
			lines = append(lines, []byte(line))
		}
		for _, name := range clfFormats {
			sameShortAndLong(t, name, lines)
		}
	})
}
