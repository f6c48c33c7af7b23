package statuspage

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

const few = `
rules:
  - { name: per-ip, limit: 3/365d }
  - { name: per-key, key: header.X-API-Key, limit: 3/365d, missing: skip }
  - { name: dry, match: /dry, limit: 1/365d, dry_run: true }
`

const mallory = "203.0.113.7"

func TestTheButtonsFreeAndBlock(t *testing.T) {
	g := serve(t, "upstream: "+api(t)+few)
	g.get(5, mallory, "/")
	b := open(t)
	b.run("open the page", chromedp.Navigate("http://"+g.admin+"/"), chromedp.WaitVisible("#rule-per-ip .top"))
	if text := b.text(); !strings.Contains(text, mallory) {
		t.Fatalf("%s is not shown:\n%s", mallory, text)
	}
	press := func(label string) {
		t.Helper()
		b.run("press "+label, chromedp.Click(`//section[@id="rule-per-ip"]//tr[contains(., "`+mallory+`")]//button[text()="`+label+`"]`))
	}
	press("reset")
	eventually(t, "the client passes again", func() bool { return g.get(1, mallory, "/") == 200 })
	g.get(5, mallory, "/") // refused again
	b.run("look again", chromedp.Navigate("http://"+g.admin+"/"), chromedp.WaitVisible("#rule-per-ip .top"))
	press("block 1h")
	eventually(t, "the page says that the client is blocked", func() bool {
		return strings.Contains(eval[string](b, `document.querySelector("#rule-per-ip .blocked")?.innerText ?? ""`), mallory)
	})
	if status := g.get(1, mallory, "/"); status != 429 {
		t.Errorf("a blocked client is answered %d", status)
	}
	press("reset")
	eventually(t, "the block is gone", func() bool {
		return eval[bool](b, `document.readyState === "complete" && !document.querySelector("#rule-per-ip .blocked")`)
	})
	if status := g.get(1, mallory, "/"); status != 200 {
		t.Errorf("a client that was freed is answered %d", status)
	}
	// A dry run blocks nobody, so that it offers nothing of the kind.
	g.get(3, mallory, "/dry")
	b.run("look again", chromedp.Reload(), chromedp.WaitVisible("#rule-dry .top"))
	if labels := eval[string](b, `[...document.querySelectorAll("#rule-dry button")].map(x => x.innerText).join()`); labels != "reset" {
		t.Errorf("the dry run has the buttons %q", labels)
	}
}

// The page shows what is new by itself, and is never loaded anew for it.
func TestThePageFollowsByItself(t *testing.T) {
	up := api(t)
	g := serve(t, "upstream: "+up+few)
	b := open(t)
	b.run("open the page", chromedp.Navigate("http://"+g.admin+"/"), chromedp.WaitVisible("#rule-per-ip"))
	eval[int](b, `window.sameDocument = 1`)
	same := func() {
		t.Helper()
		if !eval[bool](b, `window.sameDocument === 1`) {
			t.Error("the page was loaded anew")
		}
	}
	g.get(5, mallory, "/")
	eventually(t, "the page shows who is refused", func() bool { return strings.Contains(b.text(), mallory) })
	same()
	g.save("upstream: " + up + strings.Replace(few, "3/365d", "3/fortnight", 1))
	eventually(t, "the page shows what is wrong with the file", func() bool {
		return strings.Contains(eval[string](b, `document.querySelector("[role=alert]")?.innerText ?? ""`), "fortnight")
	})
	if title := eval[string](b, `document.title`); !strings.HasPrefix(title, "(!)") {
		t.Errorf("the title is %q", title)
	}
	same()
	g.save("upstream: " + up + strings.Replace(few, "per-key", "renamed", 1))
	eventually(t, "the page shows the rule's new name", func() bool {
		return eval[bool](b, `!!document.getElementById("rule-renamed") && !document.querySelector("[role=alert]")`)
	})
	same()
	// Whoever is about to press a button does not have it taken away.
	eval[bool](b, `document.querySelector("#rule-per-ip button").focus() === undefined`)
	g.get(50, "198.51.100.9", "/")
	before := eval[string](b, `fetch("/status").then(() => 1) && document.getElementById("page").innerText`)
	for range 3 { // looks of its own, one each two seconds
		time.Sleep(time.Second)
	}
	if b.text() != before {
		t.Error("the page has changed under a hand that is on a button")
	}
	eval[bool](b, `document.activeElement.blur() === undefined`)
	eventually(t, "it follows again", func() bool { return strings.Contains(b.text(), "198.51.100.9") })
}

// Without script it shows the same, loads itself anew, and its buttons work.
func TestThePageWorksWithoutScript(t *testing.T) {
	g := serve(t, "upstream: "+api(t)+few)
	g.get(5, mallory, "/")
	b := open(t)
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.run("open the page", chromedp.Navigate("http://"+g.admin+"/"))
	root := func() cdp.NodeID { return send(b, dom.GetDocument, dom.GetDocumentParams{}).Root.NodeID }
	html := func() string {
		res, err := chromedp.Call(b.ctx, dom.GetOuterHTML, dom.GetOuterHTMLParams{NodeID: root()})
		if err != nil {
			return "" // it has been loaded anew in between
		}
		return res.OuterHTML
	}
	eventually(t, "the page shows who is refused", func() bool { return strings.Contains(html(), mallory) })
	g.get(3, "198.51.100.9", "/")
	g.get(3, "198.51.100.9", "/")
	eventually(t, "it loads itself anew", func() bool { return strings.Contains(html(), "198.51.100.9") })
	eventually(t, "a press of the button resets", func() bool {
		button, err := chromedp.Call(b.ctx, dom.QuerySelector, dom.QuerySelectorParams{NodeID: root(), Selector: `form[action="/keys/per-ip/reset"] button`})
		if err == nil && button.NodeID != 0 {
			box, err := chromedp.Call(b.ctx, dom.GetBoxModel, dom.GetBoxModelParams{NodeID: button.NodeID})
			if err == nil { // else the page has been loaded anew in between
				at := box.Model.Content
				b.run("press reset", chromedp.MouseClickXY((at[0]+at[4])/2, (at[1]+at[5])/2))
			}
		}
		time.Sleep(100 * time.Millisecond) // for the form to be sent
		return g.get(1, mallory, "/") == 200 || g.get(1, "198.51.100.9", "/") == 200
	})
}

// Long names, odd keys, errors, many tiers: nothing makes the page scroll sideways,
// and nothing of it is script.
const odd = `
groups: { a: { ip: 192.0.2.1 }, b: { ip: 192.0.2.2 }, c: { ip: 192.0.2.3 } }
rules:
  - { name: a-rule-with-a-name-that-is-as-long-as-one-may-be-which-is-63-ch, limit: 3/365d, tiers: { a: { limit: 1000000/h }, b: { limit: 77/366d }, c: { limit: 1/s } } }
  - { name: long, match: { path: /a/very/long/path/with/many/segments/that/nobody/would/ever/want/to/read/on/a/telephone/**, header.X: "<img src=x onerror=alert(1)>" }, key: [header.X-API-Key, query.q, cookie.session, path, host], limit: 1/365d }
  - { name: dry, match: /dry, key: header.X-Key, limit: 1/365d, dry_run: true }
`

func TestThePageFitsScreensLightAndDark(t *testing.T) {
	up := api(t)
	text := "upstreams: { api: { servers: [" + up + `, "http://a-server-with-a-very-long-name.of.a.very.long.domain.example.internal:8080/base/path"] } }` + odd
	g := serve(t, text)
	g.get(5, "2001:db8:1234:5678:9abc:def0:1234:5678", "/")
	g.get(5, mallory, "/dry", "X-Key: k")
	g.save(strings.Replace(text, "3/365d", `"3 / aVeryLongUnitThatCannotBeBrokenAnywhereAndThatNobodyHasEverHeardOfBefore"`, 1))
	b := open(t)
	for _, width := range []int64{320, 390, 768, 1280, 1920} {
		for _, scheme := range []string{"light", "dark"} {
			b.screen(width, scheme)
			b.run("open the page", chromedp.Navigate("http://"+g.admin+"/"), chromedp.WaitVisible("#rule-dry"))
			eventually(t, "the error is shown", func() bool {
				if eval[bool](b, `!!document.querySelector("[role=alert]")`) {
					return true
				}
				b.run("look again", chromedp.Reload(), chromedp.WaitVisible("#rule-dry"))
				return false
			})
			if w := eval[int64](b, `Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)`); w > width {
				t.Errorf("%s, %d px: the page is %d px wide; too wide is %s", scheme, width, w, eval[string](b,
					`[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".wide, pre")).map(e => e.outerHTML.slice(0, 80)).join("\n")`))
			}
			light := brightness(t, b)
			if scheme == "light" && light < 200 || scheme == "dark" && light > 60 {
				t.Errorf("%s, %d px: brightness %.0f of 255", scheme, width, light)
			}
		}
	}
	if low := eval[string](b, contrast); low != "" {
		t.Errorf("hard to read in the dark: %s", low)
	}
	b.screen(1280, "light")
	if low := eval[string](b, contrast); low != "" {
		t.Errorf("hard to read in the light: %s", low)
	}
}

// screen makes the screen so wide, and prefer a color scheme.
func (b *browser) screen(width int64, scheme string) {
	b.t.Helper()
	send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600})
	send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// contrast names the words that have less than 4.5 to 1 (WCAG 2, AA) to what they stand on.
const contrast = `(() => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = c => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = c; probe.fillRect(0, 0, 1, 1); return [...probe.getImageData(0, 0, 1, 1).data]; };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const ground = dark ? [18, 18, 18] : [255, 255, 255];
  const lum = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const low = new Set();
  for (const e of document.querySelectorAll("main *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    let alpha = 1;
    for (let p = e; p; p = p.parentElement) alpha *= parseFloat(getComputedStyle(p).opacity);
    const c = rgb(getComputedStyle(e).color).slice(0, 3).map((v, i) => v * alpha + ground[i] * (1 - alpha));
    const [a, b] = [lum(c), lum(ground)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) low.add(e.tagName + "." + e.className + " " + ratio.toFixed(1));
  }
  return [...low].join(", ");
})()`

// brightness is the mean of a picture of the page, 0 to 255.
func brightness(t *testing.T, b *browser) float64 {
	t.Helper()
	data := send(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	sum, n := 0.0, 0
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += 3 {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			sum, n = sum+float64(r+g+b)/3/257, n+1
		}
	}
	return sum / float64(n)
}

var picture = flag.Bool("picture", false, "make contrib/status-page.png anew; takes a minute")

// The picture of the README is of this page.
func TestThePictureOfTheREADME(t *testing.T) {
	const path = "../../contrib/status-page.png"
	if !*picture {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || c.Width != 1280 {
			t.Errorf("%s: %dx%d, %v", path, c.Width, c.Height, err)
		}
		return
	}
	g := serve(t, fmt.Sprintf(`
upstreams: { api: { servers: [%s, %s], health: / } }
groups: { premium: { header.X-API-Key: [k-7d1f] } }
rules:
  - { name: per-ip, limit: 20/m }
  - { name: per-key, key: header.X-API-Key, limit: 40/m, missing: skip, tiers: { premium: { limit: 600/m } } }
  - { name: search, match: "/search/**", key: ip, limit: 5/m, dry_run: true }
`, api(t), api(t)))
	for i := range 60 {
		g.get(i%5+2, mallory, "/")
		g.get(i%4+1, fmt.Sprintf("203.0.113.%d", 8+i%4), "/search/", "X-API-Key: k-7d1f")
		g.get(3, fmt.Sprintf("2001:db8:%x::1", i), "/", "X-API-Key: k-1")
		time.Sleep(time.Second) // for the lines to be drawn
	}
	b := open(t)
	b.screen(1280, "light")
	b.run("open the page", chromedp.Navigate("http://"+g.admin+"/"), chromedp.WaitVisible("#rule-search"))
	all := true
	data := send(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &all}).Data
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
