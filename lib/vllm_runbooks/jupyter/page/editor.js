function render({ model, el }) {
  const box = document.createElement("div");
  const back = document.createElement("div");
  const area = document.createElement("textarea");
  const said = document.createElement("div");
  box.className = "vr-editor";
  back.className = "vr-back";
  area.setAttribute("aria-label", model.get("label"));
  said.className = "vr-said";
  said.setAttribute("role", "status");
  back.setAttribute("aria-hidden", "true");
  box.append(back, area);
  el.append(box, said);
  const paint = () => {
    const marks = new Map();
    for (const mark of model.get("marks")) marks.set(mark.line, [...(marks.get(mark.line) ?? []), mark]);
    back.replaceChildren(...area.value.split("\n").flatMap((line, index) => {
      if (!marks.has(index + 1)) return [line + "\n"];
      const own = marks.get(index + 1).sort((a, b) => a.column - b.column);
      // Columns count characters; a string of the page counts some of them twice.
      const letters = [...line], parts = [];
      const between = (from, to) => letters.slice(from, to).join("");
      let at = 0;
      for (const mark of own) {
        const from = Math.max(mark.column - 1, at), to = Math.max(mark.end_column - 1, from);
        if (to <= at && at > 0) continue;
        const marked = document.createElement("span");
        marked.className = "vr-mark vr-" + mark.severity;
        marked.textContent = between(from, to) || " ";
        parts.push(between(at, from), marked);
        at = to;
      }
      return [...parts, between(at) + "\n"];
    }));
    follow();
  };
  const follow = () => { back.scrollTop = area.scrollTop; back.scrollLeft = area.scrollLeft; };
  const tell = () => {
    const line = area.value.slice(0, area.selectionStart).split("\n").length;
    const here = model.get("marks").filter(m => m.line === line);
    said.textContent = here.length
      ? here.map(m => `${m.line}:${m.column} ${m.severity}: ${m.message}`).join("\n")
      : "";
  };
  const judged = () => { paint(); tell(); };
  const { end } = joined(model, area, { typed: paint, taken: judged });
  area.addEventListener("scroll", follow);
  for (const name of ["keyup", "click"]) area.addEventListener(name, tell);
  model.on("change:marks", judged);
  return () => { end(); model.off("change:marks", judged); };
}
export default { render };
