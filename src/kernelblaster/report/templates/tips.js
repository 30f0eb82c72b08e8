"use strict";
// What every page has: tips by mouse and by touch, and a hint where a table goes on beyond its edge.
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const follow = (event) => {
    const target = event.target.closest?.("[data-tip]");
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.dataset.tip;
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = Math.max(6, Math.min(event.clientX + 12, innerWidth - wide - 6)) + "px";
    tip.style.top = (event.clientY + high + 24 > innerHeight ? event.clientY - high - 10 : event.clientY + 14) + "px";
  };
  document.addEventListener("pointermove", follow);
  document.addEventListener("pointerdown", follow);

  // What is wider than its box fades out at the edge, and a table says that it goes on. Tables come and go:
  // each is looked at when it gets a size.
  const hint = (box) => {
    const beyond = box.scrollWidth - box.clientWidth - box.scrollLeft > 8;
    box.toggleAttribute("data-beyond", beyond);
    if (box.hinted) box.hinted.hidden = !beyond;
  };
  const sizes = new ResizeObserver((seen) => seen.forEach((one) => hint(one.target)));
  const watched = new WeakSet();
  const watch = (box) => {
    if (watched.has(box)) return;
    watched.add(box);
    if (box.matches(".scroll")) {
      box.hinted = document.createElement("span");
      box.hinted.className = "beyond";
      box.hinted.textContent = "more to the right →";
      box.before(box.hinted);
    }
    box.addEventListener("scroll", () => hint(box), { passive: true });
    sizes.observe(box);
    hint(box);
  };
  const watchAll = () => document.querySelectorAll(".scroll, nav div, pre.code").forEach(watch);
  new MutationObserver(watchAll).observe(document.body, { childList: true, subtree: true });
  watchAll();
})();
