// The page is whole without this: it only brings a newer one in its place, when
// the figures have changed and nobody is about to press a button.
"use strict";
(() => {
  let last = "";
  async function look() {
    if (!document.hidden && !document.activeElement?.closest("form")) {
      try {
        const status = await fetch("/status", { cache: "no-store" });
        const text = status.ok ? (await status.text()).replace(/"at":"[^"]*"/, "") : "";
        if (text !== "" && text !== last) {
          const res = await fetch("/", { cache: "no-store" });
          const html = await res.text();
          // Without its head, whose style the policy of this page would complain of.
          const body = html.slice(html.indexOf("<main"), html.indexOf("</main>") + "</main>".length);
          const main = new DOMParser().parseFromString(body, "text/html").getElementById("page");
          if (res.ok && main) {
            document.getElementById("page").replaceWith(document.adoptNode(main));
            document.title = main.dataset.title;
            last = text;
          }
        }
      } catch {
        document.title = "(gone) gateway";
        last = "";
      }
    }
    setTimeout(look, 2000);
  }
  setTimeout(look, 2000);
})();
