// Light or dark: what the viewer chose, else what the system says. Runs before the first paint.
(() => {
  "use strict";
  const KEY = "hvxtune-theme";
  const root = document.documentElement;
  const stored = localStorage.getItem(KEY);
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  const dark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    const tell = () => {
      button.textContent = dark() ? "Light" : "Dark";
    };
    tell();
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      localStorage.setItem(KEY, root.dataset.theme);
      tell();
      document.dispatchEvent(new CustomEvent("themechange"));
    });
  });
})();
