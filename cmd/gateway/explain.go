package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gateway/rules"
)

// asked is a request as the command line describes it.
type asked struct {
	method, target, host, ip string
	headers, data            []string
	times                    int
}

func newExplain() *cobra.Command {
	var config string
	var asJSON bool
	a := asked{}
	cmd := &cobra.Command{
		Use:   "explain [METHOD] PATH|URL",
		Short: "Say what the rules of a file make of a request, and why",
		Long: "explain decides a request as a gateway that has just started with the file would, and says which route\n" +
			"takes it, which rules apply with which key and cost, why others do not, and what is answered. It sends nothing.",
		Example: "  gateway explain POST /login -H 'X-API-Key: k' --ip 192.0.2.9 -d username=ann\n" +
			"  gateway explain /search?q=x --host api.example.com --repeat 20 --json",
		Args:      cobra.RangeArgs(1, 2),
		ValidArgs: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.target = args[len(args)-1]
			if len(args) == 2 {
				a.method = args[0]
			}
			r, body, err := a.request()
			if err != nil {
				return &usageError{"gateway explain", err}
			}
			path, err := findConfig(config)
			if err != nil {
				return err
			}
			data, err := readConfig(path, cmd.InOrStdin())
			if err != nil {
				return err
			}
			snap, err := loadAlone(configName(path), data)
			if list, ok := errors.AsType[rules.ErrorList](err); ok {
				printErrors(cmd.ErrOrStderr(), list, ".")
				return errSaid
			} else if err != nil {
				return err
			}
			e := newExplanation(r, snap.Explain(r, body, a.times))
			if asJSON {
				return printJSON(cmd.OutOrStdout(), e)
			}
			e.print(cmd.OutOrStdout())
			return nil
		},
	}
	configFlag(cmd, &config)
	f := cmd.Flags()
	f.StringArrayVarP(&a.headers, "header", "H", nil, "a `header` of the request: 'Name: value'; may be repeated")
	f.StringArrayVarP(&a.data, "data", "d", nil, "the `body`, a form unless a Content-Type is given; makes it a POST")
	f.StringVar(&a.ip, "ip", "192.0.2.1", "the `address` the request comes from")
	f.StringVar(&a.host, "host", "", "the `host` that is asked for (default: that of the URL, or localhost)")
	f.IntVar(&a.times, "repeat", 1, "how many such requests come at the same moment, 1 to 10000")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// request makes the request as a server reads it.
func (a *asked) request() (*http.Request, []byte, error) {
	ip, err := netip.ParseAddr(strings.Trim(a.ip, "[]"))
	if err != nil {
		return nil, nil, fmt.Errorf("--ip %s: not an address", a.ip)
	}
	if a.times < 1 || a.times > 10_000 {
		return nil, nil, fmt.Errorf("--repeat %d: must be 1 to 10000", a.times)
	}
	body := strings.Join(a.data, "&")
	method := a.method
	if method == "" && a.data != nil {
		method = http.MethodPost
	} else if method == "" {
		method = http.MethodGet
	}
	host, target := "localhost", a.target
	if u, err := url.Parse(a.target); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		host = u.Host
		target = a.target[strings.Index(a.target, "://")+len("://"):]
		if i := strings.IndexAny(target, "/?#"); i < 0 {
			target = "/"
		} else if target = target[i:]; target[0] != '/' {
			target = "/" + target
		}
	}
	target, _, _ = strings.Cut(target, "#") // which no client sends
	if a.host != "" {
		host = a.host
	}
	if !strings.HasPrefix(target, "/") && target != "*" && method != http.MethodConnect {
		return nil, nil, fmt.Errorf("%s: neither a path that begins with / nor a URL", a.target)
	}
	var lines []string
	typed := false
	for _, h := range a.headers {
		name, value, ok := strings.Cut(h, ":")
		switch {
		case !ok || name == "" || strings.ContainsAny(h, "\r\n"):
			return nil, nil, fmt.Errorf("-H %q: write 'Name: value'", h)
		case strings.EqualFold(name, "Host"):
			host = strings.TrimSpace(value)
			continue
		case strings.EqualFold(name, "Content-Length"), strings.EqualFold(name, "Transfer-Encoding"):
			return nil, nil, fmt.Errorf("-H %q: the body says it", h)
		}
		typed = typed || strings.EqualFold(name, "Content-Type")
		lines = append(lines, h)
	}
	if a.data != nil && !typed {
		lines = append(lines, "Content-Type: application/x-www-form-urlencoded")
	}
	lines = slices.Concat([]string{method + " " + target + " HTTP/1.1", "Host: " + host}, lines)
	if a.data != nil {
		lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)))
	}
	text := strings.Join(lines, "\r\n") + "\r\n\r\n"
	if strings.ContainsAny(method+target+host, " \r\n") {
		return nil, nil, errors.New("a space or line break in the method, the path or the host")
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return nil, nil, fmt.Errorf("this is no request: %w", err)
	}
	r.RemoteAddr = net.JoinHostPort(ip.String(), "49152")
	return r, []byte(body), nil
}
