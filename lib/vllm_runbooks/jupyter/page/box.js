function render({ model, el }) {
  const area = document.createElement("textarea");
  area.className = "vr-box";
  el.append(area);
  const { hold, end } = joined(model, area);
  // A box takes seconds to show megabytes, and the page stands still meanwhile: they go as a file does.
  area.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text/plain");
    if (text.length <= model.get("most")) return;
    event.preventDefault();
    hold();
    area.value = "";
    model.send({ file: true }, undefined, [new TextEncoder().encode(text)]);
  });
  return end;
}
export default { render };
