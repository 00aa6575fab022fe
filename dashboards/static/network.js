// Sizes of large drawings: as they are, smaller, larger, or as wide or high as their frame.
(() => {
  "use strict";

  for (const group of document.querySelectorAll("[data-zoom]")) {
    const drawing = document.getElementById(group.dataset.zoom);
    const { width, height } = drawing.viewBox.baseVal;
    const frame = drawing.parentElement;
    group.hidden = false;
    group.addEventListener("click", (event) => {
      const button = event.target.closest("[data-scale]");
      if (!button) return;
      const fit = Math.min(frame.clientWidth / width, frame.clientHeight / height);
      const scale = button.dataset.scale === "fit" ? fit : Number(button.dataset.scale);
      drawing.setAttribute("width", width * scale);
      drawing.setAttribute("height", height * scale);
      for (const other of group.children) other.setAttribute("aria-pressed", other === button);
    });
  }
})();
