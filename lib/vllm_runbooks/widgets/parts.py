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
from vllm_runbooks.redact import redact_text
from vllm_runbooks.render.elements import AMBER, BLUE, RED, cut, tag, tinted

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
_BOX = """
function render({ model, el }) {
  const area = document.createElement("textarea");
  area.className = "vr-box";
  area.spellcheck = false;
  area.placeholder = model.get("placeholder");
  el.append(area);
  let timer = 0;
  const take = ({ text }) => { if (area.value !== text) area.value = text; };
  const send = () => { clearTimeout(timer); timer = 0; model.send({ text: area.value }); };
  area.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(send, 250); });
  area.addEventListener("blur", () => { if (timer) send(); });
  // A box takes seconds to show megabytes, and the page stands still meanwhile: they go as a file does.
  area.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text/plain");
    if (text.length <= model.get("most")) return;
    event.preventDefault();
    clearTimeout(timer);
    area.value = "";
    model.send({ file: true }, undefined, [new TextEncoder().encode(text)]);
  });
  // What is typed here is text: no shortcut of the notebook may take it.
  area.addEventListener("keydown", (event) => event.stopPropagation());
  model.on("msg:custom", take);
  model.send({ asks: true });
  return () => { clearTimeout(timer); model.off("msg:custom", take); };
}
export default { render };
"""
_BOX_STYLE = """
.vr-box { width: 100%; height: 120px; box-sizing: border-box; padding: 6px 8px; resize: vertical; font-size: 13px;
  font-family: var(--jp-code-font-family, ui-monospace, monospace); color: var(--jp-content-font-color1, inherit);
  background: transparent; border: 1px solid #8889; border-radius: 4px; }
.vr-box:focus-visible { outline: 2px solid #3f7fc1; outline-offset: -1px; }
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
    const marks = new Map();
    for (const mark of model.get("marks")) marks.set(mark.line, [...(marks.get(mark.line) ?? []), mark]);
    back.replaceChildren(...area.value.split("\\n").flatMap((line, index) => {
      if (!marks.has(index + 1)) return [line + "\\n"];
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
      return [...parts, between(at) + "\\n"];
    }));
    follow();
  };
  const follow = () => { back.scrollTop = area.scrollTop; back.scrollLeft = area.scrollLeft; };
  const tell = () => {
    const line = area.value.slice(0, area.selectionStart).split("\\n").length;
    const here = model.get("marks").filter(m => m.line === line);
    said.textContent = here.length
      ? here.map(m => `${m.line}:${m.column} ${m.severity}: ${m.message}`).join("\\n")
      : "";
  };
  const take = ({ text }) => { if (area.value !== text) area.value = text; paint(); tell(); };
  const send = () => { clearTimeout(timer); timer = 0; model.send({ text: area.value }); };
  area.addEventListener("input", () => { paint(); clearTimeout(timer); timer = setTimeout(send, 250); });
  area.addEventListener("blur", () => { if (timer) send(); });
  area.addEventListener("scroll", follow);
  for (const name of ["keyup", "click"]) area.addEventListener(name, tell);
  // What is typed here is text: no shortcut of the notebook may take it.
  area.addEventListener("keydown", (event) => event.stopPropagation());
  const judged = () => { paint(); tell(); };
  model.on("msg:custom", take);
  model.on("change:marks", judged);
  model.send({ asks: true });
  return () => { clearTimeout(timer); model.off("msg:custom", take); model.off("change:marks", judged); };
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
.vr-said { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; line-height: 1.45;
  min-height: 19px; margin-top: 4px; }
"""


_TONES = "".join(
    f".vr-{severity} {{ background: {tone}30; text-decoration-color: {tone}; text-decoration-style: {line}; }}\n"
    for severity, tone, line in (("error", RED, "wavy"), ("warning", AMBER, "dashed"), ("info", BLUE, "dotted"))
)


class Copy(anywidget.AnyWidget):
    """A button that puts a text into the clipboard."""

    _esm = _COPY
    _css = _COPY_STYLE
    text = traitlets.Unicode().tag(sync=True)
    label = traitlets.Unicode("Copy the command").tag(sync=True)


class Box(anywidget.AnyWidget):
    """A text that is written or pasted.

    It goes between page and kernel as messages: the state of a widget is saved with the notebook, and a log or a script
    may hold secrets.
    """

    _esm = _BOX
    _css = _BOX_STYLE
    value = traitlets.Unicode()
    placeholder = traitlets.Unicode().tag(sync=True)
    most = traitlets.Int(200_000).tag(sync=True)
    """Characters that the page shows; a longer paste is sent as a file, and leaves the box empty."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._is_heard = False
        self.on_msg(self._hear)
        self.observe(self._tell, "value")

    def _hear(self, _: Any, content: Any, buffers: Sequence[Any]) -> None:
        if content.get("asks"):
            self._tell()
            return
        self._is_heard = True
        try:
            self.value = str(buffers[0], "utf-8", "replace") if buffers else str(content.get("text", ""))
        finally:
            self._is_heard = False

    def _tell(self, _: Any = None) -> None:
        if not self._is_heard:  # the page has it, and may be further on
            self.send({"text": self.value if len(self.value) <= self.most else ""})


class Editor(Box):
    """A text that is written, with what is wrong in it marked where it stands."""

    _esm = _EDIT
    _css = _EDIT_STYLE + _TONES
    label = traitlets.Unicode("command, script, manifest or page").tag(sync=True)
    marks = traitlets.List().tag(sync=True)


def unforeseen(error: Exception) -> str:
    """What is said where an answer broke off, in one line: no user sees the log of a kernel."""
    told = cut(redact_text(f"{type(error).__name__}: {error}"))
    return f"this could not be answered ({told}); change what is asked, or report it with what was asked"


class Later:
    """Does something soon, and once for all calls until then; at once where no loop runs."""

    def __init__(self, work: Callable[[], None], failed: Callable[[str], None], seconds: float = _WAIT_S) -> None:
        """Do nothing yet; `failed` is told in one line why the work broke off."""
        self._work, self._failed = work, failed
        self._seconds = seconds
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Have it done."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.now()
            return
        if not self._is_due:
            self._is_due = True
            loop.call_later(self._seconds, self.now)

    def now(self) -> None:
        """Do it before this returns."""
        self._is_due = False
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, an old answer must not stand beside a new question
            self._failed(unforeseen(error))


class Asker(Generic[A, T]):
    """Has what was asked last answered in a thread, so that the kernel stays at hand; at once where no loop runs."""

    def __init__(
        self,
        ask: Callable[[], A],
        answer: Callable[[A], T],
        show: Callable[[T], None],
        *,
        wait: Callable[[str], None],
        failed: Callable[[str], None],
    ) -> None:
        """Ask for nothing yet.

        Args:
            ask: What is asked now.
            answer: Its answer, in a thread.
            show: Shows the answer.
            wait: Is told when an answer takes its time, and with no words when it is there.
            failed: Is told in one line why there is no answer.
        """
        self._ask, self._answer, self._show, self._wait, self._failed = ask, answer, show, wait, failed
        self._now = Later(lambda: show(answer(ask())), failed)
        self._later = Later(self._begin, failed)
        self._task: asyncio.Task[None] | None = None
        self._is_due = False

    def __call__(self, *_: object) -> None:
        """Ask soon."""
        self._later()

    def now(self) -> None:
        """Ask and show before this returns."""
        self._now.now()

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
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(unforeseen(error))
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
    style = f"{tinted(tone, '6px 10px')};font-size:14px"
    return Shown(line, tag("div", escape(visible(line)), style))


def answered(source: str) -> Shown | None:
    """What is answered, of all that was given; None where that is nothing."""
    said = f"Answered: {source}" if source else ""
    return Shown(said, tag("div", escape(visible(said)), "font-size:13px;opacity:.85")) if said else None


def working(words: str) -> Shown | None:
    """That an answer is on its way; None where there are no words."""
    if not words:
        return None
    style = f"{tinted(BLUE, '6px 10px')};font-size:14px"
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
    if "description" in widget.keys:  # the page looks for one beside a tooltip
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


def offer(chosen: Any, offered: Sequence[tuple[str, Any]], usual: Any) -> None:
    """Offer other values of a slider or a list, each with its name; the one that is set stays if it is among them."""
    if tuple(chosen.options) == tuple(offered):
        return
    value = chosen.value if chosen.value in {each for _, each in offered} else usual
    chosen.options = offered
    chosen.value = value


def corrected(text: str) -> Shown:
    """A corrected text, or that there is nothing to correct."""
    head = tag("p", tag("b", "The corrected text" if text else "Nothing to mend"), "margin:0 0 4px 0")
    return Shown(text, head + (command(text).html if text else ""))
