package rules

// Affinity returns a number that two requests of the route share if what the
// balance of its upstream hashes is the same in both; a request without it has
// the client's address hashed. It is the same in every process and over
// reloads. It is 0 for a balance that hashes nothing.
func (r *Route) Affinity(f *Facts) uint64 {
	if r.hash == nil {
		return 0
	}
	value, is := r.hash.appendValue(f.buf[:0], r.hash.parts[0], f, r.Match)
	if is != present {
		value, _ = r.hash.appendValue(value[:0], Attribute{kind: kindIP}, f, r.Match)
	}
	f.buf = value
	return fnv1a(value)
}

// NeedsBody reports whether Affinity looks into the body of a request.
func (r *Route) NeedsBody() bool { return r.hash != nil && r.hash.parts[0].InBody() }

// fnv1a is the FNV-1a hash of 64 bits, here so that a request allocates nothing.
func fnv1a(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// affinity returns the recipe of what the upstream of that name hashes, or nil.
func (f *File) affinity(upstream string) *Recipe {
	for i := range f.Upstreams {
		if u := &f.Upstreams[i]; u.Name == upstream && u.Hash != (Attribute{}) {
			return NewRecipe([]Attribute{u.Hash}, Missing{}, f.IPv6Prefix)
		}
	}
	return nil
}
