// Links between schedule, loop nest, packets and stalls, and help at each instruction. All of it
// reads what the page holds, and listens on the document: the code arrives after the page.
(() => {
  "use strict";

  function mark(name, attribute, values) {
    for (const lit of document.querySelectorAll(`.${name}`)) lit.classList.remove(name);
    for (const value of values) {
      for (const each of document.querySelectorAll(`[${attribute}~="${value}"]`)) {
        each.classList.add(name);
      }
    }
  }

  let told = null;
  function tell(cell) {
    const tip = document.getElementById("tip");
    if (!tip || cell === told) return;
    told = cell;
    tip.hidden = !cell;
    document.querySelector("[aria-describedby=tip]")?.removeAttribute("aria-describedby");
    if (!cell) return;
    tip.replaceChildren();
    for (const place of cell.dataset.help.split(" ")) {
      const [mnemonic, rule, stages, source] = document.getElementById(`help-${place}`).cells;
      const head = document.createElement("p");
      head.className = "strong";
      head.textContent = `${mnemonic.textContent}: ${rule.textContent}`;
      tip.append(head);
      for (const part of [stages, source]) {
        if (!part.textContent) continue;
        const line = document.createElement("p");
        line.textContent = `${part === stages ? "stages: " : "source: "}${part.textContent}`;
        tip.append(line);
      }
    }
    cell.setAttribute("aria-describedby", "tip");
    place();
  }

  function place() {
    if (!told) return;
    const tip = document.getElementById("tip");
    const at = told.getBoundingClientRect();
    const below = at.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.top = `${Math.max(4, below ? at.bottom + 6 : at.top - tip.offsetHeight - 6)}px`;
    tip.style.left = `${Math.max(4, Math.min(at.left, document.documentElement.clientWidth - tip.offsetWidth - 4))}px`;
  }

  function follow(event) {
    if (!(event.target instanceof Element)) return;
    const rows = event.target.closest("[data-rows]");
    mark("lit", "data-rows", rows ? rows.dataset.rows.split(" ") : []);
    const packet = event.target.closest("[data-packet]");
    mark("lit-packet", "data-packet", packet ? [packet.dataset.packet] : []);
    tell(event.target.closest("[data-help]"));
  }
  // What scrolls under a pointer that rests is not pointed at: the focus stays in charge.
  let rests = "";
  const whereIs = (event) => `${event.screenX} ${event.screenY}`;
  document.addEventListener("mouseover", (event) => {
    if (whereIs(event) !== rests) follow(event);
  });
  document.addEventListener("mousemove", (event) => {
    rests = whereIs(event);
  }, { passive: true });
  document.addEventListener("focusin", follow);
  document.addEventListener("scroll", place, { capture: true, passive: true });

  // A table is one stop of the Tab key; arrows lead from instruction to instruction.
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  function cellFrom(cell, down, right) {
    let row = cell.parentElement;
    let column = cell.cellIndex;
    for (;;) {
      if (down) row = down > 0 ? row.nextElementSibling : row.previousElementSibling;
      else column += right;
      const next = row?.cells[column];
      if (!next) return null;
      if (next.dataset.help !== undefined) return next;
    }
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") tell(null);
    const cell = event.target.closest("[data-help]");
    const step = STEPS[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    const next = cellFrom(cell, ...step);
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  function openTables() {
    for (const table of document.querySelectorAll("table.slots")) {
      if (table.querySelector("td[tabindex='0']")) continue;
      table.querySelector("td[data-help]")?.setAttribute("tabindex", "0");
    }
  }
  document.addEventListener("DOMContentLoaded", openTables);
  document.addEventListener("htmx:afterSwap", openTables);
})();
