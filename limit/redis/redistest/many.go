package redistest

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Sentinel is a sentinel with a master and a replica that it looks after.
type Sentinel struct {
	*Server
	// Name is what it calls them.
	Name string
	// Nodes are the two servers, in the order they were started in.
	Nodes [2]*Server
}

// StartSentinel starts two servers and a sentinel that takes a server that is gone
// for half a second for dead.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Name: "main"}
	s.Nodes[0] = Start(t, "--repl-diskless-sync-delay", "0")
	s.Nodes[1] = Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(s.Nodes[0].Port), "--repl-diskless-sync-delay", "0")
	s.Server = start(t, func(port int) []string {
		path := filepath.Join(t.TempDir(), "sentinel.conf")
		text := strings.Join([]string{
			"port " + strconv.Itoa(port), "bind 127.0.0.1", `save ""`,
			"sentinel monitor main 127.0.0.1 " + strconv.Itoa(s.Nodes[0].Port) + " 1",
			"sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 2000", "",
		}, "\n")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{path, "--sentinel"}
	})
	Eventually(t, "the replica follows its master", func() bool {
		return strings.Contains(s.Nodes[1].Do("INFO", "replication"), "master_link_status:up")
	})
	Eventually(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(s.Do("SENTINEL", "REPLICAS", s.Name), strconv.Itoa(s.Nodes[1].Port))
	})
	return s
}

// Master returns the server that the sentinel says is the master.
func (s *Sentinel) Master() *Server {
	s.t.Helper()
	addr := net.JoinHostPort("127.0.0.1", strings.TrimSpace(strings.Split(s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)+"\n", "\n")[1]))
	for _, n := range s.Nodes {
		if n.Addr == addr {
			return n
		}
	}
	return nil
}

// StartCluster starts a cluster of three nodes without replicas.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	nodes := make([]*Server, 3)
	for i := range nodes {
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no")
	}
	for i, n := range nodes {
		n.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*16384/3), strconv.Itoa((i+1)*16384/3-1))
		n.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(nodes[0].Port))
	}
	for _, n := range nodes {
		Eventually(t, "the cluster is complete", func() bool {
			info := n.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") && strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	return nodes
}
