package rules

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// LoosePath returns the loose form of an escaped path, on which rules are matched
// with `paths: loose`: that of NormalPath with what follows a ";" cut from each
// segment and with its case folded. The error is to be answered with 400: that of
// NormalPath, also where the path could be folded in two ways only once segments
// are cut.
func LoosePath(escaped string) (string, error) {
	if isNormalPath(escaped) {
		return foldCase(escaped), nil
	}
	if escaped == "" {
		return "/", nil
	}
	if escaped[0] != '/' {
		return "", errPathRelative
	}
	path, _, err := foldPath(escaped, true)
	return foldCase(path), err
}

// foldCase folds the case of a path: that of its codes too, which is as good.
func foldCase(path string) string {
	folded := true
	for i := 0; i < len(path) && folded; i++ {
		c := path[i]
		folded = c < utf8.RuneSelf && (c < 'A' || 'Z' < c)
	}
	if folded {
		return path
	}
	return strings.Map(foldRune, path)
}

// cutParams returns a segment without what follows its first ";".
func cutParams[T string | []byte](seg T) T {
	for i := 0; i < len(seg); i++ {
		if seg[i] == ';' {
			return seg[:i]
		}
	}
	return seg
}

// LoosePath returns the path in its loose form, made of RawPath, and why there is
// none: see the function of that name.
func (f *Facts) LoosePath() (string, error) {
	if f.loose == "" {
		sent := f.RawPath
		if sent == "" {
			sent = f.Path // which is a path as well
		}
		if f.loose, f.looseErr = LoosePath(sent); f.looseErr != nil {
			f.loose = foldCase(f.Path)
		}
	}
	return f.loose, f.looseErr
}

// pathFor returns the path as patterns of that kind see it.
func (f *Facts) pathFor(loose bool) string {
	if !loose {
		return f.Path
	}
	path, _ := f.LoosePath()
	return path
}

// loosened returns m for paths in their loose form; m itself has none that is not.
func (m *Match) loosened() *Match {
	if m == nil {
		return nil
	}
	loose := &Match{Any: make([]Clause, len(m.Any))}
	for i, c := range m.Any {
		if c.Pattern != nil {
			c.Pattern = c.Pattern.loosened()
		}
		if len(c.Paths) > 0 {
			paths := make([]*Pattern, len(c.Paths))
			for j, p := range c.Paths {
				paths[j] = p.loosened()
			}
			c.Paths = paths
		}
		c.Not = c.Not.loosened()
		loose.Any[i] = c
	}
	return loose
}

// loosened returns p for paths in their loose form.
func (p *Pattern) loosened() *Pattern {
	q := *p
	q.loose, q.plain = true, ""
	q.segs = make([]segment, 0, len(p.segs))
	plain := !p.rest && p.re == nil
	for _, s := range p.segs {
		if s.kind == segText || s.kind == segGlob {
			s.text = foldCase(cutParams(s.text))
			if s.kind == segGlob {
				glob := newGlob(s.text)
				s.glob = &glob
				if s.glob.exact() {
					s.kind = segText
				}
			}
			if s.text == "" {
				continue
			}
		}
		plain = plain && s.kind == segText
		q.segs = append(q.segs, s)
	}
	if plain {
		q.plain = joined(q.segs)
	}
	if p.re != nil {
		q.re = regexp.MustCompile(anchored("is", p.source))
	}
	return &q
}
