package peers

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nginx imports a configuration of nginx.
type nginx struct {
	importer
	zones   map[string]*zone
	maps    map[string]*nginxMap
	servers []*nginxServer
	bytes   int // read so far
}

// zone is where limit_req or limit_conn count.
type zone struct {
	at   *directive
	key  string
	rate rate // of limit_req
	used int
}

// level is what a block says of limits, or has from the one around it.
type level struct {
	req, conn             []*directive
	reqStatus, connStatus int
	reqDryRun, connDryRun bool
}

type nginxServer struct {
	names     []string
	byDefault bool
	locations []*location
}

// location is a place that requests go to.
type location struct {
	at   *directive
	kind string // "=", "^~", "", "~" or "~*"
	path string
	level
}

// Nginx imports the limits of a configuration of nginx.
func Nginx(s Source) (*Result, error) {
	n := &nginx{importer: importer{program: "nginx", source: s}, zones: map[string]*zone{}, maps: map[string]*nginxMap{}}
	all, err := n.parse(s, 0)
	if err != nil {
		return nil, err
	}
	http := all
	for _, d := range all {
		if d.name() == "http" && d.open {
			http = d.block
		}
	}
	n.definitions(http)
	root := level{reqStatus: 503, connStatus: 503}.under(http)
	for _, d := range http {
		if d.name() == "server" && d.open {
			n.server(d, root)
		}
	}
	if len(n.servers) == 0 { // a part of a configuration, with locations of its own perhaps
		n.server(&directive{file: s.Name, line: 1, words: []string{"server"}, block: http}, root)
	}
	n.uses()
	for name, z := range n.zones {
		if z.used == 0 {
			n.note(z.at.file, z.at.line, "zone %s is used nowhere", name[strings.IndexByte(name, ' ')+1:])
		}
	}
	return n.result()
}

// parse reads a file with all that it includes.
func (n *nginx) parse(s Source, depth int) ([]*directive, error) {
	if n.bytes += len(s.Data); n.bytes > maxSource {
		return nil, fmt.Errorf("%s: with all that it includes it is larger than 4 MiB", s.Name)
	}
	all, err := parseNginx(s.Name, string(s.Data))
	if err != nil {
		return nil, err
	}
	return n.include(all, depth)
}

// include puts what other files hold in the place of include.
func (n *nginx) include(all []*directive, depth int) ([]*directive, error) {
	var with []*directive
	for _, d := range all {
		var err error
		if d.block, err = n.include(d.block, depth); err != nil {
			return nil, err
		}
		if d.name() != "include" || len(d.words) != 2 || d.open {
			with = append(with, d)
			continue
		}
		if depth > 10 {
			return nil, fmt.Errorf("%s:%d: files include each other over 10 deep", d.file, d.line)
		}
		for _, other := range n.read(d) {
			more, err := n.parse(other, depth+1)
			if err != nil {
				n.note(d.file, d.line, "%s: %v", d, err)
				continue
			}
			with = append(with, more...)
		}
	}
	return with, nil
}

// read reads the files that an include names.
func (n *nginx) read(d *directive) []Source {
	if n.source.Read == nil || n.bytes > maxSource {
		n.note(d.file, d.line, "%s: not read", d)
		return nil
	}
	pattern := d.words[1]
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(n.source.Name), pattern)
	}
	files, err := n.source.Read(pattern)
	if err != nil {
		n.note(d.file, d.line, "%s: %v", d, err)
	} else if len(files) == 0 && !strings.ContainsAny(pattern, "*?[") {
		n.note(d.file, d.line, "%s: there is no such file", d)
	}
	return files
}

// definitions reads zones, maps and who may say who the client is.
func (n *nginx) definitions(block []*directive) {
	header := "X-Real-IP"
	var trusted []*directive
	var look func(block []*directive)
	look = func(block []*directive) {
		for _, d := range block {
			switch args := d.args(); d.name() {
			case "limit_req_zone", "limit_conn_zone":
				n.zone(d)
			case "map", "geo":
				n.defineMap(d)
			case "set_real_ip_from":
				trusted = append(trusted, d)
			case "real_ip_header":
				if len(args) == 1 {
					header = args[0]
				}
			case "limit_rate", "limit_zone":
				n.note(d.file, d.line, "%s: not imported", d)
			}
			if d.name() == "server" || d.name() == "location" {
				look(d.block)
			}
		}
	}
	look(block)
	for _, d := range trusted {
		peer := strings.Join(d.args(), " ")
		_, err := netip.ParsePrefix(peer)
		if _, other := netip.ParseAddr(peer); err != nil && other != nil {
			n.note(d.file, d.line, "%s: put who it is into trusted_proxies", d)
			continue
		}
		if !strings.EqualFold(header, "X-Forwarded-For") && header != "proxy_protocol" {
			n.note(d.file, d.line, "%s: nginx takes the client's address from %s of this peer, ours from X-Forwarded-For", d, header)
		}
		if !slices.Contains(n.trusted, peer) {
			n.trusted = append(n.trusted, peer)
		}
	}
}

// zone reads limit_req_zone KEY zone=NAME:SIZE rate=RATE, or limit_conn_zone.
func (n *nginx) zone(d *directive) {
	z := &zone{at: d}
	name := ""
	for _, arg := range d.args() {
		option, value, _ := strings.Cut(arg, "=")
		switch option {
		case "zone":
			name, _, _ = strings.Cut(value, ":")
		case "rate":
			count, unit, _ := strings.Cut(value, "r/")
			z.rate.count, _ = strconv.ParseInt(count, 10, 64)
			z.rate.period = map[string]time.Duration{"s": time.Second, "m": time.Minute}[unit]
		case "sync":
			n.note(d.file, d.line, "sync: each gateway counts for itself")
		default:
			if z.key == "" {
				z.key = arg
			}
		}
	}
	if _, ok := z.rate.text(); name == "" || z.key == "" || d.name() == "limit_req_zone" && !ok {
		n.note(d.file, d.line, "%s: not understood", d)
		return
	}
	n.zones[d.name()+" "+name] = z
}

// under returns the level of a block inside of l. Limits of its own replace those
// around it.
func (l level) under(block []*directive) level {
	var req, conn []*directive
	for _, d := range block {
		value := strings.Join(d.args(), " ")
		switch d.name() {
		case "limit_req":
			req = append(req, d)
		case "limit_conn":
			conn = append(conn, d)
		case "limit_req_status":
			l.reqStatus, _ = strconv.Atoi(value)
		case "limit_conn_status":
			l.connStatus, _ = strconv.Atoi(value)
		case "limit_req_dry_run":
			l.reqDryRun = value == "on"
		case "limit_conn_dry_run":
			l.connDryRun = value == "on"
		}
	}
	if req != nil {
		l.req = req
	}
	if conn != nil {
		l.conn = conn
	}
	for _, d := range block {
		if d.name() == "return" { // which comes before any limit
			l.req, l.conn = nil, nil
		}
	}
	return l
}

func (n *nginx) server(d *directive, outer level) {
	s := &nginxServer{byDefault: len(n.servers) == 0}
	for _, one := range d.block {
		switch one.name() {
		case "server_name":
			for _, name := range one.args() {
				switch {
				case strings.HasPrefix(name, "~"):
					n.note(one.file, one.line, "server_name %s: a regular expression; its requests are taken for those of another server", name)
				case name == "_" || name == "":
				case strings.HasPrefix(name, "."):
					s.names = append(s.names, strings.ToLower(name[1:]), "*"+strings.ToLower(name))
				default:
					s.names = append(s.names, strings.ToLower(name))
				}
			}
		case "listen":
			s.byDefault = s.byDefault || slices.Contains(one.args(), "default_server")
		}
	}
	l := outer.under(d.block)
	n.locations(s, d.block, l)
	if !slices.ContainsFunc(s.locations, func(o *location) bool { return o.kind != "=" && o.path == "/" }) {
		s.locations = append(s.locations, &location{at: d, path: "/", level: l})
	}
	n.servers = append(n.servers, s)
}

func (n *nginx) locations(s *nginxServer, block []*directive, outer level) {
	for _, d := range block {
		if d.name() != "location" || !d.open {
			continue
		}
		o := &location{at: d, level: outer.under(d.block)}
		switch args := d.args(); {
		case len(args) == 1:
			o.path = args[0]
			for _, kind := range []string{"^~", "~*", "=", "~"} { // also without a space
				if rest, ok := strings.CutPrefix(o.path, kind); ok {
					o.kind, o.path = kind, rest
					break
				}
			}
		case len(args) == 2:
			o.kind, o.path = args[0], args[1]
		}
		internal := strings.HasPrefix(o.path, "@") || slices.ContainsFunc(d.block, func(one *directive) bool { return one.name() == "internal" })
		if internal || o.path == "" {
			continue
		}
		s.locations = append(s.locations, o)
		n.locations(s, d.block, o.level)
	}
}

// use is a limit with the same numbers in some places.
type use struct {
	at     *directive
	zone   *zone
	name   string
	status int
	dryRun bool
	conn   bool
	places map[*location]bool
}

// uses makes a rule of each limit.
func (n *nginx) uses() {
	var all []*use
	find := func(o *location, d *directive, status int, dryRun bool) {
		kind := d.name()
		name := ""
		for i, arg := range d.args() {
			if value, ok := strings.CutPrefix(arg, "zone="); ok {
				name = value
			} else if kind == "limit_conn" && i == 0 {
				name = arg
			}
		}
		z := n.zones[kind+"_zone "+name]
		if z == nil {
			n.note(d.file, d.line, "%s: there is no such zone", d)
			return
		}
		i := slices.IndexFunc(all, func(u *use) bool {
			return u.zone == z && u.at.String() == d.String() && u.status == status && u.dryRun == dryRun
		})
		if i < 0 {
			i = len(all)
			all = append(all, &use{at: d, zone: z, name: name, status: status, dryRun: dryRun, conn: kind == "limit_conn", places: map[*location]bool{}})
			z.used++
		}
		all[i].places[o] = true
	}
	for _, s := range n.servers {
		for _, o := range s.locations {
			for _, d := range o.req {
				find(o, d, o.reqStatus, o.reqDryRun)
			}
			for _, d := range o.conn {
				find(o, d, o.connStatus, o.connDryRun)
			}
		}
	}
	for _, u := range all {
		n.rule(u)
	}
}

// rule makes rules of a limit: one for each key that its zone may have.
func (n *nginx) rule(u *use) {
	where, ok := n.where(u)
	if !ok {
		return
	}
	keys, err := n.keys(u.zone.key)
	if err != nil {
		n.note(u.at.file, u.at.line, "%s: its key %s: %v", u.at, u.zone.key, err)
		return
	}
	for _, k := range keys {
		m, ok := where.and(k.when)
		if !ok {
			n.note(u.at.file, u.at.line, "%s: too many conditions for one rule", u.at)
			return
		}
		r := &imported{
			file: u.at.file, line: u.at.line, from: u.at.String() + ", key " + u.zone.key, match: m,
			key: k.attributes, missing: k.missing, dryRun: u.dryRun, comments: slices.Clone(k.comments),
		}
		if u.zone.used > 1 {
			r.comment("nginx counts zone %s together wherever it is used; here each rule counts by itself", u.name)
		}
		if u.conn {
			r.concurrency, _ = strconv.ParseInt(u.at.words[len(u.at.words)-1], 10, 64)
		} else {
			n.burst(u, r)
		}
		switch {
		case u.status == 503:
			r.comment("nginx answers 503, ours is 429")
		case u.status != 429:
			r.status = u.status
		}
		n.add(u.name, r)
	}
}

// burst reads the numbers of limit_req. What nginx calls burst comes on top of the
// request that conforms to the rate; ours is all that may come at one instant.
func (n *nginx) burst(u *use, r *imported) {
	burst, delayed, noDelay := int64(0), "", false
	for _, arg := range u.at.args() {
		option, value, _ := strings.Cut(arg, "=")
		switch option {
		case "burst":
			burst, _ = strconv.ParseInt(value, 10, 64)
		case "delay":
			delayed = value
		case "nodelay":
			noDelay = true
		}
	}
	burst = min(max(burst, 0), 1e9)
	r.limit, _ = u.zone.rate.text()
	r.burst = burst + 1
	if burst > 0 {
		r.comment("burst: nginx's %d are on top of the first request; ours is the most at one instant", burst)
	}
	each := u.zone.rate.period / time.Duration(u.zone.rate.count)
	wait := (time.Duration(burst)*each + time.Duration(burst)).Round(time.Microsecond) + time.Microsecond // a place too few else
	switch {
	case burst == 0 || noDelay:
	case delayed != "" && delayed != "0":
		r.comment("delay=%s: nginx holds what comes after that back, to one each %v; ours go on at once", delayed, each.Round(time.Microsecond))
	case wait <= time.Minute && accepts(fmt.Sprintf("limit: %s, algorithm: leaky_bucket, max_wait: %v", r.limit, wait)):
		r.comments = nil
		r.comment("without nodelay nginx lets requests out one each %v, and %d wait", each.Round(time.Microsecond), burst)
		r.burst, r.algorithm, r.maxWait = 0, "leaky_bucket", wait.String()
	default:
		r.comment("without nodelay nginx holds those of the burst back, to one each %v; ours go on at once", each.Round(time.Microsecond))
	}
}

// where returns which requests the places of a limit take.
func (n *nginx) where(u *use) (match, bool) {
	var all match
	for i, s := range n.servers {
		var here match
		whole := true
		for _, o := range s.locations {
			if !u.places[o] {
				whole = false
				continue
			}
			m, ok := n.place(s, o, u)
			if !ok {
				return nil, false
			}
			here = append(here, m...)
		}
		if whole {
			here = everything()
		}
		if len(here) == 0 {
			continue
		}
		host, ok := here.and(n.host(i))
		if !ok || len(all)+len(host) > maxClauses {
			n.note(u.at.file, u.at.line, "%s: too many conditions for one rule", u.at)
			return nil, false
		}
		all = append(all, host...)
	}
	return all, len(all) > 0
}

// place returns which requests go to a location of u, without those that go to one
// of higher precedence that does not use it. Where that one does, the request is
// taken by it as well.
func (n *nginx) place(s *nginxServer, o *location, u *use) (match, bool) {
	m, err := o.match()
	if err != nil {
		n.note(o.at.file, o.at.line, "%s: %v", o.at, err)
		return nil, true // the other places remain
	}
	var others match
	for _, q := range s.locations {
		if u.places[q] || !q.takesFrom(o) {
			continue
		}
		other, err := q.match()
		if err != nil {
			n.note(u.at.file, u.at.line, "%s: also applies to what goes to %s, since %v", u.at, q.at, err)
			continue
		}
		others = append(others, other...)
	}
	return m.without(others), true
}

// takesFrom reports whether requests that o would take go to q instead.
func (q *location) takesFrom(o *location) bool {
	regexpOf := func(l *location) bool { return strings.HasPrefix(l.kind, "~") }
	switch {
	case q == o || o.kind == "=":
		return false
	case regexpOf(q):
		return !regexpOf(o) && o.kind != "^~" || regexpOf(o) && q.at.line < o.at.line
	case regexpOf(o):
		return q.kind != ""
	}
	return len(q.path) > len(o.path) && strings.HasPrefix(q.path, o.path) || q.kind == "=" && q.path == o.path
}

// match returns which requests have the path that a location is for.
func (o *location) match() (match, error) {
	switch {
	case strings.HasPrefix(o.kind, "~"):
		pattern := o.path
		if o.kind == "~*" {
			pattern = "(?i)" + pattern
		}
		return byRegexp(pattern)
	case !strings.HasPrefix(o.path, "/"):
		return nil, fmt.Errorf("the path does not begin with /")
	case o.kind == "=":
		return is("path", pathText(o.path)), nil
	}
	return is("path", beginning(o.path)), nil
}

// byRegexp is what a regular expression takes that is found anywhere in a path.
func byRegexp(pattern string) (match, error) {
	re, err := regexp.Compile(pattern)
	if err == nil && accepts(`limit: 1/s, match: { path: { regex: "/a" } }`) {
		return match{{conds: []cond{{field: "path", values: []string{"(?s:.*)(?:" + re.String() + ")(?s:.*)"}, regexp: true}}}}, nil
	}
	return nil, fmt.Errorf("a regular expression, %s, has no equal here", cmp.Or(pattern, `""`))
}

// beginning is what takes paths that begin so.
func beginning(path string) string {
	if strings.HasSuffix(path, "/") {
		return pathText(path) + "**"
	}
	return pathText(path) + "*/**"
}

// pathText writes a path, in which nothing has a meaning, for a pattern.
func pathText(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if strings.IndexByte("%?#{}<>[]^|\\\"`* \t$", c) >= 0 || c < ' ' || c == 0x7f || c == ':' && i > 0 && path[i-1] == '/' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// host returns which requests are for a server: those for its names, or for nobody
// else's.
func (n *nginx) host(i int) match {
	s := n.servers[i]
	var others []string
	same := true
	for j, other := range n.servers {
		if j != i {
			same = same && slices.Equal(s.names, other.names)
			for _, name := range other.names {
				if !slices.Contains(s.names, name) {
					others = append(others, name)
				}
			}
		}
	}
	switch {
	case same || len(s.names) == 0 && len(others) == 0:
		return everything()
	case s.byDefault || len(s.names) == 0:
		if len(others) == 0 {
			return everything()
		}
		return everything().without(is("host", others...))
	}
	return is("host", s.names...)
}
