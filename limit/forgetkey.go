package limit

// Forget forgets what the key has used, as if it had never come, and reports
// whether nothing is remembered of it any more. A key with requests in progress is
// kept as it is, but for what its refusals have earned: their Grants are to give back to it, and what they hold is no
// usage of the past. What clients without a place share stays too.
func (t *Table) Forget(d Digest) bool {
	if t.dir.Load() == nil {
		return true
	}
	s := t.lock(d)
	if s == nil {
		return true
	}
	defer s.mu.Unlock()
	i, ok := s.find(d)
	if !ok {
		return true
	}
	h := s.homeAt(i)
	if t.generation(h.st.Gen).nums.Slots && h.st.Used > 0 || h.side != nil && h.side.reserved > 0 {
		if records := s.records(); records != nil {
			records[i] = record{}
		}
		return false
	}
	t.release(t.ringBytes(h))
	s.remove(i)
	t.keys.Add(-1)
	t.budget.change()
	return true
}
