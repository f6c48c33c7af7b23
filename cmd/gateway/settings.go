package main

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"gateway/rules"
)

func newConfig() *cobra.Command {
	var config, addr string
	var running, asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print all settings, with the defaults filled in",
		Long: "config prints all settings of a file, also those that it leaves to their defaults, as a file that\n" +
			"means the same. Secrets are ***, or named by the place they come from. With --running the settings\n" +
			"are those that the running gateway has in force.",
		Example: "  gateway config -c gateway.yaml\n  gateway config --running --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if running || addr != "" {
				path := "/config"
				if asJSON {
					path += "?format=json"
				}
				status, text, err := ask(cmd.Context(), http.MethodGet, path, addr, config, 10*time.Second)
				if err == nil && status != http.StatusOK {
					err = errors.New(text)
				}
				if err == nil {
					_, err = io.WriteString(cmd.OutOrStdout(), text)
				}
				return err
			}
			path, err := findConfig(config)
			if err != nil {
				return err
			}
			data, err := readConfig(path, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return settings(cmd.OutOrStdout(), cmd.ErrOrStderr(), configName(path), data, asJSON)
		},
	}
	configFlag(cmd, &config)
	f := cmd.Flags()
	f.BoolVar(&running, "running", false, "ask the running gateway")
	f.StringVar(&addr, "admin", "", "the `address` of the admin listener of the running gateway (default: what the file says)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// settings prints all settings of a file.
func settings(out, errs io.Writer, name string, data []byte, asJSON bool) error {
	file, err := outside().Parse(name, data)
	var text []byte
	if err == nil {
		text, err = file.Settings(outside(), asJSON)
	}
	if list, ok := errors.AsType[rules.ErrorList](err); ok {
		printErrors(errs, list, ".")
		return errSaid
	}
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}
