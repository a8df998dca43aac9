/* The switch between languages on pages of symptoms and rules: which one is remembered in this browser, and told to the
   style sheet by an attribute of the page. It runs before anything is shown; the buttons are there later. */
(() => {
  "use strict";
  const KEY = "vllm-runbooks-language", root = document.documentElement;
  const known = (name) => /^[a-z]{2}$/.test(name || "") ? name : "en";

  function remembered() {
    try { return known(localStorage.getItem(KEY)); } catch { return "en"; }
  }

  function choose(name) {
    root.dataset.told = name;
    for (const button of document.querySelectorAll(".language-switch button")) {
      button.setAttribute("aria-pressed", String(button.dataset.told === name));
    }
  }

  choose(remembered());
  document.addEventListener("DOMContentLoaded", () => {
    const buttons = [...document.querySelectorAll(".language-switch button")];
    if (!buttons.some((button) => button.dataset.told === root.dataset.told)) root.dataset.told = "en";
    choose(root.dataset.told);
    for (const button of buttons) {
      button.addEventListener("click", () => {
        try { localStorage.setItem(KEY, button.dataset.told); } catch { /* not remembered, then */ }
        choose(button.dataset.told);
      });
    }
  });
})();
