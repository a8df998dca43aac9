/* Buttons that copy commands, and fields that filter the lists of a page. */
(() => {
  "use strict";

  /* What is typed into a shell: without the prompts, and without what was printed. */
  function command(block) {
    const text = block.textContent.replace(/\n+$/, "");
    if (!block.closest(".highlight-console")) return text;
    const lines = text.split("\n"), typed = lines.filter((line) => /^[$#] /.test(line)).map((line) => line.slice(2));
    return typed.length ? typed.join("\n") : text;
  }

  function copyButton(block) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy-button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command(block));
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    return button;
  }

  const BLOCKS = ["console", "bash", "sh", "shell", "yaml", "json", "ini", "docker"].map((name) => `.highlight-${name} pre`);
  for (const block of document.querySelectorAll(`pre[data-copy], ${BLOCKS.join(", ")}`)) {
    if (block.closest(".cell_input, .bad-example")) continue;
    const frame = document.createElement("div");
    frame.className = "copy-frame";
    block.replaceWith(frame);
    frame.append(block, copyButton(block));
  }

  // MyST-NB names the folded code of a runbook otherwise than it is shown.
  for (const summary of document.querySelectorAll("details.above-input > summary")) summary.removeAttribute("aria-label");

  /* A field hides the rows and items after it that lack one of its words, and headings that are left without any. */
  for (const field of document.querySelectorAll(".filter")) {
    const input = field.querySelector("input"), count = field.querySelector("[role=status]");
    const article = field.closest("article");
    const rows = [...article.querySelectorAll("table.catalog tbody tr, section li, .names li")];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const sections = [...article.querySelectorAll("section section")];
    const everywhere = document.createElement("button");
    everywhere.type = "button";
    everywhere.textContent = "Search all pages for this";
    everywhere.addEventListener("click", () => SiteSearch.open(input.value));
    const apply = () => {
      const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let visible = 0;
      rows.forEach((row, place) => {
        row.hidden = !asked.every((word) => texts[place].includes(word));
        visible += row.hidden ? 0 : 1;
      });
      for (const section of sections) {
        section.hidden = asked.length > 0 && Boolean(section.querySelector("li")) && !section.querySelector("li:not([hidden])");
      }
      count.textContent = asked.length ? `${visible} of ${rows.length}` : "";
      if (!visible && asked.length) count.append(". ", everywhere);
    };
    input.addEventListener("input", apply);
    field.hidden = false;
    if (input.value) apply();
  }
})();
