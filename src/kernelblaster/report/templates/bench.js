"use strict";
// What makes the page move: tables that sort and filter, the tree of a run, its differences, tips.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);

  const h = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.flat().filter((child) => child != null && child !== false));
    return node;
  };
  const times = (x) => (x == null ? "" : (x < 0.995 || x >= 9.995 ? String(+x.toPrecision(3)) : x.toFixed(2)) + "x");
  const percent = (x) => (x == null ? "" : Math.round(100 * x) + "%");
  const number = (x, digits = 4) => (x == null ? "" : (+x.toPrecision(digits)).toLocaleString("en"));
  const large = (x) => (Math.abs(x) < 1e4 ? number(x) : x >= 1e9 ? number(x / 1e9) + " G" : x >= 1e6 ? number(x / 1e6) + " M" : number(x / 1e3) + " k");
  const kind = (subject) => (subject.modelled ? ", modelled" : "");
  const tone = (x) => (x == null ? "" : x > 1.005 ? "faster" : x < 0.995 ? "slower" : "");

  // A table. Columns: {title, value(row) to sort by, show(row) to see, number, wide}.
  const table = (columns, rows, options = {}) => {
    const state = { by: options.by ?? null, down: options.down ?? false };
    const body = h("tbody");
    const heads = columns.map((column, place) =>
      h("th", { class: column.number ? "number" : null, "aria-sort": "none", scope: "col" },
        h("button", { type: "button", onclick: () => {
          state.down = state.by === place ? !state.down : !!column.number;
          state.by = place;
          draw();
        } }, column.title)));
    let shown = rows;
    const draw = () => {
      const sorted = [...shown];
      if (state.by !== null) {
        const value = columns[state.by].value;
        sorted.sort((a, b) => {
          const x = value(a), y = value(b);
          if (x == null || y == null) return (x == null) - (y == null);
          const order = typeof x === "number" ? x - y : String(x).localeCompare(String(y));
          return state.down ? -order : order;
        });
      }
      heads.forEach((head, place) => head.setAttribute("aria-sort",
        place !== state.by ? "none" : state.down ? "descending" : "ascending"));
      body.replaceChildren(...sorted.map((row) => {
        const cells = columns.map((column) => h("td",
          { class: [column.number && "number", column.wide && "wide", column.name && "name"].filter(Boolean).join(" ") || null },
          column.show(row)));
        const line = h("tr", { class: options.open ? "opens" : null }, cells);
        if (options.open) line.addEventListener("click", () => options.open(row, line));
        return line;
      }));
    };
    draw();
    const node = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), body));
    return { node, body, filter: (keep) => { shown = rows.filter(keep); draw(); return shown.length; } };
  };
  // Words of which two lines are seen, and all of them in a tip.
  const clamped = (words) => h("span", { class: "techniques clamped", "data-tip": words || null }, words);
  // A long name that may break where its parts meet.
  const broken = (words) => String(words ?? "").split(/(?<=[/_+])/).flatMap((part) => [part, h("wbr")]);
  const named = (title, key) => ({ title, name: true, value: (row) => row[key], show: (row) => broken(row[key]) });
  const text = (title, key, more) => ({ title, value: (row) => row[key], show: (row) => row[key] ?? "", ...more });

  const summaryTable = (subject) => {
    const baseline = Object.fromEntries(subject.baselines.map((one) => [one.name, one.title]));
    const speed = (title, key) => ({ title, number: true, value: (r) => r[key],
      show: (r) => h("span", { class: tone(r[key]) }, times(r[key])) });
    return table([
      { title: "level", value: (r) => r.group, show: (r) => (r.group === "all" ? "all tasks" : r.group) },
      { title: "against", value: (r) => r.baseline, show: (r) => baseline[r.baseline] },
      { title: "valid", number: true, value: (r) => r.valid_rate, show: (r) => `${r.valid} of ${r.tasks}` },
      speed("average", "average"), speed("geomean", "geometric_mean"), speed("median", "median"),
      speed("min", "minimum"), speed("max", "maximum"),
      { title: "> 1x", number: true, value: (r) => r.faster, show: (r) => percent(r.faster) },
      { title: "< 1x", number: true, value: (r) => r.slower, show: (r) => percent(r.slower) },
      speed("kept", "kept"),
    ], subject.summaries).node;
  };

  const good = { valid: "good", unfinished: "", uncovered: "idle", unfit: "idle" };
  const taskTable = (subject, place, host) => {
    const several = new Set(subject.rows.map((row) => row.seed)).size > 1;
    const others = subject.baselines.filter((one) => one.name !== subject.main);
    const between = (row) => (row.low == null ? null : `between ${times(row.low)} and ${times(row.high)}`);
    const columns = [
      { title: "task", name: true, value: (r) => r.task, show: (r) => broken(r.task + (several ? ` #${r.seed}` : "")) },
      ...(subject.rows.every((r) => r.task.includes(r.group)) ? [] : [text("level", "group")]),
      { title: "status", value: (r) => r.status,
        show: (r) => h("span", { class: "tag " + (good[r.status] ?? "bad"), "data-tip": r.reason || null }, r.status) },
      { title: "speedup" + kind(subject), number: true, value: (r) => r.speedup,
        show: (r) => h("b", { class: tone(r.speedup), "data-tip": between(r) }, times(r.speedup)) },
      ...others.map((one) => ({ title: "vs " + one.name.replace("max-", ""), number: true, value: (r) => r.against[one.name],
        show: (r) => h("span", { class: tone(r.against[one.name]) }, times(r.against[one.name])) })),
      { title: "us" + kind(subject), number: true, value: (r) => r.us, show: (r) => number(r.us) },
      { title: "of light", number: true, value: (r) => r.light,
        show: (r) => h("span", { "data-tip": r.floor_us ? `floor ${number(r.floor_us)} us` : null }, percent(r.light)) },
      { title: "judged", number: true, value: (r) => r.evaluations, show: (r) => String(r.evaluations) },
      { title: "applied", wide: true, value: (r) => r.applied.join(" "),
        show: (r) => clamped(r.status === "valid" ? r.applied.join(", ") : r.reason) },
    ];
    const made = table(columns, subject.rows, { by: columns.findIndex((one) => one.title.startsWith("speedup")), down: true, open: (row, line) => {
      if (!row.run) return;
      made.body.querySelectorAll("tr.open").forEach((other) => other.classList.remove("open"));
      line.classList.add("open");
      choose(place, row.job, true);
    } });
    const wanted = { words: "", status: null, group: null };
    const count = h("span", { class: "note" });
    const apply = () => {
      const words = wanted.words.toLowerCase().split(/\s+/).filter(Boolean);
      const left = made.filter((row) => {
        const all = `${row.task} ${row.group} ${row.status} ${row.applied.join(" ")} ${row.reason}`.toLowerCase();
        return (!wanted.status || row.status === wanted.status) && (!wanted.group || row.group === wanted.group)
          && words.every((word) => all.includes(word));
      });
      count.textContent = left === subject.rows.length ? `${left} tasks` : `${left} of ${subject.rows.length} tasks`;
    };
    const chips = (key, values) => {
      const box = h("div", { class: "chips" });
      if (values.length > 1) values.forEach((value) => box.append(h("button", { type: "button", "aria-pressed": "false",
        onclick: (event) => {
          const on = wanted[key] === value;
          wanted[key] = on ? null : value;
          box.querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", "false"));
          event.currentTarget.setAttribute("aria-pressed", String(!on));
          apply();
        } }, value)));
      return box;
    };
    host.append(h("div", { class: "controls" },
      h("input", { type: "search", placeholder: "filter: a task, a technique, a reason", "aria-label": "filter",
        oninput: (event) => { wanted.words = event.currentTarget.value; apply(); } }),
      chips("group", [...new Set(subject.rows.map((row) => row.group))].sort()),
      chips("status", Object.keys(subject.statuses)), count), made.node);
    apply();
  };

  // Runs are kept compressed; one is opened when it is looked at.
  const opened = new Map();
  const unpack = async (place, job) => {
    const key = place + " " + job;
    if (!opened.has(key)) {
      const kept = document.getElementById(`run-${place}-${data.subjects[place].runs[job]}`).textContent;
      const bytes = Uint8Array.from(atob(kept), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      opened.set(key, JSON.parse(await new Response(stream).text()));
    }
    return opened.get(key);
  };

  const choose = async (place, job, scroll) => {
    const host = document.getElementById(`s${place}-tree`);
    if (!host) return;
    document.getElementById(`s${place}-choice`).value = job;
    let run;
    try {
      run = await unpack(place, job);
    } catch (error) {
      host.replaceChildren(h("p", { class: "note" }, "This browser cannot unpack the run: " + error.message));
      return;
    }
    host.replaceChildren(tree(run, kind(data.subjects[place])));
    if (scroll) document.getElementById(`s${place}-runs-part`).scrollIntoView({ behavior: "smooth" });
  };

  const PLACE = 0, STATE = 1, TECHNIQUE = 2, PREDICTED = 3, RESULT = 4, TAKEN = 5, PARENT = 6, CHILD = 7, KERNEL = 8, SHARE = 9;
  const tree = (run, modelled) => {
    const children = new Map(), seen = new Set();
    for (const step of run.steps) {
      const key = [step[PARENT], step[CHILD], step[TECHNIQUE]].join(" ");
      if (seen.has(key)) continue;
      seen.add(key);
      if (!children.has(step[PARENT])) children.set(step[PARENT], []);
      children.get(step[PARENT]).push(step);
    }
    const onWay = new Set();
    const cameFrom = new Map();
    for (const step of run.steps) if (!cameFrom.has(step[CHILD])) cameFrom.set(step[CHILD], step);
    for (let at = run.best; at != null && !onWay.has(at); at = cameFrom.get(at)?.[PARENT]) onWay.add(at);
    const roots = run.candidates.map((_, place) => place).filter((place) => !cameFrom.has(place));
    const drawn = new Set(roots);
    const below = (code) => {
      const list = h("ul");
      for (const step of children.get(code) || []) {
        const first = step[CHILD] != null && !drawn.has(step[CHILD]);
        if (first) drawn.add(step[CHILD]);
        list.append(branch(run, step, onWay.has(step[CHILD]) && first, first ? below(step[CHILD]) : null));
      }
      return list.childElementCount ? list : null;
    };
    const began = roots.find((place) => onWay.has(place)) ?? 0;
    const items = roots.map((place) => {
      const start = run.candidates[place];
      const told = start.us ? `${number(start.us)} us, ${times(start.speedup)} of the baseline's speed` : "";
      return h("li", {}, h("div", { class: "step" + (run.best === place ? " best" : "") },
        h("span", {}, place === 0 ? "first candidate" : `candidate ${place + 1}, from nothing`),
        told ? h("span", { class: "gain" }, told) : h("span", { class: "tag bad", "data-tip": start.reason || null }, start.outcome),
        place === began ? sourceButton(run, began) : null), below(place));
    });
    const best = run.candidates[run.best] || {};
    const end = run.best == null ? "not ended yet" : `best ${number(best.us)} us, floor ${number(best.floor_us)} us${modelled}`;
    return h("div", {}, h("p", { class: "note" },
      `${run.steps.length} steps, ${run.candidates.length} candidates; ${end}. Framed: the way to the best. A step opens by a click.`),
    h("ul", { class: "tree" }, items), reasons(run));
  };

  const sourceButton = (run, began) => {
    if (run.best == null || run.best === began) return null;
    return h("button", { type: "button", class: "more", onclick: (event) => {
      const line = event.currentTarget.closest("li");
      const known = line.querySelector(":scope > .more-detail");
      if (known) return known.remove();
      line.querySelector(":scope > .step").after(h("div", { class: "more-detail" },
        h("h3", {}, "From the first candidate to the best"), difference(run.sources[began], run.sources[run.best])));
    } }, "first to best");
  };

  const branch = (run, step, onWay, list) => {
    const failed = typeof step[RESULT] === "string";
    const gain = failed ? null : Math.exp(step[RESULT]);
    const child = run.candidates[step[CHILD]] || {};
    const fold = h("button", { type: "button", class: "fold", "aria-label": "fold" }, list ? "▾" : "·");
    if (list) fold.addEventListener("click", () => {
      list.hidden = !list.hidden;
      fold.textContent = list.hidden ? "▸" : "▾";
    });
    const line = h("div", { class: "step" + (onWay ? " best" : "") + (step[TAKEN] || onWay ? "" : " left") }, fold,
      h("button", { type: "button", class: "what", "aria-expanded": "false" }, step[TECHNIQUE]),
      gauge(step[PREDICTED], gain),
      h("span", { class: "gain" }, failed ? h("span", { class: "tag bad" }, step[RESULT]) : h("b", { class: tone(gain) }, times(gain)),
        ` predicted ${times(step[PREDICTED])}` + (child.us ? `, ${number(child.us)} us` : "")),
      h("span", { class: "tag", "data-tip": `the state of ${step[KERNEL] || "the kernel"}, ${percent(step[SHARE])} of the time` }, step[STATE]),
      step[TAKEN] ? h("span", { class: "tag good" }, "taken") : null);
    const item = h("li", {}, line, list);
    const what = line.querySelector(".what");
    what.addEventListener("click", () => {
      const known = item.querySelector(":scope > .more-detail");
      what.setAttribute("aria-expanded", String(!known));
      if (known) known.remove();
      else line.after(stepDetail(run, step));
    });
    return item;
  };

  // Predicted (the mark) and measured (the bar) on one scale, in doublings.
  const gauge = (predicted, gain) => {
    const at = (x) => 42 + 40 * Math.max(-1, Math.min(1, Math.log2(x) / 2));
    const space = "http://www.w3.org/2000/svg";
    const part = (tag, attributes) => {
      const node = document.createElementNS(space, tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      return node;
    };
    const node = part("svg", { class: "gauge", viewBox: "0 0 84 14", "aria-hidden": "true" });
    node.append(part("path", { class: "axis", d: "M2 7H82M42 2V12" }));
    if (gain != null) {
      const end = at(gain);
      node.append(part("rect", { x: Math.min(42, end), y: 4, width: Math.max(1, Math.abs(end - 42)), height: 6,
        fill: gain > 1 ? "var(--good)" : "var(--bad)" }));
    }
    node.append(part("path", { class: "told", d: `M${at(predicted)} 1V13` }));
    return node;
  };

  const METRICS = [["us", "time, us"], ["dram", "DRAM, % of peak"], ["compute", "compute, % of peak"],
    ["l1", "L1, % of peak"], ["l2", "L2, % of peak"], ["occupancy", "occupancy, %"], ["registers", "registers a thread"],
    ["spills", "spilled bytes"], ["instructions", "warp instructions"], ["read", "bytes read"], ["written", "bytes written"]];
  const stepDetail = (run, step) => {
    const before = run.candidates[step[PARENT]] || {}, after = run.candidates[step[CHILD]] || {};
    const parts = [h("p", { class: "note" }, `step ${step[PLACE]} on ${step[KERNEL] || "the call"}: ${after.outcome || step[RESULT]}`)];
    if (after.reason) parts.push(h("pre", {}, after.reason.split("\n").map((line) => h("div", {}, line))));
    if (before.kernels && after.kernels) parts.push(profileChange(before.kernels, after.kernels, after.tier));
    if (step[CHILD] != null && step[PARENT] != null)
      parts.push(difference(run.sources[step[PARENT]], run.sources[step[CHILD]]));
    return h("div", { class: "more-detail" }, parts);
  };

  const name = (kernel) => (/^_Z(\d+)/.test(kernel) ? kernel.replace(/^_Z(\d+)/, "").slice(0, +kernel.match(/^_Z(\d+)/)[1]) : kernel.split("(")[0]);
  const profileChange = (before, after, tier) => {
    const rows = [];
    const many = Math.max(before.length, after.length) > 1;
    const total = (kernels, key) => kernels.reduce((sum, kernel) => sum + (kernel[key] || 0), 0);
    if (many) rows.push(["whole call", [["us", "time, us"], ["read", "bytes read"], ["written", "bytes written"]],
      (key) => total(before, key), (key) => total(after, key)]);
    after.forEach((kernel, place) => {
      const old = before.find((other) => name(other.name) === name(kernel.name)) || (many ? null : before[place]);
      if (old) rows.push([name(kernel.name), METRICS, (key) => old[key], (key) => kernel[key]]);
    });
    const parts = rows.flatMap(([title, metrics, was, is]) => {
      const lines = metrics.filter(([key]) => was(key) != null && is(key) != null && was(key) !== is(key))
        .map(([key, label]) => ({ label, was: was(key), is: is(key) }));
      return lines.length ? [h("div", {}, h("h3", {}, title), table([
        text("profile (" + tier + ")", "label"),
        { title: "before", number: true, value: (r) => r.was, show: (r) => large(r.was) },
        { title: "after", number: true, value: (r) => r.is, show: (r) => large(r.is) },
        { title: "ratio", number: true, value: (r) => (r.was ? r.is / r.was : null), show: (r) => (r.was ? times(r.is / r.was) : "") },
      ], lines).node)] : [];
    });
    return parts.length ? h("div", { class: "pair" }, parts) : h("p", { class: "note" }, "The profiles of both do not differ.");
  };

  const reasons = (run) => {
    const found = run.learned ? run.learned.reasons : [];
    if (!found.length) return null;
    return h("div", {}, h("h3", {}, "Why it went otherwise than expected"),
      h("ul", { class: "notes" }, found.map((one) => h("li", {}, h("b", {}, one.technique), ` in ${one.state}: ${one.sentence}`))));
  };

  // The shortest edit between two texts, by lines (Myers 1986); what is equal is folded.
  const difference = (one, other) => {
    const a = one.split("\n"), b = other.split("\n");
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start++;
    let aEnd = a.length, bEnd = b.length;
    while (aEnd > start && bEnd > start && a[aEnd - 1] === b[bEnd - 1]) { aEnd--; bEnd--; }
    const lines = [...a.slice(0, start).map((line) => [" ", line]), ...edits(a.slice(start, aEnd), b.slice(start, bEnd)),
      ...a.slice(aEnd).map((line) => [" ", line])];
    const near = lines.map(() => false);
    lines.forEach(([kind], place) => {
      if (kind !== " ") for (let at = Math.max(0, place - 3); at <= Math.min(lines.length - 1, place + 3); at++) near[at] = true;
    });
    const box = h("pre", { class: "difference" });
    let skipped = 0;
    const gap = () => { if (skipped) box.append(h("div", { class: "gap" }, `⋯ ${skipped} equal lines`)); skipped = 0; };
    lines.forEach(([kind, line], place) => {
      if (!near[place]) { skipped++; return; }
      gap();
      box.append(h("div", { class: kind === "+" ? "added" : kind === "-" ? "removed" : "same" }, kind + " " + line));
    });
    gap();
    return box;
  };
  const edits = (a, b) => {
    const most = a.length + b.length, trace = [], reach = { 1: 0 };
    search: for (let d = 0; d <= most; d++) {
      trace.push({ ...reach });
      for (let k = -d; k <= d; k += 2) {
        let x = k === -d || (k !== d && reach[k - 1] < reach[k + 1]) ? reach[k + 1] : reach[k - 1] + 1;
        while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
        reach[k] = x;
        if (x >= a.length && x - k >= b.length) break search;
      }
    }
    const found = [];
    let x = a.length, y = b.length;
    for (let d = trace.length - 1; d >= 0; d--) {
      const then = trace[d], k = x - y;
      const from = k === -d || (k !== d && then[k - 1] < then[k + 1]) ? k + 1 : k - 1;
      const oldX = then[from] ?? 0, oldY = oldX - from;
      while (x > oldX && y > oldY && x > 0 && y > 0) { found.push([" ", a[x - 1]]); x--; y--; }
      if (d > 0) { found.push(x === oldX ? ["+", b[oldY]] : ["-", a[oldX]]); x = oldX; y = oldY; }
    }
    return found.reverse();
  };

  const usedTables = (subject, host) => {
    const counts = [
      { title: "applied", number: true, value: (r) => r.attempts, show: (r) => String(r.attempts) },
      { title: "paid", number: true, value: (r) => r.paid, show: (r) => String(r.paid) },
      { title: "no gain", number: true, value: (r) => r.idle, show: (r) => String(r.idle) },
      { title: "failed", number: true, value: (r) => r.failed,
        show: (r) => h("span", { "data-tip": Object.entries(r.failures).map(([k, n]) => `${k} ${n}`).join(", ") || null }, String(r.failed)) },
      { title: "median", number: true, value: (r) => r.median_speedup, show: (r) => h("span", { class: tone(r.median_speedup) }, times(r.median_speedup)) },
    ];
    const card = (title, made, note) => h("div", { class: "card" }, h("h3", {}, title), made.node, note ? h("p", { class: "note" }, note) : null);
    const used = subject.usage;
    if (!used.techniques.length) { host.append(h("p", { class: "note" }, "Nothing was applied.")); return; }
    const visited = used.states_a_task == null ? "" : `A task's kernels were in ${used.states_a_task.toFixed(1)} states on average.`;
    host.append(h("div", { class: "stack" },
      card("Technique by state", table([named("state", "state"), named("technique", "technique"), ...counts], used.pairs.slice(0, 400), { by: 2, down: true }), visited),
      card("Which technique pays after which", table([
        named("after", "before"), named("technique", "technique"),
        { title: "applied", number: true, value: (r) => r.attempts, show: (r) => String(r.attempts) },
        { title: "paid", number: true, value: (r) => r.paid, show: (r) => percent(r.paid) },
        { title: "median", number: true, value: (r) => r.median_speedup, show: (r) => h("span", { class: tone(r.median_speedup) }, times(r.median_speedup)) },
        { title: "anywhere", number: true, value: (r) => r.median_anywhere, show: (r) => times(r.median_anywhere) },
      ], used.transitions.slice(0, 400), { by: 4, down: true }), "Median speedup of a technique applied directly after another, and wherever it was applied.")));
  };

  const learnedTable = (subject) => table([
    named("state", "state"), named("technique", "technique"),
    { title: "expected before", number: true, value: (r) => r.before?.speedup, show: (r) => (r.before ? times(r.before.speedup) : "unknown") },
    { title: "after", number: true, value: (r) => r.after?.speedup, show: (r) => h("b", { class: tone(r.after?.speedup) }, times(r.after?.speedup)) },
    { title: "valid", number: true, value: (r) => r.after?.valid_chance, show: (r) => percent(r.after?.valid_chance) },
    { title: "attempts", number: true, value: (r) => r.after?.attempts, show: (r) => number(r.after?.attempts) },
    { title: "why", wide: true, value: (r) => r.reasons.length, show: (r) => clamped(r.reasons[r.reasons.length - 1] || "") },
  ], subject.learned, { by: 5, down: true }).node;

  const costTable = (subject) => table([
    { title: "level", value: (r) => r.group, show: (r) => (r.group === "all" ? "all tasks" : r.group) },
    { title: "evaluations", number: true, value: (r) => r.evaluations, show: (r) => number(r.evaluations) },
    { title: "device s", number: true, value: (r) => r.device_seconds, show: (r) => number(r.device_seconds, 3) },
    { title: "wall s", number: true, value: (r) => r.seconds, show: (r) => number(r.seconds, 3) },
    { title: "tokens", number: true, value: (r) => r.tokens, show: (r) => number(r.tokens) },
    { title: "usd", number: true, value: (r) => r.usd, show: (r) => (r.usd == null ? "unknown" : r.usd.toFixed(2)) },
    ...[["evaluation", "an evaluation"], ["device_second", "a device second"], ["token", "a token"], ["usd", "a dollar"]].map(([key, title]) =>
      ({ title: "doublings for " + title, number: true, value: (r) => r.for_each[key], show: (r) => number(r.for_each[key], 3) })),
  ], subject.costs).node;

  const fill = (subject, place) => {
    const host = (what) => document.getElementById(`s${place}-${what}`);
    host("summary")?.append(summaryTable(subject));
    taskTable(subject, place, host("tasks"));
    usedTables(subject, host("used"));
    if (subject.learned.length) host("learned").append(learnedTable(subject));
    host("costs").append(costTable(subject));
    const choice = host("choice");
    const known = subject.rows.filter((row) => row.job in subject.runs);
    if (choice) {
      known.forEach((row) => choice.append(h("option", { value: row.job }, `${row.task}${row.seed ? " #" + row.seed : ""}, ${times(row.speedup) || row.status}`)));
      choice.addEventListener("change", () => choose(place, choice.value, false));
      const best = [...known].sort((a, b) => (b.speedup ?? 0) - (a.speedup ?? 0))[0];
      if (best) choose(place, best.job, false);
    }
  };
  const filled = new Set();
  const show = (place) => {
    data.subjects.forEach((_, other) => { document.getElementById(`s${other}`).hidden = other !== place; });
    document.querySelectorAll("nav [data-subject]").forEach((one) =>
      one.setAttribute("aria-pressed", String(+one.dataset.subject === place)));
    document.querySelectorAll("nav [data-part]").forEach((one) => one.setAttribute("href", `#s${place}-${one.dataset.part}-part`));
    if (!filled.has(place)) { filled.add(place); fill(data.subjects[place], place); }
  };
  document.querySelectorAll("nav [data-subject]").forEach((one) => one.addEventListener("click", () => show(+one.dataset.subject)));
  show(0);
})();
