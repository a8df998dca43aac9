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

  const MOST_SIMILAR = 5;
  // MyST-NB names the folded code of a runbook otherwise than it is shown.
  // The code is below what it printed.
  for (const summary of document.querySelectorAll("details.above-input > summary")) {
    summary.removeAttribute("aria-label");
    summary.closest(".cell").append(summary.parentElement);
  }

  /* A field hides the rows and items after it that lack one of its words, and headings that are left without any. If
     none has them, as with a pasted error, it shows those that the site's search finds: it knows the printed lines. */
  for (const field of document.querySelectorAll(".filter")) {
    const input = field.querySelector("input"), count = field.querySelector("[role=status]");
    const article = field.closest("article");
    // Words that find a row of a name alone, by its target, such as the title of an option's group.
    const words = JSON.parse(field.dataset.words ?? "{}");
    const unfiltered = [...article.querySelectorAll(".unfiltered")];
    const nearby = document.createElement("ol");
    nearby.className = "nearby";
    field.append(nearby);
    const rows = [...article.querySelectorAll("table.catalog tbody tr, section li")]
      .filter((row) => !row.closest(".unfiltered"));
    const texts = rows.map((row) => `${row.textContent} ${words[row.querySelector("a")?.hash] ?? ""}`.toLowerCase());
    const sections = [...article.querySelectorAll("section section")];
    const everywhere = document.createElement("button");
    everywhere.type = "button";
    everywhere.textContent = "Search all pages for this";
    everywhere.addEventListener("click", () => SiteSearch.open(input.value));
    const show = (isShown) => {
      rows.forEach((row, place) => { row.hidden = !isShown(row, place); });
      for (const section of sections) {
        section.hidden = Boolean(section.querySelector("li")) && !section.querySelector("li:not([hidden])");
      }
      return rows.filter((row) => !row.hidden).length;
    };
    const nearest = async (typed) => {
      await SiteSearch.load();
      if (typed !== input.value) return;
      const links = rows.map((row) => row.querySelector("a")?.href ?? "");
      const hits = SiteSearch.scored(typed)
        .map(({entry, points}) => ({place: links.findIndex((href) => href.endsWith(`/${entry.page}`)), points}))
        .filter(({place}) => place >= 0);
      const near = hits.slice(0, MOST_SIMILAR).filter(({points}) => points * 2 > hits[0].points);
      // In the order of their points: the page's own order would put another subject first.
      nearby.replaceChildren(...near.map(({place}) => {
        const item = document.createElement("li");
        item.append(rows[place].querySelector("a").cloneNode(true));
        return item;
      }));
      const visible = near.length;
      if (visible) count.replaceChildren(`Closest by message: ${visible} of ${rows.length}. `, everywhere);
    };
    const apply = () => {
      const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      nearby.replaceChildren();
      for (const part of unfiltered) part.hidden = asked.length > 0;
      // "port" is no part of "support", unless nothing begins with it.
      const begins = (text, word) => text.split(word).slice(0, -1).some((before) => !/[a-z0-9]$/.test(before));
      const visible = show((_, place) => asked.every((word) => begins(texts[place], word)))
        || show((_, place) => asked.every((word) => texts[place].includes(word)));
      count.textContent = asked.length ? `${visible} of ${rows.length}` : "";
      if (visible || !asked.length) return;
      count.append(". ", everywhere);
      nearest(input.value).catch(() => {});
    };
    input.addEventListener("input", apply);
    field.hidden = false;
    if (input.value) apply();
  }
})();
