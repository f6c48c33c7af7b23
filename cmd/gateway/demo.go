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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/rules"
)

// demoRules are the rules of gateway.example.yaml. An embedded file must lie
// beside the code, so it is a copy.
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
		printDemo(out, s.gateway.Current().Rules(), "http://"+s.public.Addrs()[0], "http://"+s.admin.Addrs()[0], "http://"+api.Addr().String())
	})
}

func printDemo(out io.Writer, set *rules.Set, gateway, admin, api string) {
	fmt.Fprintf(out, `%s
is the gateway, in front of a sample API at %[2]s. Its rules are those of gateway.example.yaml:

%[3]s
Try, in another terminal:

  # an answer, with its limit headers
  curl -i %[1]s/

  # five failed logins of a user in 15 minutes: 5 are let through to fail (401), then 429; bob still has his own five
  for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%%{http_code} ' -d username=ann %[1]s/login; done; echo

  # 100 at once for each address, whatever the path
  for i in $(seq 110); do curl -s -o /dev/null -w '%%{http_code} ' %[1]s/; done; echo

  # what a refused client is told
  curl -i %[1]s/

  # what the rules decided
  curl -s %[4]s/metrics | grep gateway_rule

Ctrl-C ends it. Requests are logged below.

`, gateway, api, describeAll(set), admin)
}

// describeAll says in numbers what the rules mean, as `gateway check` does.
func describeAll(set *rules.Set) string {
	var b strings.Builder
	describeRules(&b, set)
	return b.String()
}

// sampleAPI answers everything with what it was asked, but a login, which it
// always fails.
func sampleAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost && r.URL.Path == "/login" {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error": "wrong password"}`+"\n")
		return
	}
	json.NewEncoder(w).Encode(map[string]any{
		"hello": "from the sample API", "method": r.Method, "path": r.URL.Path,
		"client": r.Header.Get("X-Forwarded-For"), "request_id": r.Header.Get("X-Request-Id"),
	})
}
