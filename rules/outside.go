package rules

import "io/fs"

// Outside is what a file may take from beside itself: variables of the
// environment and files with secrets. This package knows no operating system, so
// it is passed in. The zero Outside has nothing.
type Outside struct {
	// Env returns the value of a variable of the environment, and whether it is
	// set; nil is that none is.
	Env func(name string) (value string, set bool)
	// ReadFile returns what a file holds and its mode; nil is that none can be read.
	// More than MaxSecret bytes need not be read. An error is shown to the
	// operator and should not repeat the path.
	ReadFile func(path string) (data []byte, mode fs.FileMode, err error)
	// Include returns the files that a pattern stands for, as filepath.Match has it,
	// sorted, with what they hold; nil is that none can be included. More than a file
	// may have need not be read of any.
	Include func(pattern string) []Included
}

func (o Outside) include(pattern string) []Included {
	if o.Include == nil {
		return nil
	}
	return o.Include(pattern)
}

func (o Outside) env(name string) (string, bool) {
	if o.Env == nil {
		return "", false
	}
	return o.Env(name)
}
