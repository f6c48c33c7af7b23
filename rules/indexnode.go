package rules

// place is a place in an index: ways, and ways told apart by something that a
// request has.
type place struct {
	here []uint32 // found whatever the request has; ascending
	by   *split   // or nil
}

// split tells ways apart by one thing of a request.
type split struct {
	axis  axis
	keys  table[*place] // axisHost, axisMethod, axisValue
	below *suffixes     // axisHost: those below a name, or nil
	paths *pathNode     // axisPath
	addrs *addrIndex    // axisAddr
	rest  place         // ways that do not care, or for which there is no key
}

// axis is something of a request that ways can be told apart by.
type axis struct {
	kind axisKind
	attr Attribute // of axisValue
}

type axisKind uint8

// In this order they are taken where one serves as well as another.
const (
	axisPath axisKind = iota
	axisHost
	axisValue
	axisAddr
	axisMethod
)

// find appends the numbers of all ways below n that might take the request. Some
// may come twice.
func (n *place) find(f *Facts, found []uint32) []uint32 {
	for {
		found = append(found, n.here...)
		s := n.by
		if s == nil {
			return found
		}
		switch s.axis.kind {
		case axisPath:
			found = s.paths.find(f, found)
		case axisHost:
			found = s.host(f, found)
		case axisValue:
			found = s.value(f, found)
		case axisAddr:
			found = s.addrs.find(f, found)
		case axisMethod:
			if next, ok := s.keys.get(f.Method); ok {
				found = next.find(f, found)
			}
		}
		n = &s.rest
	}
}

// host appends what is found under the request's host and the names above it.
func (s *split) host(f *Facts, found []uint32) []uint32 {
	if next, ok := s.keys.get(f.Host); ok {
		found = next.find(f, found)
	}
	if s.below == nil {
		return found
	}
	host := f.Host
	for i, dots := len(host)-1, 0; i >= 0 && dots < s.below.dots; i-- {
		if host[i] != '.' {
			continue
		}
		dots++
		if next, ok := s.below.names.get(host[i:]); ok {
			found = next.find(f, found)
		}
	}
	return found
}

// suffixes holds what is below a name: "*.example.com" under ".example.com".
type suffixes struct {
	names table[*place]
	dots  int // the most dots of a name
}

// value appends what is found under the value of the split's attribute.
func (s *split) value(f *Facts, found []uint32) []uint32 {
	a := s.axis.attr
	var next *place
	var ok bool
	switch lines := f.Header[a.name]; {
	case a.kind == kindHeader && len(lines) == 1:
		next, ok = s.keys.get(lines[0])
	case a.kind == kindHeader && len(lines) == 0:
	case a.kind == kindQuery && !f.soundQuery():
		// Whoever reads this query is told that it is broken; so all must be asked.
		return s.all(found)
	default:
		var value []byte
		if value, ok = f.appendChosen(f.buf[:0], a); ok {
			next, ok = s.keys.getBytes(value)
		}
		f.buf = value
	}
	if ok {
		found = next.find(f, found)
	}
	return found
}

// all appends all ways that the keys of s lead to.
func (s *split) all(found []uint32) []uint32 {
	s.keys.each(func(n *place) { found = n.all(found) })
	return found
}

// all appends all ways below n.
func (n *place) all(found []uint32) []uint32 {
	for {
		found = append(found, n.here...)
		s := n.by
		if s == nil {
			return found
		}
		found = s.all(found)
		if s.below != nil {
			s.below.names.each(func(n *place) { found = n.all(found) })
		}
		found = s.paths.allWays(found)
		found = s.addrs.all(found)
		n = &s.rest
	}
}

// table finds a T by a text. One with few texts is a list, which takes less time
// and less memory than a map.
type table[T any] struct {
	few  []entry[T]
	many map[string]T
}

type entry[T any] struct {
	key  string
	what T
}

// fewEntries is how many entries a list has at most.
const fewEntries = 8

// get returns what is under key.
func (t *table[T]) get(key string) (what T, ok bool) {
	if t.many != nil {
		what, ok = t.many[key]
		return what, ok
	}
	for i := range t.few {
		if e := &t.few[i]; e.key == key {
			return e.what, true
		}
	}
	return what, false
}

// getBytes is get without a copy of the key.
func (t *table[T]) getBytes(key []byte) (what T, ok bool) {
	if t.many != nil {
		what, ok = t.many[string(key)]
		return what, ok
	}
	for i := range t.few {
		if e := &t.few[i]; e.key == string(key) {
			return e.what, true
		}
	}
	return what, false
}

// put adds what under key, which is not there yet.
func (t *table[T]) put(key string, what T) {
	switch {
	case t.many != nil:
		t.many[key] = what
	case len(t.few) < fewEntries:
		t.few = append(t.few, entry[T]{key, what})
	default:
		t.many = make(map[string]T, 2*fewEntries)
		for _, e := range t.few {
			t.many[e.key] = e.what
		}
		t.many[key] = what
		t.few = nil
	}
}

// each calls do with all there is.
func (t *table[T]) each(do func(T)) {
	for _, e := range t.few {
		do(e.what)
	}
	for _, what := range t.many {
		do(what)
	}
}
