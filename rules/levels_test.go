package rules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gateway/limit"
)

const levelsFile = `
upstream: http://127.0.0.1:1
groups: { vip: { header.X-Vip: ["yes"] } }
rules:
  - { name: bucket, limit: 10/m }
  - { name: gcra, limit: 10/m, algorithm: gcra }
  - { name: fixed, limit: 10/h, algorithm: fixed_window }
  - { name: sliding, limit: 100/h, algorithm: sliding_window }
  - { name: log, limit: 10/h, algorithm: sliding_window_log }
  - { name: refunds, key: header.X-Key, limit: 10/h, refund: { status: 5xx } }
  - { name: tiers, limit: 10/m, tiers: { vip: { limit: 20/m } } }
  - { name: slots, concurrency: 5 }
  - { name: queue, limit: 1/s, algorithm: leaky_bucket, max_wait: 20s }
  - { name: trial, limit: 100/m, candidate: { limit: 7/m } }
  - { name: punishes, match: /strict, limit: 1/h, penalty: { after: 2/m, block: 10m } }
`

var noon = limit.InstantOf(time.Date(2026, 5, 1, 12, 20, 0, 0, time.UTC))

// levelsSet is a Set in force as it is right after a start.
func levelsSet(t testing.TB, text string) *Set {
	t.Helper()
	f, err := Parse("gateway.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Activate(noon)
	return s
}

// ask lets the requests of a client in or not, at an instant, and returns what each
// rule, and each candidate, has left.
func ask(s *Set, client string, at limit.Instant, n int, vip bool) map[string]int64 {
	left, _ := askFor(s, "/", client, at, n, vip)
	return left
}

// askFor is ask for a path. It returns the last verdict, too.
func askFor(s *Set, path, client string, at limit.Instant, n int, vip bool) (left map[string]int64, v limit.Verdict) {
	f := &Facts{Method: "GET", Host: "a", Path: path, RawPath: path, Client: netip.MustParseAddr(client), Header: http.Header{"X-Key": {client}}}
	if vip {
		f.Header.Set("X-Vip", "yes")
	}
	f.SetBody(Body{State: BodyWhole})
	left = map[string]int64{}
	for range n {
		hits := s.Match(f, nil)
		claims, names := make([]limit.Claim, 0, 2*len(hits)), []string(nil)
		for i := range hits {
			var c limit.Claim
			hits[i].Claim(&c)
			c.Tag = int32(len(names))
			claims, names = append(claims, c), append(names, hits[i].Rule.Name)
			if hits[i].Plan.Candidate != nil {
				c = limit.Claim{}
				hits[i].Trial(&c)
				c.Tag = int32(len(names))
				claims, names = append(claims, c), append(names, hits[i].Rule.Name+" (candidate)")
			}
		}
		var g limit.Grant
		g, v = (&limit.Limiter{}).Acquire(context.Background(), at, claims)
		for i := range claims {
			left[names[claims[i].Tag]] = claims[i].Result.Remaining
		}
		g.Done(at, nil)
	}
	return left, v
}

func levelBytes(t testing.TB, s *Set, at limit.Instant) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.WriteLevels(&b, at); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLevelsGoOnInAnotherProcess(t *testing.T) {
	old := levelsSet(t, levelsFile)
	ask(old, "192.0.2.1", noon, 6, false)
	ask(old, "192.0.2.2", noon, 3, true)
	data := levelBytes(t, old, noon)
	for _, later := range []time.Duration{0, 6 * time.Second, 50 * time.Minute} {
		s := levelsSet(t, levelsFile)
		at := noon.Add(later)
		read, err := s.ReadLevels(bytes.NewReader(data), int64(len(data)), at)
		if err != nil || read.Lost != 0 || read.Age != later || read.Afresh != nil {
			t.Fatalf("after %v: %+v, %v", later, read, err)
		}
		for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
			vip := client == "192.0.2.2"
			if diff := cmp.Diff(ask(old, client, at, 1, vip), ask(s, client, at, 1, vip)); diff != "" {
				t.Errorf("%s, after %v (-without a restart +with)\n%s", client, later, diff)
			}
		}
		old = levelsSet(t, levelsFile) // for the next round as it was
		ask(old, "192.0.2.1", noon, 6, false)
		ask(old, "192.0.2.2", noon, 3, true)
	}
}

// Whom a rule has blocked waits in the next process for the rest of that time, unless
// its penalty is gone.
// The keys of another process are those of its secret, whatever they are made of.
func TestKeysOfAllKindsGoOnInAnotherProcess(t *testing.T) {
	for _, key := range []string{"global", "ip", "host", "method", "path", "header.X-Key", "[ip, header.X-Key]", "[global, host]", "body.none"} {
		text := "upstream: http://a\nrules: [{ name: one, limit: 10/h, key: " + key + " }]\n"
		old := levelsSet(t, text)
		ask(old, "192.0.2.1", noon, 6, false)
		data := levelBytes(t, old, noon)
		s := levelsSet(t, text)
		ask(s, "192.0.2.9", noon, 0, false)
		if _, err := s.ReadLevels(bytes.NewReader(data), int64(len(data)), noon); err != nil {
			t.Fatal(err)
		}
		if left := ask(s, "192.0.2.1", noon, 1, false)["one"]; left != 3 {
			t.Errorf("key %s: %d left after 6 of 10 and one more, want 3", key, left)
		}
	}
}

func TestABlockGoesOnInAnotherProcess(t *testing.T) {
	old := levelsSet(t, levelsFile)
	if _, v := askFor(old, "/strict", "192.0.2.1", noon, 4, false); v.OK || v.Wait != time.Hour { // 1/h: what is longer
		t.Fatalf("%+v", v)
	}
	data := levelBytes(t, old, noon)
	for text, want := range map[string]time.Duration{
		levelsFile: 57 * time.Minute, // the limit itself has nothing before
		strings.Replace(levelsFile, "limit: 1/h, penalty: { after: 2/m, block: 10m }", "limit: 100/s, penalty: { after: 5/m, block: 1m }", 1): 7 * time.Minute,
		strings.Replace(levelsFile, "limit: 1/h, penalty: { after: 2/m, block: 10m }", "limit: 100/s", 1):                                     0,
	} {
		s := levelsSet(t, text)
		at := noon.Add(3 * time.Minute)
		if _, err := s.ReadLevels(bytes.NewReader(data), int64(len(data)), at); err != nil {
			t.Fatal(err)
		}
		if _, v := askFor(s, "/strict", "192.0.2.1", at, 1, false); v.Wait != want {
			t.Errorf("%s\n%+v, want a wait of %v", text, v, want)
		}
	}
}

// A file of before there were penalties and candidates in it is read.
func TestLevelsOfTheFirstFormat(t *testing.T) {
	data, err := os.ReadFile("testdata/levels-1") // of levelsFile as it was: six requests of .1 and three of .2, a vip
	if err != nil {
		t.Fatal(err)
	}
	s := levelsSet(t, levelsFile)
	read, err := s.ReadLevels(bytes.NewReader(data), int64(len(data)), noon)
	if err != nil || read.Lost != 0 || read.Afresh != nil || read.Keys != 14 {
		t.Fatalf("%+v, %v", read, err)
	}
	for client, used := range map[string]int64{"192.0.2.1": 6, "192.0.2.2": 3, "192.0.2.3": 0} {
		left := ask(s, client, noon, 1, client == "192.0.2.2")
		got := map[string]int64{}
		for _, name := range []string{"bucket", "gcra", "fixed", "log", "refunds", "sliding"} {
			got[name] = left[name]
		}
		want := map[string]int64{"bucket": 9 - used, "gcra": 9 - used, "fixed": 9 - used, "log": 9 - used, "refunds": 9 - used, "sliding": 99 - used}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", client, diff)
		}
	}
}

func TestRulesThatCountInAnotherWayStartAfresh(t *testing.T) {
	old := levelsSet(t, levelsFile)
	ask(old, "192.0.2.1", noon, 6, false)
	data := levelBytes(t, old, noon)
	s := levelsSet(t, `
upstream: http://127.0.0.1:1
rules:
  - { name: bucket, limit: 8/m }                              # goes on: 6 are used
  - { name: gcra, key: global, limit: 10/m, algorithm: gcra } # another key
  - { name: fixed, limit: 10/m, algorithm: fixed_window }     # another window
  - { name: log, limit: 10/h, algorithm: sliding_window }     # another algorithm
  - { name: tiers, match: /**, dry_run: true, limit: 20/m }   # goes on
`)
	read, err := s.ReadLevels(bytes.NewReader(data), int64(len(data)), noon)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"gcra", "fixed", "sliding", "log", "refunds", "tiers (tier vip)", "queue", "trial", "trial (candidate)", "punishes"}; !slices.Equal(read.Afresh, want) || read.Keys != 2 {
		t.Errorf("%d keys; afresh %v, want %v", read.Keys, read.Afresh, want)
	}
	want := map[string]int64{"bucket": 1, "gcra": 9, "fixed": 9, "log": 9, "tiers": 13}
	if diff := cmp.Diff(want, ask(s, "192.0.2.1", noon, 1, false)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLevelsThatAreNoneAreRefusedAsAWhole(t *testing.T) {
	old := levelsSet(t, levelsFile)
	for i := range 50 {
		ask(old, fmt.Sprintf("192.0.2.%d", i), noon, 10, false)
	}
	good := levelBytes(t, old, noon)
	sealed := func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		return append([]byte(text), sum[:]...)
	}
	flipped := func(i int) []byte {
		b := bytes.Clone(good)
		b[i] ^= 1
		return b
	}
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":       {nil, "damaged or cut off"},
		"foreign":     {[]byte("upstream: http://a\nrules: []\n"), "no levels of a gateway"},
		"zeros":       {make([]byte, 100_000), "no levels of a gateway"},
		"newer":       {sealed("gateway levels 3\n" + string(good[17:])), "another version"},
		"truncated":   {good[:len(good)-1], "damaged or cut off"},
		"half":        {good[:len(good)/2], "damaged or cut off"},
		"head":        {good[:20], "damaged or cut off"},
		"a few bytes": {good[:9], "damaged or cut off"},
		"more":        {append(bytes.Clone(good), 0), "damaged or cut off"},
		"first bit":   {flipped(30), "damaged or cut off"},
		"last bit":    {flipped(len(good) - 1), "damaged or cut off"},
		"no end":      {sealed(string(good[:41])), "cannot be read to its end"},
		"odd tag":     {sealed(string(good[:41]) + "?"), "cannot be read to its end"},
		"long text":   {sealed(string(good[:41]) + "T\xff\xff\xff\xff\x0f"), "cannot be read to its end"},
	} {
		s := levelsSet(t, levelsFile)
		before := *s.Secret()
		read, err := s.ReadLevels(bytes.NewReader(c.data), int64(len(c.data)), noon)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if read.Keys != 0 || ask(s, "192.0.2.1", noon, 1, false)["bucket"] != 9 {
			t.Errorf("%s: something was put back: %+v", what, read)
		}
		if strings.Contains(c.want, "damaged") && *s.Secret() != before {
			t.Errorf("%s: its secret is in use", what)
		}
	}
	// A bit anywhere is noticed.
	s := levelsSet(t, levelsFile)
	for i := 17; i < len(good); i += 7 {
		if _, err := s.ReadLevels(bytes.NewReader(flipped(i)), int64(len(good)), noon); err == nil {
			t.Fatalf("bit 0 of byte %d of %d is not noticed", i, len(good))
		}
	}
}

func TestAHugeFileOfLevelsIsNotRead(t *testing.T) {
	s := levelsSet(t, levelsFile+"max_memory: 16MiB\n")
	r := &counting{}
	_, err := s.ReadLevels(r, 1<<40, noon)
	if err == nil || !strings.Contains(err.Error(), "more than twice max_memory") || r.n > 100 {
		t.Errorf("%v, after %d bytes", err, r.n)
	}
}

// counting looks like a file of levels without an end.
type counting struct{ n int }

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.n += len(p)
	for i := range p {
		p[i] = 0
		if off+int64(i) < 17 {
			p[i] = "gateway levels 1\n"[off+int64(i)]
		}
	}
	return len(p), nil
}

func TestKeysWithoutAPlaceAreCounted(t *testing.T) {
	text := "upstream: http://127.0.0.1:1\nrules: [{ name: a, limit: 1/h, max_keys: %d }]\n"
	old := levelsSet(t, fmt.Sprintf(text, 10_000))
	for i := range 3000 {
		ask(old, fmt.Sprintf("192.0.%d.%d", i/250, i%250), noon, 1, false)
	}
	data := levelBytes(t, old, noon)
	s := levelsSet(t, fmt.Sprintf(text, 1000))
	read, err := s.ReadLevels(bytes.NewReader(data), int64(len(data)), noon)
	if err != nil || read.Keys != 1000 || read.Lost != 2000 {
		t.Errorf("%+v, %v; want 1000 and 2000 lost", read, err)
	}
}

// Whatever is under the right checksum, nothing panics and nothing is read for ever.
func FuzzReadLevels(f *testing.F) {
	old := levelsSet(f, levelsFile)
	ask(old, "192.0.2.1", noon, 6, false)
	f.Add(levelBytes(f, old, noon)[17:])
	f.Add([]byte("T\x06bucket"))
	s := levelsSet(f, levelsFile)
	f.Fuzz(func(t *testing.T, data []byte) {
		body := append([]byte(levelsMagic+levelsFormat), data...)
		sum := sha256.Sum256(body)
		body = append(body, sum[:]...)
		s.ReadLevels(bytes.NewReader(body), int64(len(body)), noon)
		ask(s, "192.0.2.1", noon, 1, false)
	})
}

func BenchmarkMillionLevels(b *testing.B) {
	text := "upstream: http://127.0.0.1:1\nrules: [{ name: a, limit: 10/h }]\n"
	old := levelsSet(b, text)
	for i := range 1_000_000 {
		ask(old, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String(), noon, 1, false)
	}
	data := levelBytes(b, old, noon)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			var sink discard
			if _, err := old.WriteLevels(&sink, noon); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(sink)/1e6, "MB")
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			s := levelsSet(b, text)
			if read, err := s.ReadLevels(bytes.NewReader(data), int64(len(data)), noon); err != nil || read.Keys != 1_000_000 {
				b.Fatal(read, err)
			}
		}
	})
}

type discard int64

func (d *discard) Write(p []byte) (int, error) {
	*d += discard(len(p))
	return len(p), nil
}
