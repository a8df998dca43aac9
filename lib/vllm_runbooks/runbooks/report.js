"use strict";
for (const bar of document.querySelectorAll(".filters")) {
  const buttons = [...bar.querySelectorAll("button")];
  const field = bar.querySelector("input");
  const count = bar.querySelector("[role=status]");
  const rows = [...document.querySelectorAll("tr[data-check]")];
  let check = "";
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = (check && row.dataset.check !== check) || !words.every((word) => text.includes(word));
    }
    for (const group of document.querySelectorAll("tbody")) {
      const its = [...group.querySelectorAll("tr[data-check]")];
      group.hidden = its.length > 0 && its.every((row) => row.hidden);
    }
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.check === check));
    const left = rows.filter((row) => !row.hidden).length;
    count.textContent = left === rows.length ? "" : `${left} of ${rows.length}`;
  };
  for (const button of buttons) button.addEventListener("click", () => { check = button.dataset.check; apply(); });
  field.addEventListener("input", apply);
  // A link to a group shows all of it.
  for (const link of document.querySelectorAll(".changes a")) {
    link.addEventListener("click", () => { check = ""; field.value = ""; apply(); });
  }
  bar.hidden = false;
  apply();
}
const copy = async (code) => {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  }
};
for (const code of document.querySelectorAll('pre[data-copy] code, .shown :not(pre) > code[style*="user-select"]')) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy ${code.textContent.trim().slice(0, 60)}`);
  button.addEventListener("click", async () => {
    button.textContent = (await copy(code)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  code.after(button);
}
