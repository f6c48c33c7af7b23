package main

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"gateway/reload"
	"gateway/rules"
)

// outside is what files may take from the process and the machine.
func outside() rules.Outside {
	return rules.Outside{Env: os.LookupEnv, ReadFile: readSecret, Include: including(reload.ReadIncluded)}
}

// including reads included files with read.
func including(read func(pattern string) []reload.Included) func(string) []rules.Included {
	return func(pattern string) []rules.Included {
		files := read(pattern)
		list := make([]rules.Included, len(files))
		for i, f := range files {
			if list[i] = (rules.Included{Path: f.Path, Data: f.Data}); f.Err != nil {
				list[i].Err = f.Err.Error()
			}
		}
		return list
	}
}

// readSecret reads a file with a secret. The error does not repeat the path.
func readSecret(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, 0, bare(err)
	case !info.Mode().IsRegular(): // to open a pipe might wait for ever
		return nil, 0, errors.New("not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, bare(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, rules.MaxSecret+3)) // a newline may follow
	return data, info.Mode(), bare(err)
}
