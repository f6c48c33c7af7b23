package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"gateway/proxy/admin"
)

// version is set by release builds; otherwise the build information says it.
var version string

// build says what runs.
func build() admin.Build {
	b := admin.Build{Version: version, Revision: "unknown", GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which gateway this is",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := build()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{
					"version": b.Version, "revision": b.Revision, "goversion": b.GoVersion,
				})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "gateway %s (%s, %s)\n", b.Version, b.Revision, b.GoVersion)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
