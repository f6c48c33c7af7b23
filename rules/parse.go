package rules

// Parse reads a file.
func Parse(name string, data []byte) (*File, error) { return &File{}, nil }
