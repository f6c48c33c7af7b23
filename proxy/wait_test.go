package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gateway/limit"
)

// virtual is a gateway inside a bubble, whose clock goes on when nothing else
// does. Its routes answer themselves.
type virtual struct {
	t       *testing.T
	gateway *Gateway
	access  *lines
	start   time.Time
}

// ask sends a request from the client's address and returns the answer, and when
// it came.
func (v *virtual) ask(ctx context.Context, client int, path string) (res *http.Response, at time.Duration) {
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", client)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		v.gateway.ServeHTTP(w, r)
	}()
	return w.Result(), time.Since(v.start)
}

const answering = `
upstreams: { none: "http://127.0.0.1:1" }
routes: [{ match: /**, respond: { status: 200, body: ok } }]
`

func inBubble(t *testing.T, rules string, do func(t *testing.T, v *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := &virtual{t: t, access: &lines{}, start: time.Now()}
		log := NewAccessLog(v.access, "json")
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { log.Run(ctx) })
		v.gateway = New(Config{Clock: NewClock(), Access: log}, build(t, answering+rules, nil))
		do(t, v)
		stop()
		wg.Wait()
		v.gateway.Close()
	})
}

// A thousand requests of one client at 100 a second: one leaves every 10 ms. Half
// of those that wait hang up at some time: those that stay leave at their turns,
// never closer than 10 ms, and nothing is left of anybody.
func TestOfAThousandWaitersHalfHangUp(t *testing.T) {
	inBubble(t, "rules: [{ name: even, limit: 100/s, algorithm: leaky_bucket, max_wait: 10s }]\n", func(t *testing.T, v *virtual) {
		var mu sync.Mutex
		var left []time.Duration
		var all sync.WaitGroup
		for i := range 1001 {
			ctx, hangUp := context.WithCancel(context.Background())
			all.Go(func() {
				res, at := v.ask(ctx, 1, "/")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case i%2 == 1:
					if len(left) > 0 && res.Header.Get("RateLimit") != "" {
						t.Errorf("request %d was answered", i)
					}
				case res.StatusCode != 200:
					t.Errorf("request %d: %d", i, res.StatusCode)
				default:
					left = append(left, at)
				}
			})
			synctest.Wait() // in the order of their arrival
			if i%2 == 1 {   // each before its own turn, at 10 ms × i
				time.AfterFunc(time.Duration(i)*10*time.Millisecond/2, hangUp)
			} else {
				defer hangUp()
			}
		}
		if res, _ := v.ask(t.Context(), 1, "/"); res.StatusCode != 429 {
			t.Errorf("with 1000 places taken: %d", res.StatusCode)
		}
		if v.gateway.Waiting() != 1000 {
			t.Errorf("%d wait, want 1000", v.gateway.Waiting())
		}
		all.Wait()
		for i, at := range left {
			if want := time.Duration(2*i) * 10 * time.Millisecond; at != want {
				t.Fatalf("departure %d is at %v, want %v", i, at, want)
			}
		}
		if len(left) != 501 || v.gateway.Waiting() != 0 || v.gateway.InFlight() != 0 {
			t.Errorf("%d left, %d wait, %d are in flight", len(left), v.gateway.Waiting(), v.gateway.InFlight())
		}
		rule := v.gateway.Current().rules.Rules[0]
		if a, w, r := rule.Base.Live.Allowed.Load(), rule.Base.Live.Waited.Load(), rule.Base.Live.Rejected.Load(); a != 1 || w != 1000 || r != 1 {
			t.Errorf("%d passed at once, %d waited, %d were refused; want 1, 1000, 1", a, w, r)
		}
		time.Sleep(11 * time.Second) // on the clock of the bubble
		rule.Base.Live.Table.Sweep(v.gateway.Now())
		if st := rule.Base.Live.Table.Stats(); st.Keys != 0 || st.Bytes != 0 {
			t.Errorf("%+v is left", st)
		}
	})
}

// The last of a queue that hangs up gives its place to the next.
func TestTheLastThatHangsUpGivesItsPlaceBack(t *testing.T) {
	inBubble(t, "rules: [{ name: even, limit: 1/s, algorithm: leaky_bucket, max_wait: 2s }]\n", func(t *testing.T, v *virtual) {
		var all sync.WaitGroup
		ask := func(ctx context.Context, want time.Duration) {
			all.Go(func() {
				if _, at := v.ask(ctx, 1, "/"); at != want {
					t.Errorf("answered at %v, want %v", at, want)
				}
			})
			synctest.Wait()
		}
		ask(t.Context(), 0)
		ask(t.Context(), time.Second)
		ctx, hangUp := context.WithCancel(t.Context())
		ask(ctx, 300*time.Millisecond)
		if res, _ := v.ask(t.Context(), 1, "/"); res.StatusCode != 429 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("with both places taken: %d, Retry-After %s", res.StatusCode, res.Header.Get("Retry-After"))
		}
		time.Sleep(300 * time.Millisecond)
		hangUp()
		synctest.Wait()
		ask(t.Context(), 2*time.Second)
		all.Wait()
	})
}

// Over HTTP/1 nothing is heard of a client while its body has not been read, and yet
// what it sent is not done in its name long after it has left, whether all of the body
// has come or some, in the clear or in TLS.
func TestAClientThatHangsUpWithItsBodyUnreadWaitsNoLonger(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, sent := range []string{"", "half", "a whole"} {
			text := "rules: [{ name: even, key: global, limit: 1/m, algorithm: leaky_bucket, max_wait: 60s }]\n"
			s := newSite(t, "upstream: UPSTREAM\n"+text, nil)
			dial := func() net.Conn { return s.from("127.0.0.1") }
			if secure {
				s.uses(secured(t), Address{Secure: true})
				dial = func() net.Conn { return s.secureDial("http/1.1") }
			}
			first, conn := dial(), dial()
			fmt.Fprint(first, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if res, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || res.StatusCode != 200 {
				t.Fatalf("the first did not pass: %v %v", res, err)
			}
			fmt.Fprintf(conn, "POST /pay HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n%s", sent)
			eventually(t, "the request waits", func() bool { return s.gateway.waiting.Load() == 1 })
			conn.Close()
			eventually(t, "it waits no longer", func() bool { return s.gateway.waiting.Load() == 0 })
			s.idle()
			if asked := s.requests(); len(asked) != 1 {
				t.Errorf("TLS %v, body %q: the upstream was asked %d times, want once, by who stayed", secure, sent, len(asked))
			}
		}
	}
}

// Headers and the log tell the truth: what waits is used, Retry-After is enough,
// and what a held request is told is as of when it leaves.
func TestWhatIsToldOfTheQueue(t *testing.T) {
	inBubble(t, "rules: [{ name: even, limit: 2/s, algorithm: leaky_bucket, max_wait: 1s }]\nratelimit_headers: both\n", func(t *testing.T, v *virtual) {
		var all sync.WaitGroup
		for i, want := range []string{
			`"even";r=2;t=1`, // at 0 s; half a second until the queue is idle
			`"even";r=1;t=1`, // at 0.5 s one waits, for half a second more
			`"even";r=2;t=1`, // at 1 s nobody waits
		} {
			all.Go(func() {
				res, at := v.ask(t.Context(), 1, "/")
				if got := sent(res, "RateLimit")[0]; got != want || at != time.Duration(i)*500*time.Millisecond {
					t.Errorf("request %d at %v: %s, want %s", i, at, got, want)
				}
				if got := sent(res, "RateLimit-Policy")[0]; got != `"even";q=2;w=1` {
					t.Errorf("policy %s", got)
				}
				now := v.start.Add(at).Unix()
				if reset, _ := strconv.ParseInt(sent(res, "X-RateLimit-Reset")[0], 10, 64); reset < now || reset > now+2 {
					t.Errorf("request %d: X-RateLimit-Reset %d at %d", i, reset, now)
				}
			})
			synctest.Wait()
		}
		res, _ := v.ask(t.Context(), 1, "/")
		after, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if res.StatusCode != 429 || err != nil || sent(res, "RateLimit")[0] != `"even";r=0;t=1` {
			t.Fatalf("with both places taken: %d, %v", res.StatusCode, res.Header)
		}
		time.Sleep(time.Duration(after)*time.Second + 100*time.Millisecond)
		if res, at := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 || at != 1500*time.Millisecond {
			t.Errorf("after Retry-After: %d at %v", res.StatusCode, at)
		}
		all.Wait()
		synctest.Wait()
		time.Sleep(2 * time.Second) // what the log holds back is written
		waited, ats := []float64{}, map[int64]bool{}
		for _, line := range v.access.all() {
			var r struct {
				At, Seq  int64
				Waited   float64
				Duration float64
				Result   string
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			ats[r.At-v.start.UnixNano()] = true
			if waited = append(waited, r.Waited); r.Result == "allowed" && r.Duration != r.Waited {
				t.Errorf("a request that waited %v took %v", r.Waited, r.Duration)
			}
		}
		if fmt.Sprint(waited) != "[0 0 0.5 1 0.4]" { // the refused one among them; ends in order
			t.Errorf("waited %v", waited)
		}
		if len(ats) != 2 || !ats[0] || !ats[int64(1100*time.Millisecond)] { // they are decided as they come
			t.Errorf("decided at %v", ats)
		}
	})
}

// A request that waits holds no slot; when its turn comes there must be one, or it
// is refused and has cost nothing.
func TestSlotsAreTakenWhenTheTurnComes(t *testing.T) {
	const file = `
rules:
  - { name: even, limit: 1/s, algorithm: leaky_bucket, max_wait: 5s }
  - { name: few, key: global, concurrency: 1 }
  - { name: quota, limit: 10/h }
`
	inBubble(t, file, func(t *testing.T, v *virtual) {
		set := v.gateway.Current().rules
		few, quota := set.Rule("few"), set.Rule("quota")
		var slot [1]limit.Claim
		taken := func() limit.Grant { // by somebody else
			slot[0] = limit.Claim{Table: few.Base.Live.Table, Gen: 1, Key: v.keyOf("few"), N: 1}
			g, verdict := v.gateway.limiter.Acquire(t.Context(), v.gateway.Now(), slot[:])
			if !verdict.OK {
				t.Error("the slot is taken")
			}
			return g
		}
		v.ask(t.Context(), 1, "/")
		var all sync.WaitGroup
		all.Go(func() {
			res, at := v.ask(t.Context(), 1, "/")
			if at != time.Second || res.StatusCode != 429 || !strings.Contains(fmt.Sprint(sent(res, "RateLimit")), `"few";r=0`) {
				t.Errorf("without a slot: %d at %v, %v", res.StatusCode, at, sent(res, "RateLimit"))
			}
		})
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		g := taken() // while it waits its slot is anybody's
		all.Wait()
		g.Done(v.gateway.Now(), nil)
		if few.Base.Live.Rejected.Load() != 1 || quota.Base.Live.Table.Stats().Keys != 1 {
			t.Errorf("few refused %d", few.Base.Live.Rejected.Load())
		}
		for _, u := range v.gateway.Usage(quota, v.keyOf("quota", "192.0.2.1")) {
			if u.Left != 9 { // the first alone
				t.Errorf("%d of the quota are left, want 9", u.Left)
			}
		}
		// Its turn was the last: the next has it.
		if res, at := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 || at != time.Second {
			t.Errorf("the next: %d at %v", res.StatusCode, at)
		}
		if u := v.gateway.Usage(few, v.keyOf("few")); u[0].Left != 1 {
			t.Errorf("slots left: %d", u[0].Left)
		}
	})
}

// keyOf returns the digest that a rule has for values.
func (v *virtual) keyOf(rule string, values ...string) limit.Digest {
	v.t.Helper()
	set := v.gateway.Current().rules
	k, err := set.FindKey(set.Rule(rule), values, false)
	if err != nil {
		v.t.Fatal(err)
	}
	return k
}

// The process holds ten thousand at most; who comes then is told so and has cost
// nothing.
func TestTheProcessHoldsTenThousandWaiters(t *testing.T) {
	inBubble(t, "rules: [{ name: even, limit: 10/s, algorithm: leaky_bucket, max_wait: 10s, key: global }]\n", func(t *testing.T, v *virtual) {
		v.ask(t.Context(), 1, "/")
		v.gateway.waiting.Store(maxWaiting)
		res, _ := v.ask(t.Context(), 1, "/")
		if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || v.gateway.Waiting() != maxWaiting {
			t.Errorf("%d, %v, %d wait", res.StatusCode, res.Header, v.gateway.Waiting())
		}
		v.gateway.waiting.Store(maxWaiting - 1)
		if res, at := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 || at != 100*time.Millisecond {
			t.Errorf("with a place: %d at %v", res.StatusCode, at)
		}
	})
}

// A token bucket with patience passes what it can and lets the rest wait.
func TestABucketWithMaxWaitHoldsWhatItWouldRefuse(t *testing.T) {
	inBubble(t, "rules: [{ name: calm, limit: 2/s, max_wait: 1s }]\n", func(t *testing.T, v *virtual) {
		var all sync.WaitGroup
		for i, want := range []time.Duration{0, 0, 500 * time.Millisecond, time.Second} {
			all.Go(func() {
				if res, at := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 || at != want {
					t.Errorf("request %d: %d at %v, want %v", i, res.StatusCode, at, want)
				}
			})
			synctest.Wait()
		}
		if res, _ := v.ask(t.Context(), 1, "/"); res.StatusCode != 429 || sent(res, "RateLimit")[0] != `"calm";r=0;t=2` {
			t.Errorf("the fifth: %d, %v", res.StatusCode, sent(res, "RateLimit"))
		}
		all.Wait()
	})
}

// Refusals over `after` block, and the answer says so, honestly.
func TestAPenaltyIsToldAndHolds(t *testing.T) {
	const file = `
rules:
  - { name: strict, limit: 1/m, penalty: { after: 2/m, block: 5m } }
  - { name: beside, limit: 100/m }
`
	inBubble(t, file, func(t *testing.T, v *virtual) {
		set := v.gateway.Current().rules
		for i, want := range []struct {
			status int
			after  string
			kind   string
		}{
			{200, "", ""}, {429, "60", "quota-exceeded"}, {429, "60", "quota-exceeded"},
			{429, "300", "abnormal-usage-detected"}, {429, "300", "abnormal-usage-detected"},
		} {
			res, _ := v.ask(t.Context(), 1, "/")
			body := make([]byte, 1000)
			n, _ := res.Body.Read(body)
			if res.StatusCode != want.status || res.Header.Get("Retry-After") != want.after || !strings.Contains(string(body[:n]), want.kind) {
				t.Errorf("request %d: %d, Retry-After %s, %s; want %+v", i, res.StatusCode, res.Header.Get("Retry-After"), body[:n], want)
			}
			if i > 2 && sent(res, "RateLimit")[0] != `"strict";r=0;t=300, "beside";r=99;t=1` {
				t.Errorf("request %d: %s", i, sent(res, "RateLimit")[0])
			}
		}
		if res, _ := v.ask(t.Context(), 2, "/"); res.StatusCode != 200 {
			t.Errorf("another client: %d", res.StatusCode)
		}
		rule := set.Rule("strict")
		if u := v.gateway.Usage(rule, v.keyOf("strict", "192.0.2.1")); u[0].Blocked != 5*time.Minute || u[0].Wait != 5*time.Minute || u[0].Left != 0 {
			t.Errorf("usage %+v", u[0])
		}
		if r, b := rule.Base.Live.Rejected.Load(), rule.Base.Live.Blocked.Load(); r != 2 || b != 2 {
			t.Errorf("%d rejected and %d blocked, want 2 and 2", r, b)
		}
		time.Sleep(5*time.Minute - 1)
		if res, _ := v.ask(t.Context(), 1, "/"); res.StatusCode != 429 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("1 ns before the end: %d, Retry-After %s", res.StatusCode, res.Header.Get("Retry-After"))
		}
		time.Sleep(time.Nanosecond)
		if res, _ := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 {
			t.Errorf("as told: %d", res.StatusCode)
		}
		// Freed by hand.
		for range 4 {
			v.ask(t.Context(), 1, "/")
		}
		if !v.gateway.Free(rule, v.keyOf("strict", "192.0.2.1")) {
			t.Error("not all is forgotten")
		}
		if res, _ := v.ask(t.Context(), 1, "/"); res.StatusCode != 200 {
			t.Errorf("after a reset: %d", res.StatusCode)
		}
	})
}

// sent returns the lines of a header field as they were written, in which case
// counts.
func sent(res *http.Response, name string) []string { return res.Header[name] }
