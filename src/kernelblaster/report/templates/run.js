"use strict";
// What a page with sources and steps has: buttons that copy, and that open or close all steps at once.
(() => {
  // A source is copied from its download, which has every byte of it.
  const textOf = async (node) => {
    const from = node.getAttribute("href") ?? "";
    const data = from.split(";base64,")[1];
    if (data !== undefined) return new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
    return from ? (await fetch(from)).text() : node.textContent;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy], [data-unfold]");
    if (!button) return;
    if (button.dataset.copy) {
      await copy(await textOf(document.getElementById(button.dataset.copy)));
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
      return;
    }
    const all = [...document.querySelectorAll(button.dataset.unfold)];
    const open = all.some((one) => !one.open);
    all.forEach((one) => { one.open = open; });
    button.textContent = open ? "close all" : "open all";
  });
})();
