package certs

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"

	"gateway/rules"
)

// challengePath is where a CA asks for the answer to an HTTP-01 challenge.
const challengePath = "/.well-known/acme-challenge/"

// Redirect returns the handler of the plain address beside https: it answers a CA's
// challenges, and sends all other requests to the same host and path on https, with
// their method (308). A host that there is no certificate for is 404: nobody can
// make links to the gateway that lead elsewhere.
func (m *Manager) Redirect() http.Handler {
	return m.Challenges(http.HandlerFunc(m.redirect))
}

// Challenges returns a handler that answers a CA's challenges, and passes all other
// requests on to next. What looks like a challenge and is none is 404.
func (m *Manager) Challenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, challengePath) {
			next.ServeHTTP(w, r)
			return
		}
		host, err := rules.NormalHost(r.Host)
		ed := m.current.Load()
		if err != nil || ed == nil || !ed.domains[host] || !ed.issuer.HandleHTTPChallenge(w, r) {
			refuse(w, http.StatusNotFound, "This is the place of a certificate authority's challenge, and there is none.")
		}
	})
}

func (m *Manager) redirect(w http.ResponseWriter, r *http.Request) {
	host, err := rules.NormalHost(r.Host)
	ed := m.current.Load()
	switch {
	case r.Method == http.MethodConnect:
		refuse(w, http.StatusMethodNotAllowed, "This gateway makes no tunnels: CONNECT is not allowed.")
	case err != nil || r.RequestURI == "*" || r.Method == "PRI":
		refuse(w, http.StatusBadRequest, "The request is malformed.")
	case ed == nil || !ed.knows(host):
		refuse(w, http.StatusNotFound, "There is no such host here.")
	default:
		if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			host = "[" + host + "]"
		}
		w.Header().Set("Location", "https://"+host+r.URL.RequestURI())
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusPermanentRedirect)
	}
}

// refuse answers with a problem, as the gateway does.
func refuse(w http.ResponseWriter, status int, detail string) {
	id := strings.ToLower(rand.Text())
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", id)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail, "instance": "urn:request:" + id,
	})
}
