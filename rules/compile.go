package rules

import "gateway/limit"

// Compile makes a Set.
func (f *File) Compile(prev *Set) (*Set, error) { return &Set{}, nil }

// Activate applies it.
func (s *Set) Activate(now limit.Instant) {}
