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
          const next = new DOMParser().parseFromString(await res.text(), "text/html");
          const main = next.getElementById("page");
          if (res.ok && main) {
            document.getElementById("page").replaceWith(document.adoptNode(main));
            document.title = next.title;
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
