// Package statuspage opens the gateway's status page in a real browser: Debian's
// chromium, driven over its debugging protocol. What it needs is in bench/go.mod.
//
//	go test ./statuspage -args -picture
//
// makes the picture of the README, contrib/status-page.png, anew.
package statuspage
