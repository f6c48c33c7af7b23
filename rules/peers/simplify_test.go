package peers

import (
	"net/http"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"gateway/rules"
)

// A match that is made simpler takes the same requests, as our own language reads it.
func TestASimplerMatchTakesTheSame(t *testing.T) {
	paths := []string{"/**", "/a*/**", "/a/**", "/ab*/**", "/a", "/ab", "/b/**"}
	conditions := rapid.Custom(func(t *rapid.T) cond {
		switch rapid.IntRange(0, 3).Draw(t, "field") {
		case 0, 1:
			return cond{field: "path", values: rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 1, 2, rapid.ID[string]).Draw(t, "paths")}
		case 2:
			return cond{field: "header.X", values: []string{rapid.SampledFrom([]string{"*", "1", "2"}).Draw(t, "x")}}
		default:
			return cond{field: "header.Y", values: []string{rapid.SampledFrom([]string{"*", "1"}).Draw(t, "y")}}
		}
	})
	var clauses func(deep int) *rapid.Generator[match]
	clauses = func(deep int) *rapid.Generator[match] {
		return rapid.Custom(func(t *rapid.T) match {
			m := match{}
			for range rapid.IntRange(1, 3).Draw(t, "clauses") {
				c := clause{}
				for range rapid.IntRange(0, 2).Draw(t, "conds") {
					c = c.and(clause{conds: []cond{conditions.Draw(t, "cond")}})
				}
				if deep > 0 && rapid.Bool().Draw(t, "not") {
					c.not = append(c.not, clauses(deep-1).Draw(t, "inner")...)
				}
				m = append(m, c)
			}
			return m
		})
	}
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		m := clauses(2).Draw(t, "match")
		before, ok := setOf(m)
		after, also := setOf(m.simple())
		if !ok { // our own language refuses what takes nothing
			return
		}
		if !also {
			t.Fatalf("%s is fine, and %s is not", m.text(), m.simple().text())
		}
		compared++
		for _, path := range []string{"/", "/a", "/ab", "/a/b", "/abc", "/ab/c", "/b", "/bc"} {
			for _, x := range []string{"", "1", "2", "3"} {
				for _, y := range []string{"", "1"} {
					f := rules.Facts{Method: "GET", Host: "h", Path: path, RawPath: path, Client: netip.MustParseAddr("192.0.2.1"), Header: http.Header{}}
					if x != "" {
						f.Header.Set("X", x)
					}
					if y != "" {
						f.Header.Set("Y", y)
					}
					if b, a := len(before.Match(&f, nil)), len(after.Match(&f, nil)); a != b {
						t.Fatalf("%s x=%q y=%q: %s takes it %d times, the simpler %s %d times", path, x, y, m.text(), b, m.simple().text(), a)
					}
				}
			}
		}
	})
	if compared < 20 {
		t.Errorf("only %d matches compared", compared)
	}
}

func setOf(m match) (*rules.Set, bool) {
	text := "upstream: http://a\nrules: [{ name: a, limit: 1/s"
	if written := m.text(); written != "" {
		text += ", match: " + written
	}
	file, err := rules.Parse("gateway.yaml", []byte(text+" }]\n"))
	if err != nil {
		return nil, false
	}
	set, err := file.Compile(nil)
	return set, err == nil
}
