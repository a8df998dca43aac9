"""What every panel is made of: views as HTML, a line for what is wrong, a button that copies, an editor with marks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import anywidget
import ipywidgets
import traitlets

from vllm_runbooks.display import Shown, visible
from vllm_runbooks.render.elements import RED, tag

_WAIT_S = 0.02
"""What happens within this time is answered once: a drag sends more than anybody can read."""
_FULL = {"width": "100%"}
_COPY = """
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
"""
_COPY_STYLE = """
.vr-copy { font: inherit; font-size: 13px; padding: 4px 12px; border-radius: 4px; cursor: pointer; color: inherit;
  background: transparent; border: 1px solid #8889; }
.vr-copy:hover, .vr-copy:focus-visible { background: #8883; outline: 2px solid #3f7fc1; outline-offset: 1px; }
.vr-copied { margin-left: 10px; font-size: 13px; }
"""
_EDIT = """
function render({ model, el }) {
  const box = document.createElement("div");
  const back = document.createElement("pre");
  const area = document.createElement("textarea");
  const said = document.createElement("div");
  box.className = "vr-editor";
  area.spellcheck = false;
  area.setAttribute("aria-label", model.get("label"));
  area.placeholder = model.get("placeholder");
  said.className = "vr-said";
  said.setAttribute("role", "status");
  back.setAttribute("aria-hidden", "true");
  box.append(back, area);
  el.append(box, said);
  let timer = 0;
  const paint = () => {
    const marks = model.get("marks"), lines = area.value.split("\\n");
    back.replaceChildren(...lines.flatMap((line, index) => {
      const own = marks.filter(m => m.line === index + 1).sort((a, b) => a.column - b.column);
      const parts = [];
      let at = 0;
      for (const mark of own) {
        const from = Math.max(mark.column - 1, at), to = Math.max(mark.end_column - 1, from);
        if (to <= at && at > 0) continue;
        const marked = document.createElement("span");
        marked.className = "vr-mark vr-" + mark.severity;
        marked.textContent = line.slice(from, to) || " ";
        parts.push(line.slice(at, from), marked);
        at = to;
      }
      return [...parts, line.slice(at) + "\\n"];
    }));
    back.scrollTop = area.scrollTop;
    back.scrollLeft = area.scrollLeft;
  };
  const tell = () => {
    const line = area.value.slice(0, area.selectionStart).split("\\n").length;
    const here = model.get("marks").filter(m => m.line === line);
    said.textContent = here.length
      ? here.map(m => `${m.line}:${m.column} ${m.severity}: ${m.message}`).join("\\n")
      : "";
  };
  const take = () => { if (area.value !== model.get("value")) area.value = model.get("value"); paint(); tell(); };
  const send = () => { clearTimeout(timer); model.set("value", area.value); model.save_changes(); };
  area.addEventListener("input", () => { paint(); clearTimeout(timer); timer = setTimeout(send, 250); });
  area.addEventListener("blur", send);
  area.addEventListener("scroll", paint);
  for (const name of ["keyup", "click"]) area.addEventListener(name, tell);
  // What is typed here is text: no shortcut of the notebook may take it.
  area.addEventListener("keydown", (event) => event.stopPropagation());
  model.on("change:value", take);
  model.on("change:marks", () => { paint(); tell(); });
  take();
  return () => clearTimeout(timer);
}
export default { render };
"""
_EDIT_STYLE = """
.vr-editor { position: relative; height: 220px; border: 1px solid #8889; border-radius: 4px; overflow: hidden; }
.vr-editor pre, .vr-editor textarea { position: absolute; inset: 0; margin: 0; padding: 8px 10px; border: 0;
  box-sizing: border-box; width: 100%; height: 100%; overflow: auto; white-space: pre; background: transparent;
  font: 13px/1.55 var(--jp-code-font-family, ui-monospace, monospace); tab-size: 4; letter-spacing: 0; }
.vr-editor pre { color: transparent; pointer-events: none; }
.vr-editor textarea { resize: none; color: var(--jp-content-font-color1, inherit); caret-color: currentColor; }
.vr-editor textarea:focus-visible { outline: 2px solid #3f7fc1; outline-offset: -2px; }
.vr-mark { border-radius: 2px; text-decoration: underline wavy; text-underline-offset: 3px; }
.vr-error { background: #cf222e30; text-decoration-color: #cf222e; }
.vr-warning { background: #bf870030; text-decoration-color: #bf8700; text-decoration-style: dashed; }
.vr-info { background: #0969da26; text-decoration-color: #0969da; text-decoration-style: dotted; }
.vr-said { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; line-height: 1.45;
  min-height: 19px; margin-top: 4px; }
"""


class Copy(anywidget.AnyWidget):
    """A button that puts a text into the clipboard."""

    _esm = _COPY
    _css = _COPY_STYLE
    text = traitlets.Unicode().tag(sync=True)
    label = traitlets.Unicode("Copy the command").tag(sync=True)


class Editor(anywidget.AnyWidget):
    """A text that is written, with what is wrong in it marked where it stands."""

    _esm = _EDIT
    _css = _EDIT_STYLE
    value = traitlets.Unicode().tag(sync=True)
    label = traitlets.Unicode("command, script, manifest or page").tag(sync=True)
    placeholder = traitlets.Unicode().tag(sync=True)
    marks = traitlets.List().tag(sync=True)


class Later:
    """Does something soon, and once for all calls until then; at once where no loop runs."""

    def __init__(self, work: Callable[[], None], seconds: float = _WAIT_S) -> None:
        self._work = work
        self._seconds = seconds
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Have it done."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._work()
            return
        if not self._is_due:
            self._is_due = True
            loop.call_later(self._seconds, self._run)

    def _run(self) -> None:
        self._is_due = False
        self._work()


class View(ipywidgets.HTML):
    """A view of `render`; whatever it shows of a text was escaped there."""

    def __init__(self, shown: Shown | None = None) -> None:
        super().__init__(layout=ipywidgets.Layout(width="100%", height="auto"))
        self.show(shown)

    def show(self, shown: Shown | None) -> None:
        """Show this; None: nothing."""
        html = tag("div", shown.html, "line-height:1.45;overflow-x:auto;overflow-wrap:anywhere") if shown else ""
        self.value = html


def said(line: str, tone: str = RED) -> Shown | None:
    """What is wrong, in one line; None where nothing is."""
    if not line:
        return None
    style = f"border-left:4px solid {tone};background:{tone}1c;padding:6px 10px;font-size:14px"
    return Shown(line, tag("div", escape(visible(line)), style))


def title(name: str, words: str) -> ipywidgets.HTML:
    """What a panel is, in a line."""
    head = tag("b", escape(name), "font-size:16px")
    return ipywidgets.HTML(tag("div", f"{head} {tag('span', escape(words), 'opacity:.8')}", "line-height:1.45"))


def command(text: str) -> Shown:
    """A command as it is copied."""
    style = (
        "white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid #8886;border-radius:4px;padding:8px 10px;"
        "margin:4px 0;font-size:13px;line-height:1.5;background:transparent;color:inherit"
    )
    return Shown(text, tag("pre", tag("code", escape(text), "background:transparent;color:inherit"), style))


def row(*children: Any) -> ipywidgets.Box:
    """Controls side by side, below each other where there is no room."""
    return ipywidgets.Box(list(children), layout=ipywidgets.Layout(flex_flow="row wrap", align_items="flex-end"))


def column(children: Sequence[Any]) -> ipywidgets.VBox:
    """One below the other."""
    return ipywidgets.VBox(list(children), layout=ipywidgets.Layout(**_FULL))


def field(name: str, widget: Any, width: str = "260px") -> ipywidgets.VBox:
    """A control with its name above it, where there is room for the whole of it."""
    label = ipywidgets.Label(name)
    widget.layout.width = "100%"
    widget.tooltip = name
    layout = ipywidgets.Layout(width=width, max_width="100%", margin="0 16px 4px 0")
    return ipywidgets.VBox([label, widget], layout=layout)


def folds(*parts: tuple[str, Any], is_open: bool = False) -> ipywidgets.Accordion:
    """Parts that are folded away under their names."""
    made = ipywidgets.Accordion([each for _, each in parts], layout=ipywidgets.Layout(**_FULL))
    for index, (name, _) in enumerate(parts):
        made.set_title(index, name)
    made.selected_index = 0 if is_open else None
    return made


def corrected(text: str) -> Shown:
    """A corrected text, or that there is nothing to correct."""
    head = tag("p", tag("b", "The corrected text" if text else "Nothing to mend"), "margin:0 0 4px 0")
    return Shown(text, head + (command(text).html if text else ""))
