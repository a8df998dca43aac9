// The three pages: what is typed, dropped or chosen becomes a request; what comes back is shown.

import {Ended, Reader} from "./reader.mjs";

const $ = (selector) => document.querySelector(selector);
const form = $("#asked");
const fields = form.elements;
const doing = form.dataset.do;
const root = document.documentElement;
const TONES = JSON.parse(document.body.dataset.tones);
const LONG = 200_000;
const SIZE = Number(document.body.dataset.bytes);
const MOST = Number(document.body.dataset.most);

/** Plans are told in English alone. */
const IS_TOLD = doing !== "plan";

let language = root.dataset.told;
let files = [];
let shown = null;
let note = "";
let begun = false;
let stage = "";
let turn = 0;
let choosing = null;
let isQueued = false;

const reader = new Reader({quietS: Number(document.body.dataset.quietS), on: {state: told, progress, ready, failed}});

// ---- loading

function told(state) {
  form.dataset.state = state;
  $("#run").disabled = state !== "ready" && state !== "loading";
  if (fields.recorded) fields.recorded.disabled = state !== "ready";
  $("#cancel").hidden = state !== "busy";
  $("#again").hidden = state !== "failed";
  $("#bar").hidden = state !== "loading" && state !== "busy";
  if (state === "busy") {
    $("#bar").removeAttribute("value");
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  }
  if (state !== "loading") $("#figures").textContent = "";
  else {
    stage = "";
    say(`${note} Loading.`.trim());
  }
}

function say(line, tone = "") {
  const status = $("#status");
  status.textContent = line;
  status.dataset.tone = tone;
}

const QUEUED = "The answer starts when everything is loaded.";
const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** What is read aloud says each stage once; the figures beside it are for the eye. */
function progress({stage: now, received}) {
  $("#bar").value = Math.min(received / SIZE, 1);
  $("#figures").textContent = `${mb(Math.min(received, SIZE))} of ${mb(SIZE)}.`;
  if (now !== stage) say(`${note} Loading ${now}. ${isQueued ? QUEUED : "Your texts stay in this page."}`.trim());
  stage = now;
}

async function ready({choices, seconds, received}) {
  told("ready");
  say(`Ready: ${mb(received)} in ${seconds.toFixed(1)} s. Everything is here; the network may be cut now. ${note}`.trim(),
    note ? "" : "good");
  note = "";
  offer(choices);
  const isFirst = !begun;
  begun = true;
  if (isFirst) await follow();
  const wasQueued = isQueued;
  isQueued = false;
  if (wasQueued && form.dataset.state === "ready") form.requestSubmit();
}

function failed(line) {
  isQueued = false;
  told("failed");
  say(line, "bad");
}

// ---- what can be chosen

const option = (value, label) => new Option(label, value);

function offer(choices) {
  fill($("#releases"), choices.releases.toReversed());
  fill($("#cards"), choices.cards);
  fill($("#models"), choices.models);
  const policy = fields.policy;
  if (policy?.length === 1) policy.append(...choices.policies.map(([id, title]) => option(id, title)));
  const select = fields.recorded;
  if (!select || select.dataset.filled) return;
  select.dataset.filled = "1";
  for (const [label, kind, rows] of [["Recorded cases", "case", choices.cases[doing]],
    ["Examples of the catalog", "example", choices.examples[doing]]]) {
    if (!rows?.length) continue;
    const group = document.createElement("optgroup");
    group.label = label;
    group.append(...rows.map(([id, title]) => option(`${kind}=${id}`, title)));
    select.append(group);
  }
}

function fill(list, values) {
  if (list && !list.childElementCount) list.append(...values.map((value) => option(value, "")));
}

/**
 * What the address asks for: `#case=ID` or `#example=ID` chooses one and answers it; `#symptom=ID` says where the reader
 * came from; any other fragment holds the form's fields, as `share` wrote them.
 */
async function follow() {
  let asked;
  try {
    asked = decodeURIComponent(location.hash.slice(1));
  } catch {
    say("The end of the address cannot be read: a % in it begins no sign; choose a case or an example below.", "bad");
    return;
  }
  if (/^(case|example)=/.test(asked)) {
    if (await pick(asked)) form.requestSubmit();
    return;
  }
  const state = new URLSearchParams(location.hash.slice(1));
  if (doing === "diagnose") come(state);
  else if (restore(state)) form.requestSubmit();
}

/** Fields of the form that the address may hold: none that holds a log or chooses a file. */
const SHARED = [...fields].filter(({name, type}) => name && type !== "file" && name !== "recorded" && doing !== "diagnose");
const LONGEST_ADDRESS = 8000;

/** Take the fields from the address; whether it held any. */
function restore(state) {
  const given = SHARED.filter(({name}) => state.has(name));
  if (!given.length) return false;
  form.reset();
  for (const field of given) field.value = state.get(field.name).slice(0, LONGEST_ADDRESS);
  unfold();
  return true;
}

/** Open what is folded and has a value. */
function unfold() {
  for (const part of form.querySelectorAll("details")) {
    part.open ||= [...part.querySelectorAll("input, textarea, select")].some(({value}) => value);
  }
}

/** Keep the question in the address, so that it can be sent to somebody else: no secret, and of a log only its answer. */
function share(found) {
  if (form.dataset.case || (files.length && doing !== "diagnose")) return;
  const asked = Object.fromEntries(SHARED.map(({name, value}) => [name, value.trim()]).filter(([, value]) => value));
  const state = new URLSearchParams({...asked, ...found.shared});
  const address = state.toString();
  const isLong = address.length > LONGEST_ADDRESS;
  history.replaceState(null, "", isLong || !address ? location.pathname : `#${address}`);
}

/** Say which symptom a link is about: whoever opens it has another log, or none. */
function come(state) {
  const id = state.get("symptom") ?? "";
  $("#about")?.remove();
  if (!/^[a-z0-9_]+(\.[a-z0-9_]+)+$/.test(id)) return;
  const link = document.createElement("a");
  link.href = `symptoms/${id}.html`;
  link.textContent = id;
  const facts = ["outcome", "vllm"].filter((name) => /^[\w.+-]{1,40}$/.test(state.get(name) ?? ""));
  const rest = facts.length ? ` (${facts.map((name) => `${name} ${state.get(name)}`).join(", ")})` : "";
  const line = document.createElement("p");
  line.id = "about";
  line.append("This link is about ", link, `${rest}. Paste your log to check whether it has the same cause.`);
  form.before(line);
}

/** Choose, while whoever presses the button meanwhile waits for it. */
function pick(chosen) {
  const done = choose(chosen).finally(() => { if (choosing === done) choosing = null; });
  choosing = done;
  return done;
}

async function choose(chosen) {
  const [kind, name] = [chosen.slice(0, chosen.indexOf("=")), chosen.slice(chosen.indexOf("=") + 1)];
  const found = await answered({do: kind, name})
    .catch((error) => (error instanceof Ended ? null : {refused: error.message}));
  if (!found) return false;
  if (found.refused) {
    say(found.refused, "bad");
    return false;
  }
  form.reset();
  for (const [field, value] of Object.entries(found.settings)) {
    if (fields[field]) fields[field].value = value ?? "";
  }
  if (fields.text) fields.text.value = found.text ?? "";
  if (fields.command) fields.command.value = found.command ?? "";
  if (fields.name) fields.name.value = found.name ?? "";
  fields.recorded.value = chosen;
  unfold();
  form.dataset.case = kind === "case" && doing !== "plan" ? name : "";
  list();
  return true;
}

function forget() {
  files = [];
  form.dataset.case = "";
  if (fields.recorded) fields.recorded.value = "";
}

// ---- files

function list() {
  const items = files.map((file, number) => {
    const item = document.createElement("li");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.textContent = "Remove";
    remove.setAttribute("aria-label", `Remove ${file.name}`);
    remove.onclick = () => { files.splice(number, 1); list(); $("#file").focus(); };
    item.append(`${file.name} (${file.size < 1e5 ? `${file.size} bytes` : mb(file.size)}) `, remove);
    return item;
  });
  $("#files").replaceChildren(...items);
}

function take(more) {
  if (form.dataset.case) {
    forget();
    if (fields.text) fields.text.value = "";
  }
  // Where one file is asked for, another one takes its place.
  files = $("#file").multiple ? [...files, ...more] : more.slice(0, 1);
  list();
}

/**
 * The bytes of what is given.
 *
 * Throws a line where a file cannot be read, or all of them are too large for a page.
 */
async function handed() {
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > MOST) throw `The files have ${mb(size)}, and a page reads ${mb(MOST)} at most: give the part that matters.`;
  const read = files.map(async (file) => ({
    name: file.name,
    bytes: await file.arrayBuffer().catch((error) => {
      throw `${file.name}: cannot be read (${error.message}); choose it again.`;
    }),
  }));
  const found = await Promise.all(read);
  const text = fields.text?.value ?? "";
  if (text && !form.dataset.case) {
    found.unshift({name: fields.name?.value ?? "", bytes: new TextEncoder().encode(text).buffer});
  }
  return found;
}

// ---- asking

/** The fields as the request that the core takes: an empty number is none. */
function request() {
  const made = {do: doing};
  for (const field of fields) {
    if (!field.name || ["text", "recorded", "name"].includes(field.name) || field.type === "file") continue;
    if (field.type === "checkbox") made[field.name] = field.checked;
    else if (field.type === "number") made[field.name] = field.value === "" ? null : Number(field.value);
    else if (field.value.trim()) made[field.name] = field.value;
  }
  if (form.dataset.case) made.case = form.dataset.case;
  if (IS_TOLD && language !== "en") made.lang = language;
  return made;
}

const answered = (asked, given = []) => reader.ask(asked, given);

async function run(event) {
  event.preventDefault();
  await answer();
  if (!shown) return;
  $("#result").focus({preventScroll: true});
  $("#result").scrollIntoView({block: "start"});
}

async function answer() {
  if (reader.state === "loading") {
    isQueued = true;
    say(QUEUED);
  }
  if (reader.state !== "ready" || form.dataset.state === "busy") return;
  told("busy");
  say("Reading. The page stays usable; Cancel ends it.");
  const since = performance.now();
  const mine = ++turn;
  if (choosing && !await choosing) {
    if (mine === turn) told("ready");
    return;
  }
  let given;
  try {
    given = await handed();
  } catch (line) {
    if (mine === turn) refuse(line);
    return;
  }
  // While the files were read somebody may have pressed Cancel.
  if (mine !== turn) return;
  try {
    const found = await answered(request(), given);
    if (found.refused) {
      refuse(found.refused);
      return;
    }
    told("ready");
    show(found);
    share(found);
    const seconds = ((performance.now() - since) / 1000).toFixed(1);
    say(`Answered in ${seconds} s: ${found.outcome}. Nothing has left this page.`, found.status ? (doing === "lint" ? "bad" : "") : "good");
  } catch (error) {
    if (error instanceof Ended) return;
    clear();
    note = `The reader broke off: ${error.message}; give the part that matters.`;
    reader.start();
  }
}

/** Fields by what is unknown, each with the page that lists what is known. */
const LISTS = {GPU: ["gpus", "gpus/index.html", "All GPUs"], model: ["model", "models/index.html", "All models"]};

function refuse(line) {
  told("ready");
  clear();
  const unknown = /: (?:ambiguous|unknown) (GPU|model)\b/.exec(line);
  // The link takes the place of the command.
  say(unknown ? line.replace(/;? `vllm-runbooks catalog list --gpus`.*$/, "") : line, "bad");
  if (!unknown) return;
  const [name, href, label] = LISTS[unknown[1]];
  const link = document.createElement("a");
  Object.assign(link, {href, textContent: label});
  $("#status").append(" ", link);
  fields[name]?.setAttribute("aria-invalid", "true");
}

function cancel() {
  turn += 1;
  isQueued = false;
  clear();
  note = "Cancelled.";
  reader.start();
}

// ---- showing

function clear() {
  shown = null;
  $("#parts").replaceChildren();
  $("#json").textContent = "";
  $("#result").hidden = true;
}

/**
 * HTML of the library as elements. Its styles stand in attributes, which the page's policy would refuse; every quotation
 * mark of a text is escaped in it, so that these words can only be markup.
 */
function elements(html) {
  const marked = html.replaceAll(' style="', ' data-style="').replaceAll(" style='", " data-style='");
  const parsed = new DOMParser().parseFromString(marked, "text/html").body;
  for (const element of parsed.querySelectorAll("[data-style]")) {
    const style = element.dataset.style.replace(/(^|;)\s*color:\s*(#[0-9a-f]{6})/g,
      (whole, before, colour) => (TONES[colour] ? `${before}color:var(--rb-${TONES[colour]})` : whole));
    element.removeAttribute("data-style");
    element.style.cssText = style;
  }
  return [...parsed.childNodes];
}

function show(found) {
  shown = found;
  const parts = found.sections.map(([title, html]) => {
    const part = document.createElement("section");
    const head = document.createElement("h2");
    const body = document.createElement("div");
    head.textContent = title;
    if (found.lang) head.lang = found.lang;
    body.className = "part";
    body.append(...elements(html));
    for (const block of body.querySelectorAll("pre")) {
      const text = block.textContent;
      block.before(copier(() => found.exact[text.replace(/^\n/, "")] ?? text));
    }
    for (const wide of body.querySelectorAll("table, svg[role=img]")) {
      const room = document.createElement("div");
      room.className = "wide";
      room.tabIndex = 0;
      room.role = "group";
      room.ariaLabel = wide.matches("svg") ? `Picture: ${title}` : `Table: ${title}`;
      wide.replaceWith(room);
      room.append(wide);
    }
    part.append(head, body);
    return part;
  });
  $("#parts").replaceChildren(...parts);
  $("#json").textContent = found.document;
  $("#mended").hidden = found.text == null;
  $("#result").hidden = false;
}

function copier(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  return button;
}

function download(text, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---- events

form.addEventListener("submit", run);
form.addEventListener("reset", () => { forget(); list(); clear(); });
$("#cancel").addEventListener("click", cancel);
$("#again").addEventListener("click", () => reader.start());
$("#file")?.addEventListener("change", (event) => { take([...event.target.files]); event.target.value = ""; });
fields.recorded?.addEventListener("change", () => {
  if (fields.recorded.value) pick(fields.recorded.value).then((isChosen) => { if (isChosen) form.requestSubmit(); });
  else form.dataset.case = "";
});
// A long text would hold up the page while a field lays it out: it is taken as a file.
fields.text?.addEventListener("paste", (event) => {
  const text = event.clipboardData.getData("text/plain");
  if (text.length < LONG) return;
  event.preventDefault();
  take([new File([text], "pasted text")]);
});
// What was chosen and then changed is no longer what was recorded.
fields.text?.addEventListener("input", () => { if (form.dataset.case) { form.dataset.case = ""; fields.recorded.value = ""; } });
for (const kind of ["dragenter", "dragover"]) {
  addEventListener(kind, (event) => { event.preventDefault(); form.classList.add("over"); });
}
for (const kind of ["dragleave", "drop"]) addEventListener(kind, () => form.classList.remove("over"));
addEventListener("drop", (event) => { event.preventDefault(); take([...event.dataTransfer.files]); });
// Another language: what is shown is asked for anew, and who pressed the switch stays there.
new MutationObserver(() => {
  if (root.dataset.told === language) return;
  language = root.dataset.told;
  if (IS_TOLD && shown) answer();
}).observe(root, {attributeFilter: ["data-told"]});
addEventListener("hashchange", () => { if (form.dataset.state === "ready") follow(); });
$("#save-json").addEventListener("click", () => download(`${shown.document}\n`, `${doing}.json`, "application/json"));
$("#mended").addEventListener("click", () => {
  const name = files[0]?.name || fields.name?.value || "commands.sh";
  download(shown.text, `mended-${name}`, "text/plain");
});
$("#copy-json").replaceWith(copier(() => shown.document));
reader.start();
