// Sizes of large drawings: as they are, smaller, larger, or as wide or high as their frame.
(() => {
  "use strict";

  const drawings = (group) =>
    group.dataset.zoom.split(" ").flatMap((id) => document.getElementById(id) ?? []);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zoom] [data-scale]");
    if (!button) return;
    const group = button.closest("[data-zoom]");
    for (const drawing of drawings(group)) {
      const { width, height } = drawing.viewBox.baseVal;
      const frame = drawing.parentElement;
      const fit = Math.min(frame.clientWidth / width, frame.clientHeight / height);
      const scale = button.dataset.scale === "fit" ? fit : Number(button.dataset.scale);
      drawing.setAttribute("width", width * scale);
      drawing.setAttribute("height", height * scale);
    }
    for (const other of group.children) other.setAttribute("aria-pressed", other === button);
  });

  // Drawings may arrive after the page.
  function show() {
    for (const group of document.querySelectorAll("[data-zoom]")) group.hidden = false;
  }
  show();
  document.addEventListener("htmx:afterSwap", show);
})();
