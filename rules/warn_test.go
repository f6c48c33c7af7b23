package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarningsNameWhatIsSeldomMeant(t *testing.T) {
	const (
		ip     = "- {name: ip, limit: 100/m}\n"
		key    = "- {name: key, key: header.X-Key, limit: 10/s}\n"
		public = "upstream: http://a\nrules:\n"
		groups = "groups: { g: { header.X-Key: abc } }\n"
	)
	for name, tt := range map[string]struct {
		text string
		want []string // position and message up to the first ":" or ","
	}{
		"nothing":                {public + ip, nil},
		"trusting everybody":     {"trusted_proxies: [0.0.0.0/0]\n" + public + ip, []string{"1:18 trusted_proxies takes in every address"}},
		"trusting IPv6":          {"trusted_proxies: [\"::/0\"]\n" + public + ip, []string{"1:18 trusted_proxies takes in every address"}},
		"no rules":               {"upstream: http://a\nrules: []\n", []string{"2:8 no rules"}},
		"exempt everything":      {"exempt: /**\n" + public + ip, []string{"1:9 exempt matches every request"}},
		"insecure":               {"upstreams: {a: {servers: https://a, tls: {insecure: true}}}\nrules:\n" + ip, []string{"1:53 insecure"}},
		"insecure, no":           {"upstreams: {a: {servers: https://a, tls: {insecure: false}}}\nrules:\n" + ip, nil},
		"slow heads":             {"timeouts: {read_header: 0}\n" + public + ip, []string{"1:25 read_header 0"}},
		"slow heads, absent":     {"timeouts: {read: 0}\n" + public + ip, nil},
		"route never reached":    {"upstreams: {a: http://a}\nroutes:\n- {match: /a/**}\n- {match: /a/b}\n- {}\nrules:\n" + ip, []string{"4:3 this route is never reached"}},
		"route after a catchall": {"upstreams: {a: http://a}\nroutes:\n- {}\n- {match: GET /a}\nrules:\n" + ip, []string{"4:3 this route is never reached"}},
		"no catch-all":           {"upstreams: {a: http://a}\nroutes:\n- {match: /a/**}\nrules:\n" + ip, []string{"2:1 no route takes everything"}},
		"priority alone":         {"upstreams: {a: http://a}\nroutes:\n- {match: /a/**}\n- {match: /b, priority: critical}\n- {priority: normal}\nrules:\n" + ip, []string{"4:15 priority without overload"}},
		"priority as without":    {"upstreams: {a: http://a}\nroutes:\n- {priority: normal}\nrules:\n" + ip, nil},
		"priority, overload":     {"overload: {max_in_flight: 9}\nupstreams: {a: http://a}\nroutes:\n- {priority: critical}\nrules:\n" + ip, nil},
		"unused upstream":        {"upstreams: {a: http://a, b: http://b}\nroutes: [{upstream: a}]\nrules:\n" + ip, []string{"1:26 no route leads to upstream \"b\""}},
		"long period":            {public + "- {name: a, limit: 1000/h}\n", []string{"3:20 all 1000 of 1000/h may come in one second"}},
		"long period, burst":     {public + "- {name: a, limit: 1000/h, burst: 10}\n", nil},
		"long period, shorter":   {public + ip + "- {name: a, key: host, limit: 1000/h}\n", nil},
		"long period, elsewhere": {public + "- {name: b, match: /b, limit: 9/m}\n- {name: a, match: /a, limit: 1000/h}\n", []string{"4:31 all 1000 of 1000/h may come in one second"}},
		"long window":            {public + "- {name: a, algorithm: fixed_window, limit: 5/d}\n", []string{"3:45 all 5 of 5/d may come in one second"}},
		"one a day":              {public + "- {name: a, limit: 1/d}\n", nil},
		"client-chosen key":      {public + key, []string{"3:20 the client chooses header.X-Key"}},
		"of no proxy, key":       {public + ip + "- {name: a, key: [ip, header.x-forwarded-for], limit: 9/s}\n", []string{"4:23 header.x-forwarded-for"}},
		"of no proxy, alone":     {public + "- {name: a, key: header.X-Real-IP, limit: 9/s}\n", []string{"3:18 header.X-Real-IP"}},
		"of no proxy, instead":   {public + ip + "- {name: a, key: host, missing: header.CF-Connecting-IP, limit: 9/s}\n", []string{"4:33 header.CF-Connecting-IP"}},
		"of no proxy, match":     {public + ip + "- {name: a, match: {not: {header.X-Forwarded-Proto: https}}, limit: 9/s}\n", []string{"4:27 header.X-Forwarded-Proto"}},
		"of no proxy, block":     {"block: {header.X-Original-URL: \"*\"}\n" + public + ip, []string{"1:9 header.X-Original-URL"}},
		"of no proxy, group":     {"groups: {g: {header.True-Client-IP: [a]}}\nexempt: {group: g}\n" + public + ip, []string{"1:14 header.True-Client-IP"}},
		"of no proxy, hash":      {"upstreams: {a: {servers: http://a, balance: {hash: header.Forwarded}}}\nroutes: [{upstream: a}]\nrules:\n" + ip, []string{"1:52 header.Forwarded"}},
		"of a proxy":             {"trusted_proxies: [private]\n" + public + ip + "- {name: a, key: header.X-Forwarded-Host, limit: 9/s}\n", nil},
		"client-chosen, ip":      {public + key + ip, nil},
		"client-chosen, global":  {public + key + "- {name: all, key: global, limit: 9/s}\n", nil},
		"client-chosen, dry run": {public + key + "- {name: ip, limit: 9/s, dry_run: true}\n", []string{"3:20 the client chooses header.X-Key"}},
		"client-chosen, other":   {public + key + "- {name: ip, match: /a, limit: 9/s}\n", []string{"3:20 the client chooses header.X-Key"}},
		"known":                  {groups + public + "- {name: key, key: header.X-Key, known: g, limit: 10/s}\n", nil},
		"known by half":          {groups + public + "- {name: key, key: [header.X-Key, header.Y], known: g, limit: 10/s}\n", []string{"4:20 the client chooses header.X-Key + header.Y"}},
		"known, another instead": {groups + public + "- {name: key, key: header.X-Key, known: g, missing: cookie.c, limit: 10/s}\n", []string{"4:20 the client chooses header.X-Key"}},
		"known, skip":            {groups + public + "- {name: key, key: header.X-Key, known: g, missing: skip, limit: 10/s}\n", []string{"4:20 missing"}},
		"unused group":           {groups + public + ip, []string{"1:11 group \"g\" is not used"}},
		"group of a tier":        {groups + public + "- {name: ip, limit: 100/m, tiers: {g: {limit: 9/m}}}\n", nil},
		"group of a match":       {groups + public + "- {name: ip, limit: 100/m, match: {not: {group: g}}}\n", nil},
		"group of exempt":        {groups + "exempt: {group: g}\n" + public + ip, nil},
		"group of block":         {groups + "block: [{group: g}]\n" + public + ip, nil},
		"long period of a tier":  {groups + public + "- {name: ip, limit: 100/m, tiers: {g: {limit: 900/h}}}\n", []string{"4:47 all 900 of 900/h may come in one second"}},
		"coarse in a tier":       {groups + public + "- {name: ip, algorithm: sliding_window, limit: 100/m, tiers: {g: {limit: 9/m}}}\n", []string{"4:74 sliding_window with a limit of 9"}},
		"skip uncovered": {public + "- {name: key, key: query.k, missing: skip, limit: 9/s}\n",
			[]string{"3:20 the client chooses query.k", "3:20 missing"}},
		"skip covered":        {public + ip + "- {name: key, key: query.k, missing: skip, limit: 9/s}\n", nil},
		"body, alone":         {public + "- {name: a, match: POST /login, key: body.user, limit: 5/m}\n", []string{"3:38 the client chooses body.user"}},
		"basic, alone":        {public + "- {name: a, key: basic.username, limit: 5/m}\n", []string{"3:18 the client chooses basic.username"}},
		"body and ip":         {public + ip + "- {name: a, match: POST /login, key: [body.user, ip], limit: 5/m}\n", nil},
		"count, body":         {public + ip + "- {name: a, key: [ip, body.user], limit: 5/m, count: {status: 401}}\n", []string{"4:18 count with ip + body.user"}},
		"count, body, reject": {public + ip + "- {name: a, key: body.user, missing: reject, limit: 5/m, count: {status: 401}}\n", nil},
		"count, body, skip":   {public + ip + "- {name: a, key: body.user, missing: skip, limit: 5/m, count: {status: 401}}\n", nil},
		"count, body, other":  {public + ip + "- {name: a, key: body.user, missing: host, limit: 5/m, count: {status: 401}}\n", nil},
		"count, header":       {public + ip + "- {name: a, key: header.X, limit: 5/m, count: {status: 401}}\n", nil},
		"body limit":          {"body_limit: 11MiB\n" + public + ip, []string{"1:13 body_limit 11MiB"}},
		"body limit, just":    {"body_limit: 10MiB\n" + public + ip, nil},
		"global alone":        {public + "- {name: all, key: global, limit: 9/s}\n", []string{"3:20 one counter for all clients"}},
		"global, per client":  {public + ip + "- {name: all, key: global, limit: 9/s}\n", nil},
		"private listeners":   {"listen: [127.0.0.1:8080, localhost:81, 10.0.0.1:80]\n" + public + ip, []string{"4:3 key ip"}},
		"one public listener": {"listen: [127.0.0.1:8080, \":80\"]\n" + public + ip, nil},
		"private, trusting":   {"listen: 127.0.0.1:8080\ntrusted_proxies: [private]\n" + public + ip, nil},
		"private sockets":     {"listen: [unix:/run/a.sock, 127.0.0.1:80]\n" + public + ip, []string{"4:3 key ip"}},
		"coarse estimate":     {public + "- {name: a, algorithm: sliding_window, limit: 19/m}\n", []string{"3:47 sliding_window with a limit of 19"}},
		"fine estimate":       {public + "- {name: a, algorithm: sliding_window, limit: 20/m}\n", nil},
		"small bucket":        {public + "- {name: a, limit: 1/m}\n", nil},
		"long log":            {public + "- {name: a, algorithm: sliding_window_log, limit: 10001/m}\n", []string{"3:51 sliding_window_log with a limit of 10001 remembers each of them"}},
		"long log, exactly":   {public + "- {name: a, algorithm: sliding_window_log, limit: 10000/m, max_keys: 1000}\n", nil},
		"many logs":           {public + "- {name: a, algorithm: sliding_window_log, limit: 17/m}\n", []string{"3:51 sliding_window_log remembers each request"}}, // 16 B x 17 x 1M > 256 MiB
		"many logs, few keys": {public + "- {name: a, algorithm: sliding_window_log, limit: 17/m, max_keys: 900000}\n", nil},
		"many windows":        {public + "- {name: a, algorithm: sliding_window, limit: 20000/m}\n", nil},
		"closed everywhere":   {public + "- {name: a, fail: closed, limit: 9/m}\n", []string{"3:3 fail"}},
		"closed somewhere":    {public + "- {name: a, fail: closed, match: /a/**, limit: 9/m}\n", nil},
		"open everywhere":     {public + "- {name: a, fail: open, limit: 9/m}\n", nil},
		"private, other key":  {"listen: 127.0.0.1:8080\n" + public + "- {name: a, key: host, limit: 9/s}\n", nil},
	} {
		var got []string
		for _, w := range parse(t, tt.text).Warnings {
			if !w.Warning || !strings.HasPrefix(w.Error(), w.Pos.String()+": warning: ") {
				t.Errorf("%s: %v is not marked as a warning", name, w)
			}
			msg, _, _ := strings.Cut(w.Msg, ":")
			msg, _, _ = strings.Cut(msg, ",")
			got = append(got, strings.TrimPrefix(w.Pos.String(), "gateway.yaml:")+" "+msg)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheExampleOfTheContractPrintsAsItSays(t *testing.T) {
	_, err := Parse("gateway.yaml", []byte(`upstream: http://localhost:3000
rules:
  - name: per-ip
    key: ip
    limt: 100/m
  - name: slow
    limit: 100/fortnight
`))
	list, _ := err.(ErrorList)
	const want = `gateway.yaml:5:5: unknown setting "limt" in rule "per-ip"
   5 |     limt: 100/m
     |     ^^^^  did you mean "limit"?
gateway.yaml:7:12: limit "100/fortnight": unknown unit "fortnight"; use s, m, h or d
   7 |     limit: 100/fortnight
     |            ^^^^^^^^^^^^^
2 errors`
	if got := list.Error() + "\n" + list.Count(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := list.Lines()[0]; got != `gateway.yaml:5:5: unknown setting "limt" in rule "per-ip"` {
		t.Errorf("one line: %s", got)
	}
}
