package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newReload() *cobra.Command {
	var config, addr string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the running gateway read its file now, and wait for the outcome",
		Long:  "reload asks the running gateway to read its file, waits, and prints what changed,\nor the errors (and exits 1; the gateway runs on with what it had).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, text, err := ask(cmd.Context(), http.MethodPost, "/reload", addr, config, time.Minute)
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				fmt.Fprint(cmd.ErrOrStderr(), text)
				return errSaid
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			return nil
		},
	}
	configFlag(cmd, &config)
	cmd.Flags().StringVar(&addr, "admin", "", "the `address` of the admin listener (default: what the file says)")
	return cmd
}

func newHealthcheck() *cobra.Command {
	var config, addr string
	var alive bool
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit 0 if the gateway on this machine takes traffic",
		Long: "healthcheck exits 0 if the gateway on this machine takes traffic: its file is in force, it listens,\n" +
			"and it is not stopping. With --alive it exits 0 if the process answers at all.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/readyz"
			if alive {
				path = "/healthz"
			}
			status, text, err := ask(cmd.Context(), http.MethodGet, path, addr, config, 3*time.Second)
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("%s", strings.TrimSpace(text))
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			return nil
		},
	}
	cmd.Flags().BoolVar(&alive, "alive", false, "ask whether the process answers, not whether it takes traffic")
	configFlag(cmd, &config)
	cmd.Flags().StringVar(&addr, "admin", "", "the `address` of the admin listener (default: what the file says)")
	return cmd
}

// ask sends a request to the admin listener of the running gateway.
func ask(ctx context.Context, method, path, given, config string, patience time.Duration) (int, string, error) {
	return askForm(ctx, method, path, given, config, patience, nil)
}

// askForm is ask with a form in the body.
func askForm(ctx context.Context, method, path, given, config string, patience time.Duration, form url.Values) (int, string, error) {
	admin, err := adminListener(given, config)
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{} // no proxy of the environment between us
	host := admin.Addr
	if socket, ok := strings.CutPrefix(admin.Addr, "unix:"); ok {
		host = "localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}
	}
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, body)
	if err != nil {
		return 0, "", err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if admin.Token.IsSet() {
		req.Header.Set("Authorization", "Bearer "+admin.Token.Reveal())
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return 0, "", &hintError{
			err:  fmt.Errorf("asking the gateway at %s: %w", admin.Addr, err),
			hint: "is it running there? name another address with --admin",
		}
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		return 0, "", &hintError{
			err:  fmt.Errorf("the gateway at %s wants its token", admin.Addr),
			hint: "it is admin.token of its file: name the file with -c, and run as somebody who may read the token",
		}
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	return res.StatusCode, string(text), err
}
