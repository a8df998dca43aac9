"""What every panel is made of: views as HTML, a line for what is wrong, a button that copies, an editor with marks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Generic, TypeVar

import anywidget
import ipywidgets
import traitlets

from vllm_runbooks import languages, session
from vllm_runbooks.display import Shown, visible
from vllm_runbooks.render.elements import BLUE, RED, tag

_WAIT_S = 0.02
"""What happens within this time is answered once: a drag sends more than anybody can read."""
_PATIENCE_S = 0.4
"""Seconds of work after which it is said that something is worked at."""
_WORKING = "Reading …"
A = TypeVar("A")
T = TypeVar("T")
_NAMES = (
    ".jupyter-widgets.vr-folds .jupyter-widget-Collapse-header {"
    " color: var(--jp-ui-font-color0, inherit); background: transparent; border-color: #8886; }"
    ".jupyter-widgets.vr-folds .jupyter-widget-Collapse-contents { background: transparent; border-color: #8886; }"
)
"""The names of what is folded away in the colour of text: the usual grey is hard to read."""
_FULL = {"width": "100%", "margin": "0"}
_HEAD = """
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
  const begin = () => {
    const panel = el.closest(".vr-panel");
    if (!panel) { waiting = setTimeout(begin, 100); return; }
    panel.setAttribute("role", "group");
    panel.setAttribute("aria-label", model.get("name"));
    seen = new MutationObserver(() => named(panel));
    seen.observe(panel, { childList: true, subtree: true });
    named(panel);
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
"""
_HEAD_STYLE = """
.vr-name { font-size: 16px; }
.vr-words { opacity: .8; }
.vr-scrolled:focus-visible { outline: 2px solid #3f7fc1; outline-offset: 1px; }
"""
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
  const back = document.createElement("div");
  const area = document.createElement("textarea");
  const said = document.createElement("div");
  box.className = "vr-editor";
  back.className = "vr-back";
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
.vr-editor .vr-back, .vr-editor textarea { position: absolute; inset: 0; margin: 0; padding: 8px 10px; border: 0;
  box-sizing: border-box; width: 100%; height: 100%; overflow: auto; white-space: pre; background: transparent;
  font-family: var(--jp-code-font-family, ui-monospace, monospace); font-size: 13px; line-height: 20px; tab-size: 4;
  letter-spacing: 0; word-spacing: 0; text-indent: 0; }
.vr-editor .vr-back { color: transparent; pointer-events: none; }
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


class Asker(Generic[A, T]):
    """Has what was asked last answered in a thread, so that the kernel stays at hand; at once where no loop runs."""

    def __init__(
        self, ask: Callable[[], A], answer: Callable[[A], T], show: Callable[[T], None], wait: Callable[[str], None]
    ) -> None:
        """Ask for nothing yet; `wait` is told when an answer takes its time, and with no words when it is there."""
        self._ask, self._answer, self._show, self._wait = ask, answer, show, wait
        self._later = Later(self._begin)
        self._task: asyncio.Task[None] | None = None
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Ask soon."""
        self._later()

    def now(self) -> None:
        """Ask and show before this returns."""
        self._show(self._answer(self._ask()))

    def _begin(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.now()
            return
        self._is_due = True
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                answer = asyncio.ensure_future(asyncio.to_thread(self._answer, self._ask()))
                if not (await asyncio.wait({answer}, timeout=_PATIENCE_S))[0]:
                    self._wait(_WORKING)
                told = await answer
                # What was asked meanwhile is what is wanted now.
                if not self._is_due:
                    self._show(told)
        finally:
            self._wait("")


class View(ipywidgets.HTML):
    """A view of `render`; whatever it shows of a text was escaped there."""

    def __init__(self, shown: Shown | None = None) -> None:
        super().__init__(layout=ipywidgets.Layout(width="100%", height="auto", margin="0"))
        self.show(shown)

    def show(self, shown: Shown | None) -> None:
        """Show this; None: nothing."""
        html = tag("div", shown.html, "line-height:1.45;overflow-x:auto;overflow-wrap:break-word") if shown else ""
        self.value = html


def said(line: str, tone: str = RED) -> Shown | None:
    """What is wrong, in one line; None where nothing is."""
    if not line:
        return None
    style = f"border-left:4px solid {tone};background:{tone}1c;padding:6px 10px;font-size:14px"
    return Shown(line, tag("div", escape(visible(line)), style))


def working(words: str) -> Shown | None:
    """That an answer is on its way; None where there are no words."""
    if not words:
        return None
    style = f"border-left:4px solid {BLUE};background:{BLUE}1c;padding:6px 10px;font-size:14px"
    return Shown(words, f'<div role="status" style="{style}">{escape(words)}</div>')


def language(lang: str | None) -> ipywidgets.Dropdown:
    """The languages to choose from; the one that is given, else that of `VLLM_RUNBOOKS_LANG`, is set.

    Raises:
        InputError: there is none of that name.
    """
    offered = [("English", languages.ENGLISH), *((each.name, code) for code, each in languages.LANGUAGES.items())]
    return ipywidgets.Dropdown(options=offered, value=session.language(lang) or languages.ENGLISH)


class Head(anywidget.AnyWidget):
    """What a panel is, in a line; it gives the panel's controls their names, and tells that somebody sees it."""

    _esm = _HEAD
    _css = _HEAD_STYLE + _NAMES
    name = traitlets.Unicode().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)
    is_live = traitlets.Bool(False).tag(sync=True)
    """Whether the page shall beat."""
    beat = traitlets.Int(0).tag(sync=True)
    """Rises every few seconds while a page shows the panel."""


class Panel(ipywidgets.VBox):
    """A panel: its head, and its parts below."""

    def __init__(self, name: str, words: str, children: Sequence[Any]) -> None:
        self.head = Head(name=name, words=words)
        super().__init__([self.head, *children])
        self.add_class("vr-panel")


def heading(words: str) -> View:
    """The name of a part of a panel."""
    return View(Shown(words, tag("h3", escape(words), "font-size:15px;margin:16px 0 6px 0")))


def command(text: str) -> Shown:
    """A command as it is copied."""
    style = (
        "white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal;border:1px solid #8886;border-radius:4px;"
        "padding:8px 10px;margin:4px 0;font-size:13px;line-height:1.5;background:transparent;color:inherit"
    )
    return Shown(text, tag("pre", tag("code", escape(text), "background:transparent;color:inherit"), style))


def button(words: str, tip: str) -> ipywidgets.Button:
    """A button no wider than its words, in line with the controls beside it."""
    return ipywidgets.Button(
        description=words, tooltip=tip, layout=ipywidgets.Layout(width="auto", margin="0 16px 6px 0")
    )


def scrolled(view: View, height: str) -> ipywidgets.Box:
    """A view that is longer than its place, framed; the heading in front of it is its name."""
    frame = ipywidgets.Layout(max_height=height, overflow="auto", border="1px solid #8886", padding="6px 8px")
    frame.margin, frame.display = "6px 2px 6px 0", "block"
    made = ipywidgets.Box([view], layout=frame)
    made.add_class("vr-scrolled")
    return made


def row(*children: Any) -> ipywidgets.Box:
    """Controls side by side, below each other where there is no room."""
    return ipywidgets.Box(list(children), layout=ipywidgets.Layout(flex_flow="row wrap", align_items="flex-end"))


def column(children: Sequence[Any]) -> ipywidgets.VBox:
    """One below the other."""
    return ipywidgets.VBox(list(children), layout=ipywidgets.Layout(**_FULL))


def field(name: str, widget: Any, width: str = "260px") -> ipywidgets.VBox:
    """A control with its name above it, where there is room for the whole of it."""
    label = ipywidgets.Label(name)
    widget.layout.width = "auto"
    widget.tooltip = name
    layout = ipywidgets.Layout(width=width, max_width="100%", margin="0 16px 4px 0", align_self="flex-start")
    made = ipywidgets.VBox([label, widget], layout=layout)
    made.add_class("vr-field")
    return made


def folds(*parts: tuple[str, Any], is_open: bool = False) -> ipywidgets.Accordion:
    """Parts that are folded away under their names."""
    made = ipywidgets.Accordion(
        [each for _, each in parts], layout=ipywidgets.Layout(width="auto", margin="8px 2px 0 0")
    )
    for index, (name, _) in enumerate(parts):
        made.set_title(index, name)
    made.selected_index = 0 if is_open else None
    made.add_class("vr-folds")
    return made


def corrected(text: str) -> Shown:
    """A corrected text, or that there is nothing to correct."""
    head = tag("p", tag("b", "The corrected text" if text else "Nothing to mend"), "margin:0 0 4px 0")
    return Shown(text, head + (command(text).html if text else ""))
