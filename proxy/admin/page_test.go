package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSparksAreDrawnToOneScale(t *testing.T) {
	history := [][3]int64{{0, 0, 0}, {10, 5, 0}, {20, 0, 0}}
	// Three of sixty samples: at 114, 116 and 118; 0 is at 23, the most, 20, at 1.
	for kind, want := range []string{"114,23.0 116,12.0 118,1.0", "114,23.0 116,17.5 118,23.0", ""} {
		if got := sparks(history, kind); got != want {
			t.Errorf("kind %d: %q, want %q", kind, got, want)
		}
	}
	if got := sparks(nil, 0); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestAPageOfManyRulesShowsThoseThatRefuseMost(t *testing.T) {
	var s Status
	for i := range 10 {
		s.Rules = append(s.Rules, RuleStatus{Name: fmt.Sprint(i), RefusedRate: float64(i % 5)})
	}
	if hidden := s.shorten(3); hidden != 7 || len(s.Rules) != 3 || s.Rules[0].Name != "4" || s.Rules[1].Name != "9" || s.Rules[2].Name != "3" {
		t.Errorf("%d hidden, %+v", hidden, s.Rules)
	}
	if hidden := s.shorten(3); hidden != 0 {
		t.Errorf("%d of three hidden", hidden)
	}
}

func TestThePageShowsCertificates(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ended, later := now.Add(-time.Hour), now.Add(48*time.Hour)
	var b strings.Builder
	err := page().Execute(&b, pageData{Status: Status{At: now, Certificates: []CertificateStatus{
		{"a.example", &later}, {"b.example", &ended}, {"<c>", nil},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2026-05-03 12:00 UTC", "ended 1h0m0s ago", "none yet", "&lt;c&gt;"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not say %q:\n%s", want, b.String())
		}
	}
}

func TestThePageShowsTheStore(t *testing.T) {
	for _, tt := range []struct {
		store        *StoreStatus
		says, hidden string
	}{
		{nil, "ready", `id="store"`},
		{&StoreStatus{Name: "redis a:6379", Replicas: 3, Up: true, Leases: 2, Errors: map[string]uint64{"timeout": 0}},
			`<p id="store">counters in redis a:6379, shared by 3: <b class="good">up</b> · 2 slots held</p>`, "timeout"},
		{&StoreStatus{Name: "<b>", Replicas: 2, Errors: map[string]uint64{"timeout": 4, "full": 0, "auth": 1}},
			`counters in &lt;b&gt;, shared by 2: <b class="bad">away; rules do what their fail says</b> · calls that failed: 1 auth, 4 timeout</p>`, "slots held"},
	} {
		var b strings.Builder
		if err := page().Execute(&b, pageData{Status: Status{Store: tt.store}}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, tt.says) || strings.Contains(got, tt.hidden) {
			t.Errorf("the page must say %q, and not %q:\n%s", tt.says, tt.hidden, got)
		}
	}
}
