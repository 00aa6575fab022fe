// Small things that many pages share: copying commands, asking before what cannot be undone.
// Loaded before the page's body, so that no choice is made while nothing listens.
(() => {
  "use strict";

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(document.getElementById(button.dataset.copy));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected";
    }
  });

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  // A file that the service would refuse is not sent, and one that takes long to read says so.
  document.addEventListener("change", ({ target }) => {
    const most = Number(target.dataset.mostBytes);
    if (!most || !target.files.length) return;
    const size = target.files[0].size;
    target.setCustomValidity(size > most ? `The file has ${size.toLocaleString("en")} bytes; at most ${most.toLocaleString("en")} are taken here.` : "");
    target.reportValidity();
  });
  document.addEventListener("submit", (event) => {
    const button = event.target.querySelector("button");
    if (!event.target.dataset.busy || event.defaultPrevented) return;
    button.dataset.idle = button.textContent;
    button.textContent = event.target.dataset.busy;
  });
  addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("[data-idle]")) button.textContent = button.dataset.idle;
  });

  // Filters apply as soon as they are chosen; their button is for those without scripts.
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-auto]");
    if (!form) return;
    sessionStorage.setItem("chosen", event.target.id);
    form.requestSubmit();
  });

  // A part of a page that can be asked for by itself is replaced alone, under the address of the
  // whole page; what shows it leads there without scripts, or before htmx has come.
  let shown = location.search;
  async function show(part, query) {
    await htmx.ajax("GET", part.dataset.part + query, { target: part, swap: "outerHTML" });
    shown = query;
    sessionStorage.removeItem("chosen");
  }
  document.addEventListener("submit", async (event) => {
    const part = event.target.closest("[data-part]");
    if (!part || !window.htmx) return;
    event.preventDefault();
    const query = `?${new URLSearchParams(new FormData(event.target))}`;
    await show(part, query);
    history.pushState(null, "", query);
  });
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-shows]");
    if (!link || !window.htmx || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const id = link.dataset.shows;
    await show(document.getElementById(id), link.search);
    history.pushState(null, "", link.search);
    document.getElementById(id).scrollIntoView();
  });
  addEventListener("popstate", () => {
    const part = document.querySelector("[data-part]");
    if (part && location.search !== shown) show(part, location.search);
  });
  // What a page asks for again and again is asked for as it is shown by then.
  const queried = () => document.querySelector("[data-query]")?.dataset.query;
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.target.id === "live" && queried()) event.detail.path += `&${queried()}`;
  });
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const late = event.detail.fragment.querySelector("[data-query]");
    if (late && late.dataset.query !== queried()) event.detail.shouldSwap = false;
  });
  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("form[data-auto] [data-fallback]")) {
      button.hidden = true;
    }
    // The page that follows a choice begins where it was made, for those who choose by keyboard.
    document.getElementById(sessionStorage.getItem("chosen"))?.focus({ preventScroll: true });
    sessionStorage.removeItem("chosen");
  });
  // Browsers that go back restore what was chosen, not what the page was made for.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-auto]")) form.reset();
  });

  // A page that cannot ask any more says so, and takes nothing for the present.
  let answeredAt = new Date();
  function tellConnection(lost) {
    const place = document.getElementById("connection");
    if (!lost) answeredAt = new Date();
    if (!place || lost === !place.hidden) return;
    document.documentElement.toggleAttribute("data-lost", lost);
    place.hidden = !lost;
    place.textContent = lost
      ? `Connection lost: this page is as of ${answeredAt.toLocaleTimeString()}. It goes on by itself when the service answers.`
      : "";
  }
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => tellConnection(true));
  }
  document.addEventListener("htmx:afterOnLoad", (event) => {
    tellConnection(event.detail.xhr.status >= 500);
  });

  // Tables that are replaced while they are read stay where they were scrolled to, and ticked.
  const scrolled = new Map();
  let ticked = new Set();
  const boxes = () => document.querySelectorAll("input[name=ticked]");
  document.addEventListener("htmx:beforeSwap", () => {
    ticked = new Set([...boxes()].filter((box) => box.checked).map((box) => box.value));
    for (const region of document.querySelectorAll(".scroll[aria-label]")) {
      scrolled.set(region.getAttribute("aria-label"), region.scrollLeft);
    }
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const box of boxes()) box.checked ||= ticked.has(box.value);
    for (const region of document.querySelectorAll(".scroll[aria-label]")) {
      region.scrollLeft = scrolled.get(region.getAttribute("aria-label")) ?? 0;
    }
  });
})();
