// A run's page: sources and commands to copy, steps to open all at once.
(() => {
  // A source is copied from its download, which has every byte of it.
  const textOf = (node) => {
    const data = (node.getAttribute("href") || "").split(";base64,")[1];
    if (data === undefined) return node.textContent;
    return new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
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
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    await copy(textOf(document.getElementById(button.dataset.copy)));
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }));
  document.querySelectorAll("[data-unfold]").forEach((button) => button.addEventListener("click", () => {
    const all = [...document.querySelectorAll(button.dataset.unfold)];
    const open = all.some((one) => !one.open);
    all.forEach((one) => { one.open = open; });
    button.textContent = open ? "close all" : "open all";
  }));
})();
