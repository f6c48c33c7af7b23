package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
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

// adminListener returns the admin listener of the gateway that runs with the
// file: at the address as given, else at what the file says, also when it is
// broken at the moment, else at the default.
func adminListener(given, config string) (rules.Admin, error) {
	admin := rules.Defaults().Admin
	if path, err := findConfig(config); err == nil && path != "-" {
		if data, err := readConfig(path, nil); err == nil {
			admin = outside().FindAdmin(path, data)
		}
	}
	switch {
	case given != "":
		admin.Addr = given
	case admin.Off:
		return admin, &hintError{err: fmt.Errorf("the admin listener is off"), hint: "give it an address: admin: 127.0.0.1:9900"}
	}
	admin.Addr = reachable(admin.Addr)
	return admin, nil
}

// reachable returns the address at which to ask what listens on all of the
// machine's.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "127.0.0.1"
		if err == nil && host != "" && a.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// printErrors prints all errors of a file as an operator reads them.
func printErrors(w io.Writer, list rules.ErrorList, end string) {
	fmt.Fprintf(w, "%s\n%s%s\n", list.Error(), list.Count(), end)
}
