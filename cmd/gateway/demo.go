package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// demoRules are the rules of gateway.example.yaml, as far as they make sense
// without its groups of servers.
//
//go:embed demo.yaml
var demoRules string

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Try it: a sample API and a gateway in front of it, in one process",
		Long:  "demo starts a sample API and a gateway in front of it, on free ports of this machine,\nprints commands to try, and stays up until it is interrupted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), cmd)
		},
	}
}

func demo(ctx context.Context, cmd *cobra.Command) error {
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	sample := &http.Server{Handler: http.HandlerFunc(sampleAPI), ReadHeaderTimeout: 10 * time.Second}
	go sample.Serve(api)
	defer sample.Close()

	out := cmd.OutOrStdout()
	s := newServer("demo.yaml", out, cmd.ErrOrStderr(), "auto")
	file := "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog: { level: error }\nupstream: " +
		strconv.Quote("http://"+api.Addr().String()) + "\n" + demoRules
	return s.serveOnce(ctx, cmd, []byte(file), func() {
		s.access.SetFormat("text")
		printDemo(out, "http://"+s.public.Addrs()[0], "http://"+s.admin.Addrs()[0], "http://"+api.Addr().String())
	})
}

func printDemo(out io.Writer, gateway, admin, api string) {
	fmt.Fprintf(out, `%s
is the gateway, in front of a sample API at %s. Its rules:

%s
Try:

  curl -i %[1]s/                                   an answer with its limit headers
  for i in $(seq 110); do curl -s -o /dev/null -w '%%{http_code} ' %[1]s/; done; echo
                                                   100 pass, then 429
  curl -i %[1]s/                                   what a refused client is told
  for i in $(seq 6); do curl -s -o /dev/null -w '%%{http_code} ' -X POST %[1]s/login; done; echo
                                                   5 in 15 minutes
  curl -s %[4]s/metrics | grep gateway_rule        what the rules decided

Ctrl-C ends it. Requests are logged below.

`, gateway, api, indent(demoRules), admin)
}

func indent(text string) string {
	var b []byte
	start := true
	for i := range len(text) {
		if start && text[i] != '\n' {
			b = append(b, "  "...)
		}
		start = text[i] == '\n'
		b = append(b, text[i])
	}
	return string(b)
}

// sampleAPI answers everything with what it was asked.
func sampleAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"hello": "from the sample API", "method": r.Method, "path": r.URL.Path,
		"client": r.Header.Get("X-Forwarded-For"), "request_id": r.Header.Get("X-Request-Id"),
	})
}
