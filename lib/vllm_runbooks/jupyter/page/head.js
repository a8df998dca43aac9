function render({ model, el }) {
  const line = document.createElement("div");
  const name = document.createElement("b");
  const words = document.createElement("span");
  name.textContent = model.get("name");
  words.textContent = model.get("words");
  name.className = "vr-name";
  words.className = "vr-words";
  line.append(name, " ", words);
  el.append(line);
  let waiting = 0, beating = 0, seen = null;
  // Controls have no name of their own for what reads a page aloud; the one above each of them is it.
  const named = (panel) => {
    for (const field of panel.querySelectorAll(".vr-field")) {
      const label = field.querySelector(".widget-label").textContent;
      for (const control of field.querySelectorAll("input:not([type=file]), textarea, select, [role=slider]")) {
        if (control.getAttribute("aria-label") !== label) control.setAttribute("aria-label", label);
      }
      for (const shown of field.querySelectorAll(".widget-readout")) {
        const value = label + ", value";
        if (shown.getAttribute("aria-label") !== value) shown.setAttribute("aria-label", value);
      }
    }
    for (const frame of panel.querySelectorAll(".vr-scrolled:not([role])")) {
      // Views of ipywidgets come one after the other: the heading may not stand there yet.
      if (!frame.previousElementSibling?.textContent.trim()) continue;
      frame.tabIndex = 0;
      frame.setAttribute("role", "region");
      frame.setAttribute("aria-label", frame.previousElementSibling.textContent.trim());
    }
  };
  // The cause of a marked log stands in the middle of its frame, once for each log.
  const seenCauses = new WeakSet();
  const scrolled = (panel) => {
    for (const cause of panel.querySelectorAll(".vr-scrolled [data-cause]")) {
      const frame = cause.closest(".vr-scrolled");
      if (seenCauses.has(cause) || !frame.clientHeight) continue;
      seenCauses.add(cause);
      if (cause !== frame.querySelector("[data-cause]")) continue;
      const offset = cause.getBoundingClientRect().top - frame.getBoundingClientRect().top;
      frame.scrollTop += offset - Math.max(0, (frame.clientHeight - cause.offsetHeight) / 2);
    }
  };
  const begin = () => {
    const panel = el.closest(".vr-panel");
    if (!panel) { waiting = setTimeout(begin, 100); return; }
    panel.setAttribute("role", "group");
    panel.setAttribute("aria-label", model.get("name"));
    const changed = () => { named(panel); scrolled(panel); };
    seen = new MutationObserver(changed);
    seen.observe(panel, { childList: true, subtree: true, attributes: true, attributeFilter: ["style"] });
    changed();
  };
  const live = () => {
    clearInterval(beating);
    if (!model.get("is_live")) return;
    beating = setInterval(() => { model.set("beat", model.get("beat") + 1); model.save_changes(); }, 5000);
  };
  model.on("change:is_live", live);
  live();
  begin();
  return () => { clearTimeout(waiting); clearInterval(beating); if (seen) seen.disconnect(); };
}
export default { render };
