package rules

import (
	"net"
	"net/netip"
	"net/url"
	pathpkg "path"
	"regexp"
	"strconv"
	"strings"
)

// hostName takes a name. One that ends in a number is an address, or a mistake in
// one, like 10.0.0.256.
var hostName = lazily(`^(` + nameLabel + `\.)*([0-9]*[A-Za-z_]([A-Za-z0-9_-]*[A-Za-z0-9_])?|[0-9]+-([A-Za-z0-9_-]*[A-Za-z0-9_]))\.?$`)

const nameLabel = `[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?`

// parseAddress reads an address to listen on: ":8080", "127.0.0.1:8080",
// "[::1]:8080", "localhost:8080", "unix:/run/gateway.sock" or "systemd:http". It
// returns it in one spelling.
func parseAddress(text string) (string, *TextError) {
	switch {
	case strings.HasPrefix(text, "unix:"):
		return parseSocketPath(text)
	case strings.HasPrefix(text, "systemd:"):
		if !socketName().MatchString(strings.TrimPrefix(text, "systemd:")) {
			return "", whole(text, "no name of a socket", "write systemd: and the FileDescriptorName of the .socket unit, as in systemd:http")
		}
		return text, nil
	}
	host, port, err := net.SplitHostPort(text)
	switch {
	case err != nil && digitsOnly().MatchString(text):
		return "", whole(text, "a port alone", `write ":`+text+`"`)
	case err != nil && strings.Contains(text, "://"):
		return "", whole(text, "a URL; an address is host:port", "leave out "+text[:strings.Index(text, "://")+len("://")])
	case err != nil && strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "["):
		return "", whole(text, "an IPv6 address stands in []", `write "`+inBrackets(text)+`"`)
	case err != nil:
		return "", whole(text, "not host:port", "write it like :8080, 127.0.0.1:8080 or \"[::]:8080\"")
	}
	if n, err := parseWhole(port); err != nil || n > 65535 || strings.Contains(port, "_") {
		return "", whole(text, "port "+quote(port)+"; a port is 0 to 65535", "")
	}
	if host == "*" {
		return "", whole(text, "a star is no address", `write ":`+port+`" for all addresses`)
	}
	if host == "" || hostName().MatchString(host) && !strings.HasPrefix(text, "[") {
		return net.JoinHostPort(strings.ToLower(host), port), nil
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return "", whole(text, quote(host)+" is neither a name nor an IP address", "")
	}
	return net.JoinHostPort(a.Unmap().String(), port), nil
}

// inBrackets writes an IPv6 address without brackets as one to listen on: the last
// part of ::1:8080 is taken for a port if it can be one and what is before it an address.
func inBrackets(text string) string {
	i := strings.LastIndexByte(text, ':')
	host, port := text[:i], text[i+1:]
	if n, err := parseWhole(port); err == nil && 0 < n && n <= 65535 {
		if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
			return "[" + host + "]:" + port
		}
		if a, err := netip.ParseAddr(host + ":"); err == nil && a.Is6() { // of :::8080
			return "[" + host + ":]:" + port
		}
	}
	return "[" + text + "]:8080"
}

// hostOf returns the host of an address that parseAddress made.
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// socketName is what systemd takes for the name of a socket, less what would not
// stand well in a file.
var socketName = lazily(`^[A-Za-z0-9_.@-]{1,255}$`)

// parseSocketPath reads the path of a unix socket to listen on.
func parseSocketPath(text string) (string, *TextError) {
	path := strings.TrimPrefix(text, "unix:")
	if strings.HasPrefix(path, "///") {
		path = path[2:]
	}
	switch {
	case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || len(path) < 2 || strings.HasSuffix(path, "/"):
		return "", whole(text, "the path of a unix socket is absolute", "write it like unix:/run/gateway.sock")
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", whole(text, "the path of a unix socket holds no control characters", "")
	}
	if path = pathpkg.Clean(path); len(path) > maxSocket {
		return "", whole(text, "the path of a unix socket has at most "+strconv.Itoa(maxSocket)+" bytes", "")
	}
	return "unix:" + path, nil
}

// loopback reports whether only this machine reaches the address.
func loopback(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host := hostOf(addr)
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// parseServer reads the URL of an upstream's server.
func parseServer(text string) (*url.URL, *TextError) {
	scheme, _, ok := strings.Cut(text, "://")
	switch {
	case strings.HasPrefix(text, "unix:"):
		return parseSocket(text)
	case !ok:
		return nil, whole(text, "not a URL", "write it like http://"+suggestHost(text))
	case scheme != "http" && scheme != "https" && scheme != "h2c":
		return nil, whole(text, "scheme "+quote(scheme)+"; use http, https, h2c or unix:", schemeHint(scheme, text[len(scheme):]))
	case strings.HasPrefix(text, "http://unix:"):
		return nil, whole(text, "a unix socket has no scheme before it", "write "+text[len("http://"):])
	}
	u, err := url.Parse(text)
	switch {
	case err != nil && strings.ContainsAny(text, ", ") && !strings.Contains(text, "@") && strings.Count(text, "://") > 1:
		return nil, whole(text, "several URLs in one text", "write a list: ["+strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), ", ")+"]")
	case err != nil && strings.Count(text, ":") > 3 && !strings.ContainsAny(text, "[]@"):
		return nil, whole(text, "not a URL: "+urlFault(err), "an IPv6 address stands in []")
	case err != nil:
		return nil, whole(text, "not a URL: "+urlFault(err), "")
	case u.User != nil:
		return nil, whole(text, "an upstream's URL takes no user and password", "")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, whole(text, "an upstream's URL takes no query", "cut it at the ?")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, whole(text, "an upstream's URL takes no fragment", "cut it at the #")
	case u.Hostname() == "":
		return nil, whole(text, "a URL without a host", "write it like http://localhost:3000")
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && !hostName().MatchString(u.Hostname()) {
		return nil, whole(text, quote(u.Hostname())+" is neither a name nor an IP address", "")
	}
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) || strings.HasSuffix(u.Host, ":") {
		return nil, whole(text, "port "+quote(u.Port())+"; a port is 1 to 65535", "")
	}
	if path, err := ReadPath(u.EscapedPath()); u.Path != "" && (err != nil || path.Dots || strings.Contains(u.Path, "//")) {
		return nil, whole(text, "a base path with . or .. or // in it", "")
	}
	u.Host = strings.ToLower(u.Host)
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// schemeHint says what to write instead of a scheme that is not known; rest is what
// follows it.
func schemeHint(scheme, rest string) string {
	switch lower := strings.ToLower(scheme); lower {
	case "http", "https", "h2c":
		return "write " + lower + rest
	case "ws", "tcp":
		return "write http" + rest
	case "wss", "tls", "ssl":
		return "write https" + rest
	case "grpc":
		return "write h2c" + rest
	case "grpcs":
		return "write https" + rest
	}
	return didYouMean(scheme, []string{"https"})
}

// suggestHost makes of what is no URL what may follow "http://".
func suggestHost(text string) string {
	switch {
	case digitsOnly().MatchString(text):
		return "localhost:" + text
	case strings.HasPrefix(text, ":"):
		return "localhost" + text
	case regexp.MustCompile(`^[A-Za-z0-9._-]+(:\d+)?(/.*)?$`).MatchString(text):
		return text
	}
	return "localhost:3000"
}

// urlFault returns the reason of an error of url.Parse without the URL, which may
// hold a password.
func urlFault(err error) string {
	if e, ok := err.(*url.Error); ok {
		return e.Err.Error()
	}
	return "unreadable"
}

// maxSocket is the most bytes that the path of a unix socket may have.
const maxSocket = 107

// parseSocket reads a unix socket: unix:/run/app.sock, or with a base path
// unix:/run/app.sock:/base.
func parseSocket(text string) (*url.URL, *TextError) {
	rest := strings.TrimPrefix(text, "unix:")
	if strings.HasPrefix(rest, "///") {
		rest = rest[2:]
	}
	socket, base, _ := strings.Cut(rest, ":/")
	switch {
	case !strings.HasPrefix(socket, "/") || strings.HasPrefix(socket, "//") || len(socket) < 2:
		return nil, whole(text, "the path of a unix socket is absolute", "write it like unix:/run/app.sock")
	case len(socket) > maxSocket:
		return nil, whole(text, "the path of a unix socket has at most "+strconv.Itoa(maxSocket)+" bytes", "")
	}
	u := &url.URL{Scheme: "unix", Opaque: socket}
	if base = strings.TrimRight(base, "/"); base == "" {
		return u, nil
	}
	path, err := url.ParseRequestURI("/" + base)
	if err != nil || path.RawQuery != "" || strings.ContainsAny(base, "?#") {
		return nil, whole(text, "a base path that is none", "write it like unix:/run/app.sock:/base")
	}
	if read, err := ReadPath(path.EscapedPath()); err != nil || read.Dots || strings.Contains(path.Path, "//") {
		return nil, whole(text, "a base path with . or .. or // in it", "")
	}
	u.Opaque, u.Path, u.RawPath = socket+":"+path.EscapedPath(), path.Path, path.RawPath
	return u, nil
}

// socketOf returns the path of the unix socket of a URL that parseServer made,
// or "".
func socketOf(u *url.URL) string {
	socket, _, _ := strings.Cut(u.Opaque, ":/")
	return socket
}
