/* The site's search: symptoms, rules, options, models, GPUs, commands and pages, ranked in the page itself. It is the box
   on the start page, and on every page the window that Ctrl-K opens. The index is a script of the site, loaded when it is
   first used; nothing is sent anywhere. */
(() => {
  "use strict";
  const ROOT = new URL("..", document.currentScript.src);
  const MOST = 12, LONGEST = 4000;
  /* What a word counts for, by the place that has it. */
  const NAME = 4, TITLE = 4, LINE = 2.5, SEEN = 1.5, OTHER = 1;
  /* Words that people use for others. */
  const ALIKE = {
    bf16: ["bfloat16"], bfloat16: ["bf16"], fp16: ["float16", "half"], hf: ["huggingface", "hub"], huggingface: ["hub", "hf", "repository"],
    oom: ["memory"], tp: ["tensor"], pp: ["pipeline"], taken: ["use"], used: ["use"], refused: ["reject"], gpus: ["gpu"],
    card: ["gpu"], divide: ["divisible", "split"], supported: ["support"], unsupported: ["support"], crash: ["failed"],
    fails: ["failed"], hang: ["hangs"], found: ["find", "wrong"], utilisation: ["utilization"], quantised: ["quantized"],
  };
  const EMPTY = new Set(["a", "an", "and", "the", "of", "to", "is", "in", "on", "for", "it", "or", "with", "that", "be", "by",
    "at", "i", "my", "vllm", "error", "how", "many", "what", "which", "why", "do", "does", "need", "needs", "can", "when", "too"]);
  let table = null, weights = null, loading = null;

  /* What a logger prints before its message: process, level, time and place, which are no part of what is looked for. */
  const PREFIX = new RegExp("^(?:\\((?:\\w+ )*\\w+=[^()\\n]{1,80}\\)|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\\b:?"
    + "|\\d{4}-\\d\\d-\\d\\d[T ]|\\d\\d-\\d\\d (?=\\d)|\\d\\d:\\d\\d:\\d\\d[\\d.,Z]*|\\[[\\w./]{1,80}:\\d+\\]|\\s)+", "gm");

  const flat = (text) => text.slice(0, LONGEST).replace(PREFIX, "").toLowerCase().replace(/\s+/g, " ").trim();
  const stem = (word) => (/^[a-z]{4,}s$/.test(word) && !word.endsWith("ss") ? word.slice(0, -1) : word);

  /* Words and numbers; of a text without blanks between its words, every two signs. */
  function words(text) {
    const lower = flat(text);
    const pairs = (lower.match(/[\u3400-\u9fff]+/g) || [])
      .flatMap((signs) => [...signs].slice(1).map((sign, place) => signs[place] + sign));
    return [...(lower.match(/[a-z0-9]{1,60}/g) || []).map(stem), ...pairs];
  }

  /* Words of an index entry: a name such as `rtx3090` is found by its parts as well. */
  const parts = (text) => words(text).flatMap((word) => {
    const split = word.match(/^([a-z]{2,})(\d{2,}[a-z]*)$/);
    return split ? [word, split[1], split[2]] : [word];
  });

  function load() {
    loading ||= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("_static/lookup-data.js", ROOT);
      script.onload = resolve;
      script.onerror = () => { loading = null; reject(new Error("not loaded")); };
      document.head.append(script);
    }).then(() => {
      const spaced = (text) => ` ${words(text).join(" ")} `;
      table = globalThis.LOOKUP.map((raw) => {
        const entry = {names: [], seen: [], lines: [], titles: {}, rank: 1, ...raw};
        const places = new Map();
        const add = (texts, weight) => {
          for (const text of texts) for (const word of parts(text)) {
            if ((places.get(word) || 0) < weight) places.set(word, weight);
          }
        };
        add(entry.names, NAME);
        add([entry.title, ...Object.values(entry.titles)], TITLE);
        add(entry.lines, LINE);
        add(entry.seen.slice(0, -1), SEEN);
        add(entry.seen.slice(-1), OTHER);
        return {...entry, places,
          heads: [entry.title, ...entry.names, ...Object.values(entry.titles)].map(spaced),
          printed: entry.lines.map(spaced),
          texts: [...entry.lines, ...entry.seen].map(spaced)};
      });
      const seen = new Map();
      for (const {places} of table) for (const word of places.keys()) seen.set(word, (seen.get(word) || 0) + 1);
      // A word that few entries hold tells more than one that most do.
      weights = new Map([...seen].map(([word, times]) => [word, Math.log(1 + table.length / times)]));
    });
    return loading;
  }

  const weigh = (word) => weights.get(word) || 0;

  /* What a word counts for in an entry: itself, a word like it, or the rest of one that is still being typed. */
  function matched(places, word, isLast) {
    if (places.has(word)) return places.get(word);
    for (const other of ALIKE[word] || []) if (places.has(stem(other))) return places.get(stem(other)) * 0.8;
    if (isLast && word.length > 1) {
      for (const [longer, weight] of places) if (longer.startsWith(word)) return weight * 0.6;
    }
    return 0;
  }

  const has = (text, word) => text.includes(` ${word} `)
    || (ALIKE[word] || []).some((other) => text.includes(` ${stem(other)} `));

  function score(entry, asked, phrase, joined) {
    let points = 0, met = 0, whole = 0, count = 0;
    asked.forEach((word, index) => {
      const known = Math.max(weigh(word), ...(ALIKE[word] || []).map((other) => weigh(stem(other))), 0);
      // A word that no entry has counts as one that a single entry has: it is missed everywhere alike.
      const value = known || Math.log(1 + table.length) / 2;
      const place = Math.max(matched(entry.places, word, index === asked.length - 1),
        joined[index] ? entry.places.get(joined[index]) || 0 : 0);
      whole += value;
      if (!place) return;
      count += 1;
      met += value;
      points += value * place;
    });
    if (!count) return null;
    const share = met / whole;
    const spaced = ` ${phrase} `;
    const head = Math.max(...entry.heads.map((text) => (text === spaced ? 3 : text.includes(spaced) ? 1 + spaced.length / text.length : 0)));
    const isPrinted = phrase.length > 2 && entry.texts.some((text) => text.includes(spaced));
    // A phrase that most of a symptom's lines have is what the symptom is about.
    const usual = isPrinted ? entry.printed.filter((text) => text.includes(spaced)).length / (entry.printed.length + 2) : 0;
    // Words that stand in one sentence tell more than the same words all over a page.
    const near = Math.max(0, ...[...entry.heads, ...entry.texts].map((text) => asked.reduce((sum, word) =>
      sum + (has(text, word) ? Math.max(weigh(word), 1) : 0), 0) / whole));
    points *= share * share * (1 + head + near + (isPrinted ? 0.4 + 0.5 * usual : 0)) * entry.rank;
    return {entry, points, count, share, isWhole: head > 0 || isPrinted};
  }

  /* Entries for what was typed with their points, the nearest first. */
  function scored(text) {
    const all = [...new Set(words(text))];
    const asked = all.filter((word) => !EMPTY.has(word)).slice(0, 60);
    if (!asked.length) return [];
    const phrase = words(text).join(" ");
    const pairs = asked.map((word, index) => [index && asked[index - 1] + word, asked[index + 1] && word + asked[index + 1]]);
    const joined = pairs.map((pair) => pair.find((word) => word && weights.has(word)));
    // Of a few words half must be there; of a line that was printed, with its names and numbers, three.
    const least = asked.length <= 6 ? Math.ceil(asked.length / 2) : 3;
    return table.map((entry) => score(entry, asked, phrase, joined))
      .filter((hit) => hit && (hit.isWhole || (hit.count >= least && hit.share >= 0.45)))
      .sort((a, b) => b.points - a.points || a.entry.page.localeCompare(b.entry.page));
  }

  const rank = (text) => scored(text).map(({entry}) => entry);

  /* The line that shares most with what was asked. */
  function nearest(entry, asked) {
    const shared = (line) => words(line).filter((word) => asked.has(word)).length;
    return entry.lines.map((line) => [shared(line), line]).filter(([times]) => times > 1).sort((a, b) => b[0] - a[0])[0]?.[1];
  }

  function row(entry, asked) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = new URL(entry.page, ROOT);
    const mark = document.createElement("span");
    const gravity = ["fatal", "degraded", "hint"].includes(entry.kind);
    mark.className = `mark mark-${entry.kind}`;
    mark.textContent = gravity ? `${entry.kind} symptom` : entry.kind;
    const title = document.createElement("strong");
    title.textContent = entry.title;
    link.append(mark, title);
    for (const [lang, name] of Object.entries(entry.titles)) {
      if (!words(name).some((word) => asked.has(word) && /[^a-z0-9]/.test(word))) continue;
      const other = document.createElement("span");
      other.lang = lang;
      other.textContent = ` ${name}`;
      link.append(other);
    }
    const line = nearest(entry, asked);
    if (line) {
      const shown = document.createElement("code");
      shown.textContent = line.length > 160 ? `${line.slice(0, 159)}…` : line;
      link.append(shown);
    }
    item.append(link);
    return item;
  }

  /* Let a field look through the index, and the arrow keys go through what it finds. */
  function mount(box) {
    const [input, count, found] = ["input", "[role=status]", "ol"].map((part) => box.querySelector(part));

    async function look() {
      const typed = input.value;
      if (!words(typed).length) {
        count.textContent = "";
        found.replaceChildren();
        return;
      }
      try {
        await load();
      } catch {
        count.textContent = "The index could not be loaded; reload the page.";
        return;
      }
      if (typed !== input.value) return;
      const hits = rank(typed), asked = new Set(words(typed));
      count.textContent = hits.length === 0 ? "No page matches. Give the whole log to a diagnosis."
        : hits.length === 1 ? "1 page" : `${hits.length} pages, best first${hits.length > MOST ? `; ${MOST} shown` : ""}`;
      found.replaceChildren(...hits.slice(0, MOST).map((entry) => row(entry, asked)));
    }

    let waiting = 0;
    input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 120); });
    input.addEventListener("focus", () => { load().catch(() => {}); }, { once: true });
    box.addEventListener("keydown", async (event) => {
      const stops = [input, ...found.querySelectorAll("a")], at = stops.indexOf(document.activeElement);
      const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
      if (step && stops[at + step]) {
        event.preventDefault();
        stops[at + step].focus();
      } else if (event.key === "Enter" && at === 0 && !event.isComposing) {
        event.preventDefault();
        clearTimeout(waiting);
        await look();
        found.querySelector("a")?.click();
      }
    });
    // A browser may give back what was typed before.
    if (input.value) look();
    return input;
  }

  function dialog() {
    const made = document.createElement("dialog");
    made.id = "search-window";
    made.className = "lookup";
    made.setAttribute("aria-label", "Search");
    made.innerHTML = '<label for="search-text">Search symptoms, options, models, GPUs and pages</label>'
      + '<input id="search-text" type="search" autocomplete="off" spellcheck="false" '
      + 'placeholder="an error, an option, a model, a GPU"><p role="status"></p><ol></ol>'
      + '<p class="search-foot"><a>Search the full text of all pages</a> <button type="button">Close</button></p>';
    const input = mount(made), full = made.querySelector(".search-foot a");
    const address = () => { full.href = new URL(`search.html?q=${encodeURIComponent(input.value)}`, ROOT); };
    address();
    input.addEventListener("input", address);
    made.querySelector("button").addEventListener("click", () => made.close());
    made.addEventListener("click", (event) => {
      // The ground behind the window, or a place on this very page.
      if (event.target === made || event.target.closest("ol a")) made.close();
    });
    // In a search field the key would only empty it.
    made.addEventListener("keydown", (event) => { if (event.key === "Escape") made.close(); });
    document.body.append(made);
    return made;
  }

  let opened = null;
  function open(text) {
    opened ||= dialog();
    if (opened.open) return;
    opened.showModal();
    const input = opened.querySelector("input");
    if (typeof text === "string") {
      input.value = text;
      input.dispatchEvent(new Event("input"));
    }
    input.select();
  }

  addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    open();
  }, true);

  function start() {
    const box = document.getElementById("lookup");
    if (box) {
      mount(box);
      box.hidden = false;
    }
    for (const button of document.querySelectorAll("[data-search]")) {
      button.hidden = false;
      button.addEventListener("click", open);
    }
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  globalThis.SiteSearch = {load, rank, scored, open};
})();
