package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// logins is an API with a login: of everybody the one right password is "right".
type logins struct {
	*upstream
	wrong, right atomic.Int64
	hold         chan struct{} // closed when wrong passwords may be answered
}

func newLogins(t testing.TB) *logins {
	l := &logins{hold: make(chan struct{})}
	l.upstream = newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		var form struct{ Username, Password string }
		if err := json.NewDecoder(r.Body).Decode(&form); err != nil || form.Username == "" {
			w.WriteHeader(500) // the gateway has spoilt it
			return
		}
		if form.Password == "right" {
			l.right.Add(1)
			return
		}
		l.wrong.Add(1)
		<-l.hold
		w.WriteHeader(401)
	})
	return l
}

// login posts a user name and a password.
func (g *instance) login(user, password string, header ...string) (answer, error) {
	body, _ := json.Marshal(map[string]string{"username": user, "password": password})
	return g.post("/login", "application/json", string(body), header...)
}

func (g *instance) post(path, contentType, body string, header ...string) (answer, error) {
	req, err := http.NewRequest("POST", "http://"+g.addr+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", contentType)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	res, err := g.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text)}, err
}

// loginRule is the rule of the README, and an address rule that does not bite.
const loginRule = `
rules:
  - { name: per-ip, key: ip, limit: 1000/m }
  - name: login
    match: POST /login
    key: body.username
    limit: 5/15m
    algorithm: sliding_window_log
    count: { status: 401 }
    fail: closed
`

func TestFiftyParallelWrongPasswordsReachTheUpstreamFiveTimes(t *testing.T) {
	t.Parallel()
	up := newLogins(t)
	g := serve(t, ports+"upstream: "+up.URL+loginRule)
	const n = 50
	var mu sync.Mutex
	counts := map[int]int{}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a, err := g.login([]string{"ann", "Ann", " ANN "}[i%3], fmt.Sprint("guess ", i))
			if err != nil {
				t.Error(err)
			}
			if a.status == 429 && len(a.of("login").name) == 0 {
				t.Errorf("the refusal does not name the rule: %v", a.header)
			}
			if a.status == 401 && a.of("login").name != "" {
				t.Errorf("an answer tells what is left of a user's limit: %v", a.header)
			}
			mu.Lock()
			counts[a.status]++
			done := a.status == 429 && counts[429] == n-5
			mu.Unlock()
			if done { // the others are all at the upstream
				close(up.hold)
			}
		})
	}
	wg.Wait()
	if got := up.wrong.Load(); got != 5 || counts[401] != 5 || counts[429] != n-5 {
		t.Errorf("%d reached the upstream, answers %v; want 5, 5 × 401 and 45 × 429", got, counts)
	}
	// Used up for good now, for each way to send it, and for the right one too.
	for _, form := range []string{`{"username":"ann","password":"right"}`, `{"password":"right","\u0075SERNAME":"ann"}`} {
		a, err := g.post("/login", "text/plain", form)
		do(t, err)
		if wait := a.retryAfter(t); a.status != 429 || wait > 15*time.Minute || wait < 10*time.Minute {
			t.Errorf("%s: %d, Retry-After %v", form, a.status, wait)
		}
	}
	a, err := g.login("bob", "right")
	do(t, err)
	if a.status != 200 {
		t.Errorf("another user: %d", a.status)
	}
	if n := up.total(); n != 6 {
		t.Errorf("%d requests reached the upstream, want 6", n)
	}
}

func TestARightPasswordGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	up := newLogins(t)
	close(up.hold)
	g := serve(t, ports+"upstream: "+up.URL+loginRule)
	try := func(password string, want int) {
		t.Helper()
		a, err := g.login("ann", password)
		do(t, err)
		if a.status != want {
			t.Errorf("%s password: %d, want %d", password, a.status, want)
		}
	}
	for range 4 {
		try("wrong", 401)
	}
	for range 20 {
		try("right", 200)
	}
	try("wrong", 401)
	try("right", 429)
	if w, r := up.wrong.Load(), up.right.Load(); w != 5 || r != 20 {
		t.Errorf("%d wrong and %d right ones reached the upstream, want 5 and 20", w, r)
	}
}

func TestBodiesThatCanBeReadInTwoWaysAreRefused(t *testing.T) {
	t.Parallel()
	up := newLogins(t)
	close(up.hold)
	g := serve(t, ports+"upstream: "+up.URL+"\nbody_limit: 200B"+loginRule)
	for body, want := range map[string]int{
		`{"username":"decoy","password":"x","username":"ann"}`:      400,
		`{"username":"decoy","password":"x","USERNAME":"ann"}`:      400,
		`{"username":"ann","password":"x"} {"username":"decoy"}`:    400,
		"\ufeff" + `{"username":"ann","password":"x"}`:              400,
		`{"username":"ann","x":"` + strings.Repeat("x", 200) + `"}`: 413,
	} {
		for _, contentType := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"} {
			a, err := g.post("/login", contentType, body)
			do(t, err)
			if a.status != want || !strings.Contains(a.body, `"login"`) || strings.Contains(a.body, "decoy") {
				t.Errorf("%s as %s: %d %s, want %d", body, contentType, a.status, a.body, want)
			}
		}
	}
	if n := up.total(); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	if m := g.metrics(); m[`gateway_rule_decisions_total{result="failed_closed",rule="login",tier=""}`] != 20 {
		t.Errorf("failed_closed is %v, want 20", m[`gateway_rule_decisions_total{result="failed_closed",rule="login",tier=""}`])
	}
}

// Case K07, for values of bodies: they are kept nowhere.
func TestValuesOfBodiesAreInNoLogAndNoMetric(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	g := serve(t, ports+"log: { access: json, level: debug }\nupstream: "+up.URL+
		"\nrules:\n  - { name: a, key: [body.token, basic.username], limit: 1/365d, fail: closed }\n")
	const canary = "c4n4ry"
	want := []int{200, 429, 400}
	for i, body := range []string{`{"token":"` + canary + `"}`, `{"token":"` + canary + `"}`, `{"token":"` + canary + `",}`} {
		a, err := g.post("/", "application/json", body, "Authorization: Basic YzRuNHJ5OngK") // c4n4ry:x
		do(t, err)
		if a.status != want[i] || strings.Contains(fmt.Sprint(a.header)+a.body, canary) {
			t.Errorf("%s: %d %v %s, want %d", body, a.status, a.header, a.body, want[i])
		}
	}
	eventually(t, "three lines", func() bool { return strings.Count(g.out.String(), "\n") >= 3 })
	for where, text := range map[string]string{"access log": g.out.String(), "log": g.errs.String(), "metrics": g.control("GET", "/metrics").body} {
		if strings.Contains(strings.ToLower(text), canary) || strings.Contains(text, "YzRuNHJ5") {
			t.Errorf("the %s holds a value of a body:\n%s", where, text)
		}
	}
}

// Of every algorithm, and keyed on a body: a client that waits as told passes.
func TestOneThatWaitsAsToldPassesWhateverTheAlgorithm(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	algorithms := []string{"token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_window_log"}
	text := ports + "upstream: " + up.URL + "\nrules:\n"
	for _, a := range algorithms {
		text += fmt.Sprintf("  - { name: %s, match: /%s, key: body.user, limit: 3/2s, algorithm: %s }\n", strings.ReplaceAll(a, "_", "-"), a, a)
	}
	g := serve(t, text)
	var wg sync.WaitGroup
	for _, algorithm := range algorithms {
		wg.Go(func() {
			send := func() answer {
				a, err := g.post("/"+algorithm, "application/x-www-form-urlencoded", "user=ann")
				if err != nil {
					t.Error(err)
				}
				return a
			}
			for range 3 {
				var refused answer
				for range 1000 { // until one is refused, however slow the machine
					if refused = send(); refused.status == 429 {
						break
					}
				}
				if refused.status != 429 {
					t.Errorf("%s: a thousand passed", algorithm)
					return
				}
				wait := refused.retryAfter(t)
				if wait > 4*time.Second {
					t.Errorf("%s: Retry-After %v with a period of 2 s", algorithm, wait)
				}
				time.Sleep(wait) // what the client was told, no more
				if a := send(); a.status != 200 {
					t.Errorf("%s: %d after waiting %v, want 200", algorithm, a.status, wait)
				}
			}
		})
	}
	wg.Wait()
}
