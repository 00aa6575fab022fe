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

  // Filters apply as soon as they are chosen; their button is for those without scripts.
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-auto]");
    if (form) form.requestSubmit();
  });
  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("form[data-auto] [data-fallback]")) {
      button.hidden = true;
    }
  });
})();
