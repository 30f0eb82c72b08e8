"use strict";
// A bench's page: its subjects one at a time, and the run that is chosen.
(() => {
  // Runs are kept compressed, in the order of the choices; one is unpacked when it is looked at.
  const opened = new Map();
  const unpack = async (id) => {
    if (!opened.has(id)) {
      const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      opened.set(id, JSON.parse(await new Response(stream).text()));
    }
    return opened.get(id);
  };
  const show = async (place, { scroll = false, steps = true } = {}) => {
    const choice = document.getElementById(`s${place}-choice`), host = document.getElementById(`s${place}-tree`);
    if (!choice) return;
    try {
      const run = await unpack(`run-${place}-${choice.selectedIndex}`);
      host.sources = run.sources;
      if (steps) host.innerHTML = run.html;
    } catch (error) {
      host.textContent = "This browser cannot unpack the run: " + error.message;
    }
    if (scroll) document.getElementById(`s${place}-runs-part`).scrollIntoView({ behavior: "smooth" });
  };
  document.querySelectorAll("select[id$=-choice]").forEach((choice) => {
    const place = choice.id.slice(1, -"-choice".length);
    choice.addEventListener("change", () => show(place));
    show(place, { steps: false });
  });
  document.addEventListener("open-row", (event) => {
    const article = event.target.closest("article");
    article.querySelectorAll("tr.open").forEach((row) => row.classList.remove("open"));
    event.target.classList.add("open");
    const place = article.id.slice(1);
    document.getElementById(`s${place}-choice`).value = event.detail;
    show(place, { scroll: true });
  });

  const subjects = [...document.querySelectorAll("nav [data-subject]")];
  subjects.forEach((button) => button.addEventListener("click", () => {
    const place = button.dataset.subject;
    document.querySelectorAll("article").forEach((one) => { one.hidden = one.id !== `s${place}`; });
    subjects.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    document.querySelectorAll("nav [data-part]").forEach((one) => one.setAttribute("href", `#s${place}-${one.dataset.part}-part`));
  }));
})();
