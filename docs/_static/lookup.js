/* The box on the start page: printed lines, titles and ids of the catalog, looked through in the page itself.
   The data is a script of the site, loaded when the box is first used; nothing is sent anywhere. */
(() => {
  "use strict";
  const box = document.getElementById("lookup");
  if (!box) return;
  const input = document.getElementById("lookup-text");
  const count = document.getElementById("lookup-count");
  const found = document.getElementById("lookup-found");
  const MOST = 12, LONGEST = 4000;
  let table = null, weights = null, loading = null;

  const words = (text) => [...new Set(text.slice(0, LONGEST).toLowerCase().match(/[a-z_][a-z0-9_]{2,60}/g) || [])];

  function load() {
    loading ||= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = box.dataset.source || "_static/lookup-data.js";
      script.onload = resolve;
      script.onerror = () => { loading = null; reject(new Error("not loaded")); };
      document.head.append(script);
    }).then(() => {
      table = globalThis.LOOKUP.map((entry) => ({
        ...entry, words: new Set(words([entry.id, entry.title, ...entry.lines].join(" "))),
      }));
      const seen = new Map();
      for (const entry of table) for (const word of entry.words) seen.set(word, (seen.get(word) || 0) + 1);
      // A word that few entries hold tells more than one that most do.
      weights = new Map([...seen].map(([word, times]) => [word, Math.log(1 + table.length / times)]));
    });
    return loading;
  }

  /* The last word may still be being typed: it counts where a word begins with it. */
  function score(entry, asked) {
    let sum = 0;
    asked.forEach((word, index) => {
      if (entry.words.has(word)) sum += weights.get(word);
      else if (index === asked.length - 1) {
        const longer = [...entry.words].find((each) => each.startsWith(word));
        if (longer) sum += weights.get(longer) / 2;
      }
    });
    return sum;
  }

  /* The line that shares most with what was asked. */
  const nearest = (entry, asked) => entry.lines
    .map((line) => [words(line).filter((word) => asked.includes(word)).length, line])
    .sort((a, b) => b[0] - a[0])[0]?.[1];

  function row(entry, asked) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = entry.page;
    link.textContent = entry.title;
    const mark = document.createElement("span");
    mark.className = `mark mark-${entry.kind}`;
    mark.textContent = entry.kind;
    item.append(mark, link);
    const line = nearest(entry, asked);
    if (line) {
      const shown = document.createElement("code");
      shown.textContent = line;
      item.append(shown);
    }
    return item;
  }

  async function look() {
    const asked = words(input.value);
    if (!asked.length) {
      count.textContent = "";
      found.replaceChildren();
      return;
    }
    try {
      await load();
    } catch {
      count.textContent = "The list could not be loaded; use the search of the site.";
      return;
    }
    if (asked.join() !== words(input.value).join()) return;
    const most = asked.reduce((sum, word) => sum + (weights.get(word) || 0), 0);
    const hits = table.map((entry) => [score(entry, asked), entry])
      .filter(([points]) => points > 0 && points >= most * 0.45)
      .sort((a, b) => b[0] - a[0] || a[1].id.localeCompare(b[1].id));
    const shown = hits.slice(0, MOST);
    count.textContent = hits.length === 0 ? "Nothing in the catalog says so. Give the whole log to a diagnosis."
      : hits.length === 1 ? "1 page" : `${hits.length} pages, the nearest first${hits.length > MOST ? `; ${MOST} shown` : ""}`;
    found.replaceChildren(...shown.map(([, entry]) => row(entry, asked)));
  }

  let waiting = 0;
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 120); });
  input.addEventListener("focus", () => { load().catch(() => {}); }, { once: true });
  box.hidden = false;
  // A browser may give back what was typed before.
  if (input.value) look();
})();
