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
  /* Of a few words half must be there; of a line that was printed, with its names and numbers, three. */
  const FEW = 6, ENOUGH = 3;
  let table = null, weights = null, loading = null;

  const flat = (text) => text.slice(0, LONGEST).toLowerCase().replace(/\s+/g, " ").trim();

  /* Words of three letters at least; of a text without blanks between its words, every two signs. */
  const words = (text) => {
    const said = flat(text);
    const pairs = (said.match(/[\u3400-\u9fff]+/g) || [])
      .flatMap((signs) => [...signs].slice(1).map((sign, place) => signs[place] + sign));
    return [...new Set([...(said.match(/[a-z][a-z0-9]{2,60}/g) || []), ...pairs])];
  };

  function load() {
    loading ||= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = "_static/lookup-data.js";
      script.onload = resolve;
      script.onerror = () => { loading = null; reject(new Error("not loaded")); };
      document.head.append(script);
    }).then(() => {
      table = globalThis.LOOKUP.map((entry) => {
        const texts = [entry.title, ...Object.values(entry.titles), ...entry.lines];
        return {...entry, words: new Set(words([entry.id, ...entry.seen, ...texts].join(" "))), texts: texts.map(flat)};
      });
      const seen = new Map();
      for (const entry of table) for (const word of entry.words) seen.set(word, (seen.get(word) || 0) + 1);
      // A word that few entries hold tells more than one that most do.
      weights = new Map([...seen].map(([word, times]) => [word, Math.log(1 + table.length / times)]));
    });
    return loading;
  }

  /* What an entry shares with what was asked. The last word may still be being typed: it counts where one begins with it. */
  function judged(entry, asked, phrase) {
    let points = 0, times = 0;
    asked.forEach((word, index) => {
      const longer = index === asked.length - 1 && [...entry.words].find((each) => each.startsWith(word));
      if (entry.words.has(word)) points += weights.get(word);
      else if (longer) points += weights.get(longer) / 2;
      else return;
      times += 1;
    });
    return {entry, points, times, isWhole: entry.texts.some((text) => text.includes(phrase))};
  }

  /* The line that shares most with what was asked. */
  const nearest = (entry, asked, phrase) => entry.lines
    .map((line) => [flat(line).includes(phrase), words(line).filter((word) => asked.includes(word)).length, line])
    .sort((a, b) => b[0] - a[0] || b[1] - a[1])[0]?.[2];

  function row(entry, asked, phrase) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = entry.page;
    link.textContent = entry.title;
    const mark = document.createElement("span");
    mark.className = `mark mark-${entry.kind}`;
    mark.textContent = entry.kind;
    item.append(mark, link);
    for (const [lang, title] of Object.entries(entry.titles)) {
      if (!words(title).some((word) => asked.includes(word) && /[^a-z0-9]/.test(word))) continue;
      const other = document.createElement("span");
      other.lang = lang;
      other.textContent = ` ${title}`;
      item.append(other);
    }
    const line = nearest(entry, asked, phrase);
    if (line) {
      const shown = document.createElement("code");
      shown.textContent = line;
      item.append(shown);
    }
    return item;
  }

  async function look() {
    const phrase = flat(input.value);
    const asked = words(input.value);
    if (!asked.length) {
      count.textContent = phrase && "Write a word of three letters at least.";
      found.replaceChildren();
      return;
    }
    try {
      await load();
    } catch {
      count.textContent = "The list could not be loaded; use the search of the site.";
      return;
    }
    if (phrase !== flat(input.value)) return;
    const most = asked.reduce((sum, word) => sum + (weights.get(word) || 0), 0);
    const least = asked.length <= FEW ? Math.ceil(asked.length / 2) : ENOUGH;
    const hits = table.map((entry) => judged(entry, asked, phrase))
      .filter(({points, times, isWhole}) => isWhole || (times >= least && points >= most * 0.45))
      .sort((a, b) => b.isWhole - a.isWhole || b.points - a.points || a.entry.id.localeCompare(b.entry.id));
    count.textContent = hits.length === 0 ? "Nothing in the catalog says so. Give the whole log to a diagnosis."
      : hits.length === 1 ? "1 page" : `${hits.length} pages, the nearest first${hits.length > MOST ? `; ${MOST} shown` : ""}`;
    found.replaceChildren(...hits.slice(0, MOST).map(({entry}) => row(entry, asked, phrase)));
  }

  let waiting = 0;
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 120); });
  input.addEventListener("focus", () => { load().catch(() => {}); }, { once: true });
  box.hidden = false;
  // A browser may give back what was typed before.
  if (input.value) look();
})();
