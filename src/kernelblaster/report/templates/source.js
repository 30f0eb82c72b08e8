"use strict";
// Sources in colours, and the differences between two of them, on every page that has a source.
//   <pre class="code numbered" data-language="cuda">...</pre>                  coloured where it stands
//   <pre class="code difference" data-before="NAME" data-after="NAME"></pre>   filled with a difference
// Each is done when it comes into sight. Sources are untrusted: they only ever become text nodes.
(() => {
  const NEAR = 3; // equal lines that are shown before and after a change
  const MOST_LINES = 800; // of a difference that are shown
  const MOST_EDITS = 1500; // beyond, all old lines are shown as removed
  const LONGEST = 400_000; // characters of a source that are coloured

  // A token has a named group for its class, or is a word. Each pattern takes linear time.
  const words = (text) => new RegExp(`^(?:${text.replace(/\s+/g, "|")})$`);
  const GRAMMARS = {
    cuda: {
      tokens: /(?<c>\/\/[^\n]*|\/\*[^]*?(?:\*\/|(?![^])))|(?<s>R"(?<mark>[^\s()\\"]{0,16})\([^]{0,4000}?\)\k<mark>"|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])+'?)|(?<d>^[ \t]*#[ \t]*\w*)|(?<n>\.?\d(?:[eEpP][+-]|'?\w|\.)*)|(?<word>[A-Za-z_]\w*)/gm,
      k: words("alignas asm auto break case catch class const constexpr continue decltype default delete do else enum explicit extern false for friend goto if inline namespace new noexcept nullptr operator private public register reinterpret_cast return sizeof static static_assert static_cast struct switch template this throw true try typedef typename union using virtual volatile while"),
      t: words("bool char u?(?:int|long|short)[1-4]? float[234]? double[234]? signed unsigned void size_t u?int(?:8|16|32|64)_t half2? bfloat16 __half2? __nv_bfloat162? dim3 cuda\\w+_t"),
      b: words("(?:thread|block)Idx (?:block|grid)Dim warpSize __\\w+"),
      calls: "(<",
    },
    python: {
      tokens: /(?<c>#[^\n]*)|(?<s>(?:\b[rRbBuUfF]{1,2})?(?:"""(?:\\[^]|[^])*?(?:"""|(?![^]))|'''(?:\\[^]|[^])*?(?:'''|(?![^]))|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?))|(?<d>^[ \t]*@[\w.]+)|(?<n>\.?\d(?:[eE][+-]|\w|\.)*)|(?<word>[A-Za-z_]\w*)/gm,
      k: words("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield"),
      t: words("bool bytes dict float int list set str tuple"),
      b: words("len print range self super zip __\\w+"),
      calls: "(",
    },
  };

  // The text in parts [class, part]: c(omment), s(tring), d(irective), n(umber), k(eyword), t(ype), b(uiltin), f(unction).
  function* tokens(text, language) {
    const grammar = GRAMMARS[language];
    let end = 0;
    if (grammar && text.length <= LONGEST) {
      for (const match of text.matchAll(grammar.tokens)) {
        if (match.index > end) yield ["", text.slice(end, match.index)];
        end = match.index + match[0].length;
        const { word, ...groups } = match.groups;
        if (word === undefined) yield [["c", "s", "d", "n"].find((name) => groups[name] !== undefined), match[0]];
        else {
          const after = text[end];
          yield [["k", "t", "b"].find((name) => grammar[name].test(word)) ?? (after && grammar.calls.includes(after) ? "f" : ""), word];
        }
      }
    }
    if (end < text.length) yield ["", text.slice(end)];
  }

  // Control characters, and those that change the direction of text, become visible escapes.
  const printable = (text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (c) => { const code = c.charCodeAt(0); return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0"); });

  // The lines of a text, each as a list of [class, part].
  const highlight = (text, language) => {
    const lines = [[]];
    for (const [kind, part] of tokens(printable(text), language)) {
      const [first, ...others] = part.split("\n");
      if (first) lines[lines.length - 1].push([kind, first]);
      for (const other of others) lines.push(other ? [[kind, other]] : []);
    }
    return lines;
  };
  const drawn = (line) => line.map(([kind, part]) => {
    if (!kind) return document.createTextNode(part);
    const node = document.createElement("i");
    node.className = kind;
    node.textContent = part;
    return node;
  });
  const element = (tag, name, ...children) => {
    const node = document.createElement(tag);
    node.className = name;
    node.append(...children);
    return node;
  };

  // The shortest edit between two lists of lines (Myers 1986), as [sign, line of a, line of b]; null if it is too long.
  const edits = (a, b) => {
    const most = Math.min(a.length + b.length, MOST_EDITS), middle = most + 1;
    const reach = new Int32Array(2 * most + 3), trace = [];
    let found = a.length + b.length === 0 ? 0 : -1;
    for (let d = 0; d <= most && found < 0; d++) {
      trace.push(reach.slice(middle - d - 1, middle + d + 2));
      for (let k = -d; k <= d; k += 2) {
        let x = k === -d || (k !== d && reach[middle + k - 1] < reach[middle + k + 1]) ? reach[middle + k + 1] : reach[middle + k - 1] + 1;
        while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
        reach[middle + k] = x;
        if (x >= a.length && x - k >= b.length) { found = d; break; }
      }
    }
    if (found < 0) return null;
    const steps = [];
    let x = a.length, y = b.length;
    for (let d = found; d > 0; d--) {
      const then = trace[d], at = (k) => then[k + d + 1], k = x - y;
      const from = k === -d || (k !== d && at(k - 1) < at(k + 1)) ? k + 1 : k - 1;
      const oldX = at(from), oldY = oldX - from;
      while (x > oldX && y > oldY) steps.push([" ", --x, --y]);
      if (x === oldX) steps.push(["+", x, --y]);
      else steps.push(["-", --x, y]);
    }
    while (x > 0 && y > 0) steps.push([" ", --x, --y]);
    return steps.reverse();
  };
  const compared = (a, b) => {
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start++;
    let end = 0;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
    const inner = edits(a.slice(start, a.length - end), b.slice(start, b.length - end)) ?? [
      ...a.slice(start, a.length - end).map((_, at) => ["-", at, 0]), ...b.slice(start, b.length - end).map((_, at) => ["+", 0, at])];
    return [...a.slice(0, start).map((_, at) => [" ", at, at]), ...inner.map(([sign, x, y]) => [sign, x + start, y + start]),
      ...a.slice(a.length - end).map((_, at) => [" ", a.length - end + at, b.length - end + at])];
  };

  const NAMES = { "+": "added", "-": "removed", " ": "same" };
  const difference = (before, after, language) => {
    const old = highlight(before, language), now = highlight(after, language);
    const lines = compared(before.split("\n"), after.split("\n"));
    const near = new Uint8Array(lines.length);
    lines.forEach(([sign], at) => { if (sign !== " ") near.fill(1, Math.max(0, at - NEAR), at + NEAR + 1); });
    const row = ([sign, x, y]) => element("div", NAMES[sign], sign + " ", ...drawn(sign === "-" ? old[x] : now[y]));
    const box = document.createDocumentFragment();
    let left = near.reduce((sum, one) => sum + one, 0);
    for (let at = 0, shown = 0; at < lines.length && (shown < MOST_LINES || !left); shown++) {
      if (near[at]) { box.append(row(lines[at++])); left--; continue; }
      let end = at;
      while (end < lines.length && !near[end]) end++;
      const hidden = lines.slice(at, end), gap = element("div", "gap"), more = element("button", "unfold", `⋯ ${hidden.length} equal lines`);
      more.type = "button";
      more.addEventListener("click", () => gap.replaceWith(...hidden.map(row)));
      gap.append(more);
      box.append(gap);
      at = end;
    }
    if (left) box.append(element("div", "gap", `⋯ ${left} lines more`));
    return box;
  };

  // Where a source is: with a node above (`node.sources`), in the page, or at an address that it names.
  const kept = new Map();
  const load = (from) => {
    if (!kept.has(from)) kept.set(from, fetch(from).then((reply) => (reply.ok ? reply.text() : undefined)));
    return kept.get(from);
  };
  const sourceOf = async (name, node) => {
    if (name.startsWith("/")) return load(name);
    for (let at = node; at; at = at.parentElement) {
      if (at.sources) return at.sources[name];
      if (at.dataset.sources) return load(`${at.dataset.sources}/${encodeURIComponent(name)}`);
    }
    const inside = document.getElementById("sources");
    document.sources ??= inside ? JSON.parse(inside.textContent) : {};
    return document.sources[name];
  };

  const colour = (box) => {
    const code = box.querySelector("code") ?? box;
    const text = code.textContent;
    const lines = highlight(text.replace(/\n$/, ""), box.dataset.language);
    code.replaceChildren(...lines.flatMap((line, at) => [element("span", "", ...drawn(line)), at < lines.length - 1 ? "\n" : ""]));
  };
  const fill = async (box) => {
    if (box.dataset.done) return;
    box.dataset.done = "yes";
    if (!box.dataset.after) { colour(box); return; }
    try {
      const [before, after] = await Promise.all([sourceOf(box.dataset.before, box), sourceOf(box.dataset.after, box)]);
      if (before === undefined || after === undefined) box.replaceChildren(element("div", "gap", "One of the sources is lost."));
      else if (before === after) box.replaceChildren(element("div", "gap", "The sources are equal."));
      else box.replaceChildren(difference(before, after, box.dataset.language));
    } catch {
      delete box.dataset.done;
      box.replaceChildren(element("div", "gap", "The sources could not be loaded."));
    }
  };

  const SOURCES = "pre[data-language], pre[data-after]";
  const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) { seen.unobserve(entry.target); fill(entry.target); }
  }), { rootMargin: "400px" });
  const watch = () => document.querySelectorAll(SOURCES).forEach((box) => { if (!box.dataset.done) seen.observe(box); });
  new MutationObserver(watch).observe(document.body, { childList: true, subtree: true });
  watch();
  addEventListener("beforeprint", () => document.querySelectorAll(SOURCES).forEach((box) => { if (box.offsetParent) fill(box); }));
  window.kernelblasterSource = { tokens, highlight, compared }; // for tests
})();
