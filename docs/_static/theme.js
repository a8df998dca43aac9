// Before anything is drawn: the theme that the reader chose on any page of the site. The keys are those of its theme.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem("mode") || "auto";
    } catch {
      return "auto";  // a browser that keeps nothing
    }
  };
  const apply = (mode) => {
    root.dataset.mode = mode;
    root.dataset.theme = mode === "auto" ? (dark.matches ? "dark" : "light") : mode;
  };
  apply(stored());
  dark.addEventListener("change", () => apply(stored()));
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("#theme");
    if (!button) return;
    const name = () => {
      const mode = root.dataset.mode;
      button.textContent = `◐ ${mode.charAt(0).toUpperCase()}${mode.slice(1)}`;
      button.title = `Theme: ${mode}`;
      button.setAttribute("aria-label", `Theme: ${mode}`);
    };
    name();
    button.addEventListener("click", () => {
      const modes = ["auto", "light", "dark"];
      const next = modes[(modes.indexOf(root.dataset.mode) + 1) % modes.length];
      apply(next);
      try {
        localStorage.setItem("mode", next);
        localStorage.setItem("theme", root.dataset.theme);
      } catch {}
      name();
    });
  });
})();
