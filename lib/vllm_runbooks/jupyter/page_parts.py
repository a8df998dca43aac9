"""Parts of a panel that the page itself has a script for: a button that copies, texts that are written, the head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from vllm_runbooks.core.views.elements import AMBER, BLUE, RED


def _page(name: str) -> str:
    return (Path(__file__).parent / "page" / name).read_text("utf-8")


_TONES = "".join(
    f".vr-{severity} {{ background: {tone}30; text-decoration-color: {tone}; text-decoration-style: {line}; }}\n"
    for severity, tone, line in (("error", RED, "wavy"), ("warning", AMBER, "dashed"), ("info", BLUE, "dotted"))
)


class Copy(anywidget.AnyWidget):
    """A button that puts a text into the clipboard."""

    _esm = _page("copy.js")
    _css = _page("copy.css")
    text = traitlets.Unicode().tag(sync=True)
    label = traitlets.Unicode("Copy the command").tag(sync=True)


class Box(anywidget.AnyWidget):
    """A text that is written or pasted.

    It goes between page and kernel as messages: the state of a widget is saved with the notebook, and a log or a script
    may hold secrets.
    """

    _esm = _page("text.js") + _page("box.js")
    _css = _page("box.css")
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
            self.send({"text": self._shown(), "first": True})
            return
        self._is_heard = True
        try:
            self.value = str(buffers[0], "utf-8", "replace") if buffers else str(content.get("text", ""))
        finally:
            self._is_heard = False

    def _tell(self, _: Any = None) -> None:
        if not self._is_heard:  # the page has it, and may be further on
            self.send({"text": self._shown()})

    def _shown(self) -> str:
        return self.value if len(self.value) <= self.most else ""


class Editor(Box):
    """A text that is written, with what is wrong in it marked where it stands."""

    _esm = _page("text.js") + _page("editor.js")
    _css = _page("editor.css") + _TONES
    label = traitlets.Unicode("command, script, manifest or page").tag(sync=True)
    marks = traitlets.List().tag(sync=True)


class Head(anywidget.AnyWidget):
    """What a panel is, in a line; it gives the panel's controls their names, and tells that somebody sees it."""

    _esm = _page("head.js")
    _css = _page("head.css")
    name = traitlets.Unicode().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)
    is_live = traitlets.Bool(False).tag(sync=True)
    """Whether the page shall beat."""
    beat = traitlets.Int(0).tag(sync=True)
    """Rises every few seconds while a page shows the panel."""
