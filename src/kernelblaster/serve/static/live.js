// The live page: it follows its topic, loads what is unfolded, and asks searches for something when told to.

// HTML comes from this server only, which escapes every value in it; this is the one place where it enters the page.
const policy = window.trustedTypes?.createPolicy("kernelblaster", { createHTML: (text) => text }) ?? { createHTML: (text) => text };
const nodesOf = (html) => {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  return template.content;
};
const byId = (id) => document.getElementById(id);
const { body } = document;

// Parts

// What a person did to a part stays when it is replaced: what is unfolded, chosen, scrolled, focused.
const keep = (old, now) => {
  const path = (node, root) => { const at = []; for (; node !== root; node = node.parentElement) at.unshift([...node.parentElement.children].indexOf(node)); return at; };
  const find = (root, at) => at.reduce((node, index) => node?.children[index], root);
  const opened = [...old.querySelectorAll("details[open]"), ...(old.matches("details[open]") ? [old] : [])];
  for (const one of opened) {
    const other = find(now, path(one, old));
    if (other?.tagName !== "DETAILS") continue;
    other.open = true;
    const detail = one.querySelector(":scope > .loaded");
    if (detail) { other.append(detail); other.dataset.done = "yes"; if (one.dataset.load) refreshDetail(other); }
  }
  old.querySelectorAll("input[type=checkbox]:checked").forEach((one) => { const other = find(now, path(one, old)); if (other) other.checked = true; });
  const scrolled = [...old.querySelectorAll("pre, .scroll")].filter((one) => one.scrollTop || one.scrollLeft);
  const active = old.contains(document.activeElement) ? path(document.activeElement, old) : null;
  return () => {
    for (const one of scrolled) { const other = find(now, path(one, old)); if (other) { other.scrollTop = one.scrollTop; other.scrollLeft = one.scrollLeft; } }
    if (active) find(now, active)?.focus({ preventScroll: true });
  };
};

const put = ({ id, html, within, after }) => {
  const old = byId(id);
  const now = nodesOf(html).firstElementChild;
  if (!now) return;
  if (old) {
    const restore = keep(old, now);
    const lit = within && old.textContent !== now.textContent;
    old.replaceWith(now);
    restore();
    if (lit) light(now);
  }
  if (!within) return;
  const box = byId(within);
  if (!box) return;
  if (!old) {
    if (box.dataset.reloads !== undefined) { location.reload(); return; }
    const room = +(box.dataset.inserts ?? 0);
    const before = after === null || byId(after)?.parentElement === box;
    if (box.children.length >= room || (!before && box.id === "list-lines")) return;
  } else if (now.parentElement !== box || box.dataset.inserts === undefined) return;
  // In its place, unless a person has sorted the table.
  if (old && box.closest("table")?.querySelector("th[aria-sort]:not([aria-sort=none])")) return;
  const previous = after === null ? null : byId(after);
  if (after !== null && !previous) { if (!old) box.append(now); }
  else if (now.parentElement !== box || now.previousElementSibling !== previous) { if (previous) previous.after(now); else box.prepend(now); }
  if (!old) light(now);
};

const light = (node) => {
  node.classList.add("new");
  setTimeout(() => node.classList.remove("new"), 2000);
};

// The stream. A page that is hidden lets go of it, and takes up what it missed when it is looked at again.

const say = (words, kind) => {
  const status = byId("status");
  if (!status || status.dataset.kind === kind) return;
  status.dataset.kind = kind;
  status.textContent = words;
};
let stream = null, wait = 500, retry = 0;
const follow = () => {
  if (!body.dataset.topic || document.hidden || stream) return;
  clearTimeout(retry);
  const query = new URLSearchParams({ topic: body.dataset.topic, epoch: body.dataset.epoch, since: body.dataset.version });
  stream = new EventSource(`/live?${query}`);
  stream.addEventListener("open", () => { wait = 500; say("live", "live"); });
  stream.addEventListener("part", (event) => put(JSON.parse(event.data)));
  stream.addEventListener("gone", (event) => byId(JSON.parse(event.data).id)?.remove());
  stream.addEventListener("at", (event) => { body.dataset.version = JSON.parse(event.data).version; tick(); });
  stream.addEventListener("reload", () => location.reload());
  stream.addEventListener("error", () => {
    leave();
    say("not connected", "lost");
    retry = setTimeout(follow, wait);
    wait = Math.min(10000, wait * 1.7);
  });
};
const leave = () => { stream?.close(); stream = null; };
document.addEventListener("visibilitychange", () => { if (document.hidden) { leave(); say("paused", "paused"); } else follow(); });
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => { if (event.persisted) follow(); });

// Times

const ago = (seconds) => {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
};
const tick = () => {
  const now = Date.now() / 1000;
  document.querySelectorAll("time[data-at]").forEach((one) => {
    const words = one.dataset.for !== undefined ? `for ${ago(now - one.dataset.at)}` : `${ago(now - one.dataset.at)} ago`;
    if (one.textContent !== words) one.textContent = words;
    one.title ||= new Date(1000 * one.dataset.at).toLocaleString();
  });
};
setInterval(tick, 1000);

// What is unfolded is loaded.

const loadInto = async (details) => {
  if (details.dataset.done || details.dataset.loading) return;
  details.dataset.loading = "yes";
  const box = details.querySelector(":scope > .loaded") ?? details.appendChild(Object.assign(document.createElement("div"), { className: "loaded" }));
  if (!box.children.length) box.textContent = "…";
  try {
    const reply = await fetch(details.dataset.load, { headers: { accept: "text/html" } });
    if (!reply.ok) throw new Error(reply.status === 404 ? "It is not there any more." : `The dashboard answered ${reply.status}.`);
    box.replaceChildren(nodesOf(await reply.text()));
    details.dataset.done = "yes";
  } catch (error) {
    box.textContent = error instanceof TypeError ? "The dashboard does not answer." : error.message;
  } finally {
    delete details.dataset.loading;
  }
};
// A step that changed while it was open: what it unfolds to may have changed too.
const refreshDetail = async (details) => {
  try {
    const reply = await fetch(details.dataset.load, { headers: { accept: "text/html" } });
    if (!reply.ok) return;
    const now = nodesOf(await reply.text()), box = details.querySelector(":scope > .loaded");
    const outline = (node) => [...node.querySelectorAll("p, li, h4, pre[data-after]")].map((one) => one.dataset.after ?? one.textContent).join("\n");
    if (box && outline(now) !== outline(box)) box.replaceChildren(now);
  } catch { /* the next change tries again */ }
};
document.addEventListener("toggle", (event) => {
  if (event.target.open && event.target.dataset.load) loadInto(event.target);
}, true);

// Asking a search for something

const toast = (words, bad) => {
  const box = byId("toast");
  box.textContent = words;
  box.className = bad ? "bad" : "";
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.hidden = true; }, bad ? 9000 : 5000);
};
const post = async (address, data) => {
  try {
    const reply = await fetch(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(data) });
    const answer = await reply.json();
    toast(answer.done ?? answer.error, !reply.ok);
    return reply.ok;
  } catch {
    toast("The dashboard does not answer.", true);
    return false;
  }
};
const confirmed = (words, fields) => new Promise((resolve) => {
  const dialog = byId("confirm");
  byId("confirm-words").textContent = words;
  byId("confirm-fields").replaceChildren(...fields.map((name) => {
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { name, type: "number", min: "0", step: name === "usd" ? "any" : "1" });
    label.append(name === "usd" ? "at most dollars for models, in all " : "at most tokens, in all ", input);
    return label;
  }));
  dialog.returnValue = "";
  dialog.addEventListener("close", () => {
    const given = Object.fromEntries([...dialog.querySelectorAll("input")].filter((one) => one.value).map((one) => [one.name, +one.value]));
    resolve(dialog.returnValue === "yes" ? given : null);
  }, { once: true });
  dialog.showModal();
  byId("confirm-yes").focus();
});
document.addEventListener("click", async (event) => {
  const opens = event.target.closest?.("[data-dialog]");
  if (opens) { byId(opens.dataset.dialog).showModal(); return; }
  const button = event.target.closest?.("button[data-action]");
  if (!button) return;
  let data = JSON.parse(button.dataset.body ?? "{}");
  if (button.dataset.confirm) {
    const given = await confirmed(button.dataset.confirm, (button.dataset.fields ?? "").split(" ").filter(Boolean));
    if (!given) return;
    data = { ...data, ...given, confirm: button.dataset.name };
  }
  button.disabled = true;
  await post(button.dataset.action, data);
  button.disabled = false;
});
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.action) return;
  event.preventDefault();
  const { budget, technique, note, standing } = form.elements;
  const data = {};
  if (budget) data.budget = +budget.value;
  if (technique) data[event.submitter?.value ?? "pin"] = [technique.value.trim()];
  if (note) Object.assign(data, { note: note.value, standing: standing.checked === true });
  const typed = [budget, technique, note].filter(Boolean).map((field) => [field, field.value]);
  if (!await post(form.dataset.action, data)) return;
  for (const [field, text] of typed) if (field.value === text) field.value = ""; // unless more was typed meanwhile
  if (standing) standing.checked = false;
});

// The list: filter, sort, compare

const filter = byId("filter");
if (filter) {
  let timer = 0, asked = 0;
  const query = () => {
    const values = { q: filter.elements.q.value.trim(), sort: filter.elements.sort.value === "latest" ? "" : filter.elements.sort.value,
      state: filter.querySelector(".chips [aria-pressed=true]")?.value ?? "" };
    return new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  };
  const show = async () => {
    const wanted = query(), number = ++asked;
    const reply = await fetch(`/rows?${wanted}`).catch(() => null);
    if (!reply?.ok || number !== asked) return;
    const rows = nodesOf(await reply.text()).querySelector("tbody"), list = byId("list-lines");
    const picked = new Set(chosen().map((one) => one.value));
    rows.querySelectorAll("input[name=pick]").forEach((one) => { one.checked = picked.has(one.value); });
    list.replaceChildren(...rows.children);
    if (wanted.size) delete list.dataset.inserts;
    else list.dataset.inserts = list.children.length + 60;
    byId("none").hidden = list.children.length > 0;
    const rest = byId("rest"), hidden = +rows.dataset.hidden;
    rest.hidden = hidden <= 0;
    rest.firstChild.textContent = `${hidden} more. `;
    rest.querySelector("a").href = `/?all&${wanted}`;
    history.replaceState(null, "", wanted.size ? `/?${wanted}` : "/");
    tick();
  };
  filter.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, 120); });
  filter.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  filter.addEventListener("click", (event) => {
    const chip = event.target.closest(".chips button");
    if (!chip) return;
    const on = chip.getAttribute("aria-pressed") === "true";
    filter.querySelectorAll(".chips button").forEach((one) => one.setAttribute("aria-pressed", "false"));
    chip.setAttribute("aria-pressed", String(!on));
    show();
  });
  const compare = byId("compare");
  const chosen = () => [...document.querySelectorAll("input[name=pick]:checked")];
  const count = () => {
    const two = chosen();
    compare.disabled = two.length !== 2;
    compare.textContent = two.length === 0 ? "compare" : two.length === 1 ? "compare: one more" : two.length === 2 ? "compare these two" : "compare: two only";
  };
  document.addEventListener("change", (event) => { if (event.target.name === "pick") count(); });
  compare.addEventListener("click", () => {
    const [a, b] = chosen().map((one) => one.value);
    location.href = `/compare?${new URLSearchParams({ a, b })}`;
  });
  count();
}
document.addEventListener("change", (event) => { event.target.closest?.("form[data-submits]")?.requestSubmit(); });

// Light and dark, and keys

const themes = ["", "light", "dark"];
const theme = () => {
  const now = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "") + 1) % themes.length];
  if (now) { document.documentElement.dataset.theme = now; localStorage.setItem("theme", now); }
  else { delete document.documentElement.dataset.theme; localStorage.removeItem("theme"); }
  toast(now ? `Always ${now}.` : "Light or dark as the system has it.");
};
byId("theme").addEventListener("click", theme);
const lines = () => [...document.querySelectorAll("tr.run, .candidates > li > details > summary")].filter((one) => one.offsetParent && !one.closest("[hidden]"));
const move = (by) => {
  const all = lines();
  if (!all.length) return;
  const at = all.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  const line = event.target.closest?.("tr.run");
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    "/": () => document.querySelector("input[type=search]")?.focus(),
    u: () => { const up = document.querySelector("[data-up]"); if (up) location.href = up.href; },
    t: theme,
    "?": () => byId("keys").showModal(),
    x: () => { const box = line?.querySelector("input[name=pick]"); if (box) { box.checked = !box.checked; box.dispatchEvent(new Event("change", { bubbles: true })); } },
    Enter: () => { if (event.target === line) line.querySelector("a")?.click(); else return false; },
  };
  const does = keys[event.key];
  if (does && does() !== false) event.preventDefault();
});

tick();
follow();
document.documentElement.dataset.ready = "yes";
