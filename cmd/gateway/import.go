package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gateway/rules/peers"
)

// importers read the files of other programs.
var importers = map[string]func(peers.Source) (*peers.Result, error){"nginx": peers.Nginx, "traefik": peers.Traefik, "caddy": peers.Caddy}

func newImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import nginx|traefik|caddy FILE",
		Short: "Write the limits of another proxy's file as rules",
		Long: "import reads the limits in a file of another proxy and prints a configuration with rules that come to the same:\n" +
			"limit_req and limit_conn of nginx, rateLimit and inFlightReq in a dynamic configuration of Traefik (YAML), and\n" +
			"the rate_limit directive of caddy-ratelimit in a Caddyfile. A comment says what means something else. What has no\n" +
			"equal is left out and said on stderr, with its line. Upstreams, certificates and the rest are not looked at.\n" +
			"FILE is - for stdin.",
		Example: "  gateway import nginx /etc/nginx/nginx.conf > gateway.yaml\n  gateway check",
		Args:    cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"nginx", "traefik", "caddy"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			read := importers[args[0]]
			if read == nil {
				return &usageError{"gateway import", fmt.Errorf("%q: nginx, traefik or caddy", args[0])}
			}
			source := peers.Source{Name: configName(args[1]), Read: readPeers}
			var err error
			if source.Data, err = readPeer(args[1], cmd.InOrStdin()); err != nil {
				return err
			}
			result, err := read(source)
			if err != nil {
				return err
			}
			for _, n := range result.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			if _, err := cmd.OutOrStdout().Write(result.Text); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "imported: %s; %s.\n", counted(result.Rules, "rule"), counted(len(result.Notes), "note"))
			return nil
		},
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// maxPeer is a little over what is imported, so that it is the importer that refuses.
const maxPeer = 4<<20 + 4096

// readPeer reads a file of another program.
func readPeer(path string, in io.Reader) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, maxPeer))
}

// readPeers reads the files that a pattern names, but for what is no file.
func readPeers(pattern string) ([]peers.Source, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(paths) > 1000 {
		return nil, fmt.Errorf("%d files; the most is 1000", len(paths))
	}
	var all []peers.Source
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		data, err := readPeer(path, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, peers.Source{Name: path, Data: data})
	}
	return all, nil
}
