package contrib

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// all is a file that makes a gateway say everything it can say.
const all = `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
tls: { certificates: [{ cert: cert.pem, key: key.pem }] }
upstreams: { api: { servers: [UPSTREAM], health: / } }
overload: { max_in_flight: 1000 }
store: { redis: { url: "redis://127.0.0.1:1", replicas: 2 } } # where there is none
groups: { vip: { ip: 192.0.2.1 } }
rules:
  - { name: a, limit: 1/h, tiers: { vip: { limit: 2/h } } }
  - { name: dry, limit: 1/h, dry_run: true }
  - { name: closed, limit: 1/h, fail: closed }
  - { name: open, key: body.user, limit: 1/h, fail: open }
  - { name: skips, key: header.X-Key, limit: 1/h, missing: skip }
`

// series are the metrics of a gateway: the values of each label, by name. A
// histogram is also under the names of its parts.
type series map[string]map[string][]string

// scrape runs a gateway on that file and reads its metrics.
func scrape(t *testing.T) series {
	t.Helper()
	dir := t.TempDir()
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(up.Close)
	writeCertificate(t, dir)
	write(t, dir+"/gateway.yaml", strings.Replace(all, "UPSTREAM", up.URL, 1))
	binary := filepath.Join(dir, "gateway")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./cmd/gateway")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "run", "-c", dir+"/gateway.yaml")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() }()
	var said bytes.Buffer
	at := regexp.MustCompile(`"admin":\["([^"]+)"\]`)
	for buf := make([]byte, 4096); at.FindSubmatch(said.Bytes()) == nil; {
		n, err := stderr.Read(buf)
		if err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		said.Write(buf[:n])
	}
	go io.Copy(io.Discard, stderr)
	res, err := http.Get("http://" + string(at.FindSubmatch(said.Bytes())[1]) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	read := expfmt.NewTextParser(model.LegacyValidation)
	families, err := read.TextToMetricFamilies(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := series{"up": {}}
	for name, f := range families {
		for _, name := range []string{name, name + "_bucket", name + "_count", name + "_sum"} {
			found[name] = map[string][]string{}
			for _, m := range f.Metric {
				for _, l := range m.Label {
					found[name][l.GetName()] = append(found[name][l.GetName()], l.GetValue())
				}
			}
		}
		found[name+"_bucket"]["le"] = nil
	}
	// What only requests make.
	for label, values := range map[string][]string{"code": {"200", "429", "500"}, "method": {"GET"}, "route": {"/**"}} {
		if found["gateway_requests_total"] == nil {
			found["gateway_requests_total"] = map[string][]string{}
		}
		found["gateway_requests_total"][label] = values
	}
	found["gateway_rule_decisions_total"]["result"] = append(found["gateway_rule_decisions_total"]["result"], "blocked")
	return found
}

// holds reports what of an expression a gateway never says: a metric, a label of one,
// a value of such.
func (s series) holds(t *testing.T, where, expr string) {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, expr)
		return
	}
	selectors := 0
	parser.Inspect(tree, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		selectors++
		metric, ok := s[v.Name]
		if !ok {
			t.Errorf("%s: there is no metric %q", where, v.Name)
			return nil
		}
		for _, m := range v.LabelMatchers {
			if m.Name == model.MetricNameLabel || m.Name == "job" || m.Name == "instance" {
				continue // of the scrape
			}
			values, ok := metric[m.Name]
			if !ok {
				t.Errorf("%s: %s has no label %q", where, v.Name, m.Name)
			} else if m.Name != "rule" && !slices.ContainsFunc(values, m.Matches) {
				t.Errorf("%s: no %s has %s", where, v.Name, m)
			}
			if m.Type == labels.MatchRegexp && m.Name != "rule" && m.Value != ".*" {
				for word := range strings.SplitSeq(m.Value, "|") {
					if !slices.ContainsFunc(values, labels.MustNewMatcher(labels.MatchRegexp, m.Name, word).Matches) {
						t.Errorf("%s: no %s has %s=%q", where, v.Name, m.Name, word)
					}
				}
			}
		}
		return nil
	})
	if selectors == 0 {
		t.Errorf("%s: it asks for no metric", where)
	}
	// What it adds up by must be labels, too.
	for _, by := range regexp.MustCompile(`by \(([a-z_, ]+)\)`).FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			found := label == "instance"
			for name := range s {
				_, has := s[name][label]
				found = found || has && strings.Contains(expr, name)
			}
			if !found {
				t.Errorf("%s: by %s, which none of its metrics has", where, label)
			}
		}
	}
}

func TestAlertsAskForWhatThereIs(t *testing.T) {
	data, err := os.ReadFile("../../contrib/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(data, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler)) // as promtool does
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	found, n := scrape(t), 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			n++
			found.holds(t, r.Alert, r.Expr)
			if r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" || r.For == 0 || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: without severity, for, summary or description", r.Alert)
			}
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
				if strings.Contains(r.Expr, "by (") && !strings.Contains(r.Expr, label[1]) {
					t.Errorf("%s: its summary has the label %s, which its expression has not", r.Alert, label[1])
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("%d alerts", n)
	}
}

// panel is what matters of a panel of a dashboard.
type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	Targets     []struct{ Expr, LegendFormat, RefID string }
}

func TestTheDashboardAsksForWhatThereIs(t *testing.T) {
	data, err := os.ReadFile("../../contrib/grafana/gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID, Title    string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type, Definition string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(data, &d); err != nil || d.UID == "" || d.Title == "" || d.SchemaVersion < 30 {
		t.Fatalf("%v; %q %q %d", err, d.UID, d.Title, d.SchemaVersion)
	}
	found := scrape(t)
	// As Grafana fills them in.
	plain := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$rule", ".*")
	ids, taken := map[int]bool{}, map[string]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				at := fmt.Sprint(x, " ", y)
				if other := taken[at]; other != "" || x > 23 {
					t.Errorf("%s lies over %s, or beside the screen", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: no description, data source or targets", p.Title)
		}
		for _, target := range p.Targets {
			found.holds(t, p.Title, plain.Replace(target.Expr))
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if strings.Contains(target.Expr, "by (") && !regexp.MustCompile(`by \([^)]*\b`+label[1]+`\b`).MatchString(target.Expr) {
					t.Errorf("%s: its legend has %s, which it does not add up by", p.Title, label[1])
				}
			}
		}
	}
	for _, a := range d.Annotations.List {
		found.holds(t, "annotation", plain.Replace(a.Expr))
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			found.holds(t, v.Name, plain.Replace(m[1]))
		} else if v.Type == "query" {
			t.Errorf("%s: %s", v.Name, v.Definition)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeCertificate makes cert.pem and key.pem.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"api.example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	write(t, dir+"/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}
