package upstream

import (
	"net/http"
	"net/url"
	"strings"
)

// SentPath returns the escaped path of r, byte for byte as its client sent it.
// r.URL cannot say: it writes some paths differently from how they came.
func SentPath(r *http.Request) string {
	uri := r.RequestURI
	if !strings.HasPrefix(uri, "/") {
		_, rest, absolute := strings.Cut(uri, "://")
		if !absolute {
			return r.URL.EscapedPath()
		}
		at := strings.IndexAny(rest, "/?")
		if at < 0 || rest[at] == '?' {
			return "/"
		}
		uri = rest[at:]
	}
	path, _, _ := strings.Cut(uri, "?")
	return path
}

// direct points out at s, with path behind its base path.
func (s *Server) direct(out *http.Request, path string, ownHost bool) {
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	out.URL.Scheme = s.scheme
	out.URL.Host = s.address()
	setPath(out.URL, s.base+path)
	if ownHost {
		out.Host = s.host
	}
}

// setPath makes u.RequestURI return path as it is. Opaque does that for every
// path but one that begins with //, which it takes for an authority; RawPath does
// for those, and has the octets escaped that it cannot hold.
func setPath(u *url.URL, path string) {
	if path == "" {
		path = "/"
	}
	if strings.Contains(path, "#") {
		path = strings.ReplaceAll(path, "#", "%23")
	}
	if !strings.HasPrefix(path, "//") {
		u.Opaque = path
		return
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		plain = path
	}
	u.Opaque, u.Path, u.RawPath = "", plain, path
}
