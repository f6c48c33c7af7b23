package conformance

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// interop are the cases that gRPC's own script runs: all but those that need the
// credentials of a cloud, and pick_first_unary, which needs several servers.
var interop = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response",
	"status_code_and_message", "special_status_message", "custom_metadata",
	"unimplemented_method", "unimplemented_service",
	"rpc_soak", "channel_soak", "orca_per_rpc", "orca_oob",
}

func TestGRPCInterop(t *testing.T) {
	_, port := start(t, regexp.MustCompile(`listening on \S+:(\d+)`), "grpc-server", "--port=0")
	g := serve(t, "upstream: h2c://127.0.0.1:"+port+"\nrules: [{ name: all, key: global, limit: 1000000/s }]\n")
	host, port, err := net.SplitHostPort(g.addr)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, name := range interop {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(bin, "grpc-client"), "--server_host="+host, "--server_port="+port, "--test_case="+name,
				`--service_config_json={"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`, // for ORCA
				// Slowness is no failure here.
				"--soak_per_iteration_max_acceptable_latency_ms=60000", "--soak_overall_timeout_seconds=110")
			cmd.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=info")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			passed++
		})
	}
	if passed != len(interop) {
		t.Errorf("%d of %d cases pass", passed, len(interop))
	}
	t.Attr("S21", fmt.Sprintf("%d of %d cases", passed, len(interop)))
}
