// Runs before anything is drawn, so that a dark page never flashes white. Not a module: those wait.
"use strict";
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem("mundap.theme");
    } catch {
      return null; // storage is switched off
    }
  };
  const show = () => {
    const chosen = stored();
    const dark = chosen ? chosen === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  };
  system.addEventListener("change", show);
  show();
})();
