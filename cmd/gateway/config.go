package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gateway/rules"
)

// configFlag adds -c to a command.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "the configuration `file`; - is stdin (default $GATEWAY_CONFIG, ./gateway.yaml or /etc/gateway/gateway.yaml)")
}

// findConfig returns the file to use: as given, else the first that there is.
func findConfig(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if env := os.Getenv("GATEWAY_CONFIG"); env != "" {
		return env, nil
	}
	places := []string{"gateway.yaml", "/etc/gateway/gateway.yaml"}
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", &hintError{
		err:  fmt.Errorf("no configuration file: neither %s is there", strings.Join(places, " nor ")),
		hint: "name one with -c, or try: gateway run --upstream http://localhost:3000 --limit 100/m",
	}
}

// readConfig reads a file that is not watched.
func readConfig(path string, in io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(in, maxConfig))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxConfig))
}

// maxConfig is a little over what Parse takes, so that it is Parse that refuses.
const maxConfig = 2<<20 + 4096

// stdinName is what positions in a file from stdin begin with.
const stdinName = "stdin"

func configName(path string) string {
	if path == "-" {
		return stdinName
	}
	return path
}

// adminAddr returns the address of the admin listener of the gateway that runs
// with the file: as given, else what the file says, also when it is broken at the
// moment, else the default.
func adminAddr(given, config string) (string, error) {
	if given != "" {
		return given, nil
	}
	admin := rules.Defaults().Admin
	if path, err := findConfig(config); err == nil && path != "-" {
		if data, err := readConfig(path, nil); err == nil {
			admin = rules.FindAdmin(data)
		}
	}
	if admin.Off {
		return "", &hintError{err: fmt.Errorf("the admin listener is off"), hint: "give it an address: admin: 127.0.0.1:9900"}
	}
	return admin.Addr, nil
}

// printErrors prints all errors of a file as an operator reads them.
func printErrors(w io.Writer, list rules.ErrorList, end string) {
	fmt.Fprintf(w, "%s\n%s%s\n", list.Error(), list.Count(), end)
}
