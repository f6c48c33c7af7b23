// Package contrib holds the tests of what stands in contrib, against the types of
// the programs that read it. These are modules the gateway has no need of.
package contrib

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// decode reads a document into v. A field that the type has not is an error.
func decode(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, v); err != nil {
		t.Errorf("%T: %v", v, err)
	}
}

func TestKubernetesManifests(t *testing.T) {
	data, err := os.ReadFile("../../contrib/kubernetes/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	var deployment appsv1.Deployment
	var service corev1.Service
	docs := bytes.Split(data, []byte("\n---\n"))
	if len(docs) != 3 {
		t.Fatalf("%d documents, want 3", len(docs))
	}
	decode(t, docs[0], &config)
	decode(t, docs[1], &deployment)
	decode(t, docs[2], &service)

	pod := deployment.Spec.Template.Spec
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Error("the pod may more than it needs")
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace < 30+c.Lifecycle.PreStop.Sleep.Seconds {
		t.Errorf("%d s are too short for shutdown_timeout", grace)
	}
	for _, labels := range []map[string]string{deployment.Spec.Selector.MatchLabels, service.Spec.Selector} {
		for k, v := range labels {
			if deployment.Spec.Template.Labels[k] != v {
				t.Errorf("no pod has the label %s: %s", k, v)
			}
		}
	}
	if service.Spec.Ports[0].TargetPort.StrVal != c.Ports[0].Name {
		t.Errorf("the service leads to port %q", service.Spec.Ports[0].TargetPort.StrVal)
	}
	for _, m := range c.VolumeMounts {
		if m.SubPath != "" {
			t.Errorf("%s is mounted with subPath: an edit would not reach the pod", m.Name)
		}
	}
	if pod.Volumes[0].ConfigMap.Name != config.Name || c.VolumeMounts[0].MountPath != filepath.Dir(c.Args[2]) {
		t.Error("the file is not where the gateway looks for it")
	}
	check(t, config.Data["gateway.yaml"])
}

// check has the gateway check a file strictly.
func check(t *testing.T, text string) {
	t.Helper()
	cmd := exec.Command("go", "run", "./cmd/gateway", "check", "--strict", "-c", "-")
	cmd.Dir = "../.."
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("gateway check: %v\n%s", err, out)
	}
}

func TestComposeFile(t *testing.T) {
	data, err := os.ReadFile("../../contrib/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  "../../contrib",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: data}},
	}, func(o *loader.Options) { o.SetProjectName("gateway", true) })
	if err != nil {
		t.Fatal(err)
	}
	gateway, api := project.Services["gateway"], project.Services["api"]
	if time.Duration(*gateway.StopGracePeriod) < 30*time.Second {
		t.Error("stop_grace_period is too short for shutdown_timeout")
	}
	if len(api.Ports) != 0 {
		t.Error("the API is published beside the gateway")
	}
	if _, err := os.Stat(filepath.Join(gateway.Build.Context, "Dockerfile")); err != nil {
		t.Error(err)
	}
	for _, v := range gateway.Volumes {
		if strings.HasSuffix(v.Source, ".yaml") {
			t.Errorf("%s is mounted as a file: an edit would not be seen", v.Source)
		}
	}
}
