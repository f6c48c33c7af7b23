package main

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// inheritedSockets returns the sockets that systemd has bound for this process
// (sd_listen_fds(3)), by the names their unit gives them. No child inherits them.
func inheritedSockets() map[string][]*os.File {
	sockets := map[string][]*os.File{}
	for _, f := range activation.Files(true) {
		sockets[f.Name()] = append(sockets[f.Name()], f)
	}
	return sockets
}

// warnUnused names the sockets on which clients would wait for ever.
func (s *server) warnUnused() {
	listen := s.gateway.Current().Rules().File.Listen
	for _, name := range slices.Sorted(maps.Keys(s.inherited)) {
		used := false
		for _, l := range listen {
			used = used || strings.TrimPrefix(l.Addr, "systemd:") == name && l.Addr != name
		}
		if !used {
			s.log.Warn("systemd has bound a socket that no listen names; who connects there waits",
				"socket", name, "write", "listen: systemd:"+name)
		}
	}
}

// pat tells systemd's watchdog that the process is alive, twice in each of its
// spans, until ctx ends. A process that is stuck does not, and is started anew.
// Without WatchdogSec= in the unit it does nothing.
func pat(ctx context.Context) {
	span, err := daemon.SdWatchdogEnabled(false)
	if err != nil || span <= 0 {
		return
	}
	tick := time.NewTicker(span / 2)
	defer tick.Stop()
	for {
		daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
