package main

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"gateway/rules"
)

// outside is what files may take from the process and the machine.
func outside() rules.Outside {
	return rules.Outside{Env: os.LookupEnv, ReadFile: readSecret}
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
