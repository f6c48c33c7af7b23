package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gateway/rules"
)

func newRun() *cobra.Command {
	var config, upstream, rate, listen, admin, color string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve",
		Long: "run serves the configuration file and applies it anew whenever it is saved.\n" +
			"With --upstream and --limit no file is needed: each address gets that limit.\n" +
			"With --dry-run every rule decides, counts and is logged, and none refuses; block, limits and overload hold.",
		Example: "  gateway run -c gateway.yaml\n  gateway run --upstream http://localhost:3000 --limit 100/m",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case upstream == "" && rate == "" && listen == "" && admin == "":
			case config != "":
				return &usageError{"gateway run", errors.New("--upstream, --limit, --listen and --admin replace the file: leave out -c")}
			case upstream == "" || rate == "":
				return &usageError{"gateway run", errors.New("--upstream and --limit go together: gateway run --upstream http://localhost:3000 --limit 100/m")}
			}
			if color != "auto" && color != "always" && color != "never" {
				return &usageError{"gateway run", fmt.Errorf("--color %s: use auto, always or never", color)}
			}
			b := ballast(runBallast)
			defer runtime.KeepAlive(b)
			if upstream != "" {
				s := newServer("command line", cmd.OutOrStdout(), cmd.ErrOrStderr(), color)
				s.dryRun = dryRun
				return s.serveOnce(cmd.Context(), cmd, fileFromFlags(upstream, rate, listen, admin), nil)
			}
			return serveFile(cmd, config, color, dryRun)
		},
	}
	configFlag(cmd, &config)
	f := cmd.Flags()
	f.StringVar(&upstream, "upstream", "", "the `URL` of your API, in place of a file")
	f.StringVar(&rate, "limit", "", "how much each address may do, as in 100/m")
	f.StringVar(&listen, "listen", "", "the `address` to listen on, in place of a file (default :8080)")
	f.StringVar(&admin, "admin", "", "the `address` of the admin listener, or off, in place of a file (default 127.0.0.1:9900)")
	f.BoolVar(&dryRun, "dry-run", false, "let everything pass, and say what each rule would refuse")
	f.StringVar(&color, "color", "auto", "colours in the log: auto, always or never")
	return cmd
}

// fileFromFlags writes the file that the flags stand for. What is quoted cannot
// become anything but a value.
func fileFromFlags(upstream, rate, listen, admin string) []byte {
	value := func(text string) string { return strconv.Quote(strings.ReplaceAll(text, "$", "$$")) + "\n" }
	text := "upstream: " + value(upstream)
	if listen != "" {
		text += "listen: " + value(listen)
	}
	if admin != "" {
		text += "admin: " + value(admin)
	}
	return []byte(text + "rules:\n  - name: per-ip\n    key: ip\n    limit: " + value(rate))
}

// serveFile serves the file at path and follows it.
func serveFile(cmd *cobra.Command, config, color string, dryRun bool) error {
	path, err := findConfig(config)
	if err != nil {
		return err
	}
	s := newServer(configName(path), cmd.OutOrStdout(), cmd.ErrOrStderr(), color)
	s.dryRun = dryRun
	if path == "-" {
		data, err := readConfig(path, cmd.InOrStdin())
		if err != nil {
			return err
		}
		return s.serveOnce(cmd.Context(), cmd, data, nil)
	}
	s.log.queue.Start()
	defer s.log.queue.Close()
	s.follow(path)
	first, err := s.loop.Load(cmd.Context())
	if err != nil {
		return startProblem(cmd, err)
	}
	if first.Warning != "" {
		s.log.Warn("configuration", "warning", first.Warning)
	}
	return s.serve(cmd.Context(), nil)
}

// serveOnce serves a configuration that no file holds.
func (s *server) serveOnce(ctx context.Context, cmd *cobra.Command, data []byte, ready func()) error {
	s.log.queue.Start()
	defer s.log.queue.Close()
	if _, err := s.apply(ctx, data); err != nil {
		return startProblem(cmd, err)
	}
	return s.serve(ctx, ready)
}

// startProblem prints the errors of a file that keeps the gateway from starting.
func startProblem(cmd *cobra.Command, err error) error {
	if list, ok := errors.AsType[rules.ErrorList](err); ok {
		printErrors(cmd.ErrOrStderr(), list, "; nothing is running.")
		return errSaid
	}
	return err
}
