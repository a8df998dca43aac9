function render({ model, el }) {
  const button = document.createElement("button");
  const said = document.createElement("span");
  button.type = "button";
  button.className = "vr-copy";
  const name = () => { button.textContent = model.get("label"); };
  said.setAttribute("role", "status");
  said.className = "vr-copied";
  const by_hand = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  button.addEventListener("click", async () => {
    const text = model.get("text");
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch { done = by_hand(text); }
    said.textContent = done ? "copied" : "select the text and copy it by hand";
    setTimeout(() => { said.textContent = ""; }, 3000);
  });
  name();
  model.on("change:label", name);
  el.append(button, said);
}
export default { render };
