// Joins a text area with the text of the kernel. `typed` is called while somebody writes, `taken` when the kernel's text
// has come. `hold` keeps back what was typed last; `end` parts the two.
function joined(model, area, { typed = () => {}, taken = () => {} } = {}) {
  let timer = 0, isTyped = false;
  const hold = () => { clearTimeout(timer); timer = 0; };
  const send = () => { hold(); model.send({ text: area.value }); };
  // The kernel's first text may come when somebody has begun to type: it does not replace that.
  const take = ({ text, first }) => { if (area.value !== text && !(first && isTyped)) area.value = text; taken(); };
  area.spellcheck = false;
  area.placeholder = model.get("placeholder");
  area.addEventListener("input", () => { isTyped = true; typed(); hold(); timer = setTimeout(send, 250); });
  area.addEventListener("blur", () => { if (timer) send(); });
  // What is typed here is text: no shortcut of the notebook may take it.
  area.addEventListener("keydown", (event) => event.stopPropagation());
  model.on("msg:custom", take);
  model.send({ asks: true });
  return { hold, end: () => { hold(); model.off("msg:custom", take); } };
}
