package upstream

import (
	"io"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"time"
)

// TestARequestIsTakenOverWhole is for the next version of net/http, too: a field
// that is new there must not be forgotten here.
func TestARequestIsTakenOverWhole(t *testing.T) {
	from := &http.Request{}
	fill(t, reflect.ValueOf(from).Elem())
	from = from.WithContext(t.Context())
	f := &flight{Context: t.Context()}
	got := f.request(from)
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(got).Elem()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if field.IsExported() && field.Name != "Cancel" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			t.Errorf("%s is %v, want %v", field.Name, b.Field(i), a.Field(i))
		}
	}
	if got.Context() != f {
		t.Errorf("its context is %v, want the flight", got.Context())
	}
	if f.request(&noRequest) != got || got.Method != "" || got.Header != nil {
		t.Errorf("the next request is %v, want the same one, empty", got)
	}
}

// fill gives each exported field of v, but for funcs and channels, a value.
func fill(t *testing.T, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Interface:
			f.Set(reflect.ValueOf(http.NoBody))
		case reflect.Func, reflect.Chan: // GetBody, which a server has not, and Cancel
		default:
			t.Errorf("%s is a %v", v.Type().Field(i).Name, f.Kind())
		}
	}
}

// TestALateAnswerIsWaitedForOnce asks on a connection that was used before, which
// might be to blame for a silence, again and again: the deadline of one request is
// no business of the next one's.
func TestALateAnswerIsWaitedForOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	var asked, late atomic.Int64
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/late":
			late.Add(1)
			<-r.Context().Done()
		case "/slow": // longer than the client goes unwatched, and in time
			time.Sleep(patience + 30*time.Millisecond)
		}
		io.WriteString(w, "ok")
	}))
	s := spec(t, up.URL)
	s.Timeout = 4 * time.Second
	p := newPool(t, s)
	gw := gateway(t, p, &door{})
	c := client(t)
	for range 2 {
		for range 3 {
			for _, path := range []string{"/", "/slow", "/"} {
				if res, body := get(t, c, gw.URL+path); res.StatusCode != 200 || body != "ok" {
					t.Errorf("%s: got %d %q", path, res.StatusCode, body)
				}
			}
		}
		begin := time.Now()
		if res, _ := get(t, c, gw.URL+"/late"); res.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("got %d, want 504", res.StatusCode)
		}
		if took := time.Since(begin); took < s.Timeout {
			t.Errorf("given up after %v, want %v", took, s.Timeout)
		}
	}
	if n := late.Load(); n != 2 {
		t.Errorf("two late requests were sent %d times", n)
	}
	if n := asked.Load(); n != 20 {
		t.Errorf("20 requests were sent %d times", n)
	}
}
