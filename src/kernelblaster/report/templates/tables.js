"use strict";
// Tables that sort by a click on a column, and filter by words and by chips. A row that opens something does
// so by a click or by Enter: it sends `open-row` with its key.
(() => {
  const valueOf = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.value === undefined ? cell.textContent.trim() : +cell.dataset.value;
  };
  const missing = (value) => value === "";
  const sort = (table, at, down) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [valueOf(row, at), row]);
    rows.sort(([x], [y]) => {
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en");
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((head, place) => head.setAttribute("aria-sort",
      place !== at ? "none" : down ? "descending" : "ascending"));
  };
  const filter = (box) => {
    const words = box.querySelector("input[type=search]").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = [...box.querySelectorAll(".chips [aria-pressed=true]")].map((chip) => [chip.parentElement.dataset.facet, chip.dataset.value]);
    const rows = [...box.querySelectorAll("table.sorts > tbody > tr")];
    let left = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(wanted.every(([facet, value]) => row.dataset[facet] === value) && words.every((word) => text.includes(word)));
      left += !row.hidden;
    }
    const count = box.querySelector(".count");
    count.textContent = left === rows.length ? `${left} ${count.dataset.noun}` : `${left} of ${rows.length} ${count.dataset.noun}`;
  };
  const prepare = (root) => {
    root.querySelectorAll("table.sorts[data-by]:not([data-ready])").forEach((table) => {
      table.dataset.ready = "yes";
      sort(table, +table.dataset.by, table.dataset.down !== undefined);
    });
    root.querySelectorAll(".filtered:not([data-ready])").forEach((box) => { box.dataset.ready = "yes"; filter(box); });
  };
  const openRow = (row) => row.dispatchEvent(new CustomEvent("open-row", { bubbles: true, detail: row.dataset.key }));

  document.addEventListener("click", (event) => {
    const head = event.target.closest?.("table.sorts th button")?.parentElement;
    if (head) {
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort");
      const down = now === "none" ? first === "descending" : now === "ascending";
      sort(head.closest("table"), head.cellIndex, down);
      return;
    }
    const chip = event.target.closest?.(".filtered .chips button");
    if (chip) {
      const on = chip.getAttribute("aria-pressed") === "true";
      chip.parentElement.querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", "false"));
      chip.setAttribute("aria-pressed", String(!on));
      filter(chip.closest(".filtered"));
      return;
    }
    const row = event.target.closest?.("tr.opens");
    if (row && !event.target.closest("a, button")) openRow(row);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches?.("tr.opens")) openRow(event.target);
  });
  document.addEventListener("input", (event) => {
    const box = event.target.matches?.("input[type=search]") && event.target.closest(".filtered");
    if (box) filter(box);
  });
  new MutationObserver(() => prepare(document)).observe(document.body, { childList: true, subtree: true });
  prepare(document);
})();
