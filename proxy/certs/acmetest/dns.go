package acmetest

import (
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// newDNS serves a DNS over TCP, in which all names that known says so are 127.0.0.1,
// and returns its address.
func newDNS(t testing.TB, known func(name string) bool) string {
	t.Helper()
	ln := listen(t, "127.0.0.1:0")
	ready := make(chan struct{})
	server := &dns.Server{Listener: ln, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		answer := new(dns.Msg)
		answer.SetReply(q)
		for _, question := range q.Question {
			name := strings.ToLower(strings.TrimSuffix(question.Name, "."))
			switch {
			case !known(name):
				answer.Rcode = dns.RcodeNameError
			case question.Qtype == dns.TypeA:
				answer.Answer = append(answer.Answer, &dns.A{
					Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
					A:   net.IPv4(127, 0, 0, 1),
				})
			}
		}
		w.WriteMsg(answer)
	})}
	go server.ActivateAndServe()
	<-ready
	t.Cleanup(func() { server.Shutdown() })
	return ln.Addr().String()
}
