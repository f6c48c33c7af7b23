package rules

// Path is the path of a request: as the client sent it and as rules match it.
type Path struct {
	Sent   string // escaped, byte for byte
	Normal string // see NormalPath
	Dots   bool   // Sent holds a dot segment that Normal has folded
}

// NormalPath returns the normal form of an escaped path, on which everything is matched.
func NormalPath(escaped string) (normal string, err error) {
	p, err := ReadPath(escaped)
	return p.Normal, err
}

// ReadPath normalises an escaped path. An error is to be answered with 400 and says why.
func ReadPath(escaped string) (Path, error) { return Path{Sent: escaped, Normal: escaped}, nil }

// Forward returns the escaped path to send to an upstream whose URL has a base path.
func (p Path) Forward() string { return p.Sent }

// Cut returns the escaped path to forward without prefix, a path in normal form; it reports whether p lies below prefix.
func (p Path) Cut(prefix string) (rest string, ok bool) { return p.Sent, false }
