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
}

func (o Outside) env(name string) (string, bool) {
	if o.Env == nil {
		return "", false
	}
	return o.Env(name)
}
