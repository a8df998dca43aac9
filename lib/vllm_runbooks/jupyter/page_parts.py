"""Parts of a panel with a script in the page: a copy button, text boxes, the head."""

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
    """A button that copies a text."""

    _esm = _page("copy.js")
    _css = _page("copy.css")
    text = traitlets.Unicode().tag(sync=True)
    label = traitlets.Unicode("Copy the command").tag(sync=True)


class TextBox(anywidget.AnyWidget):
    """A text that is typed or pasted.

    It is exchanged as messages: a widget's state is saved with the notebook, and a log or a script may contain secrets.
    """

    _esm = _page("text.js") + _page("box.js")
    _css = _page("box.css")
    value = traitlets.Unicode()
    placeholder = traitlets.Unicode().tag(sync=True)
    most = traitlets.Int(200_000).tag(sync=True)
    """Most characters that the page shows; a longer paste is sent as a file, and leaves the box empty."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
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
        if not self._is_heard:  # the page has the text, possibly a newer one
            self.send({"text": self._shown()})

    def _shown(self) -> str:
        return self.value if len(self.value) <= self.most else ""


class Editor(TextBox):
    """A text box that marks issues in place."""

    _esm = _page("text.js") + _page("editor.js")
    _css = _page("editor.css") + _TONES
    label = traitlets.Unicode("command, script, manifest or page").tag(sync=True)
    marks = traitlets.List().tag(sync=True)


class Head(anywidget.AnyWidget):
    """A panel's title line; it labels the panel's controls and reports that a page shows it."""

    _esm = _page("head.js")
    _css = _page("head.css")
    name = traitlets.Unicode().tag(sync=True)
    words = traitlets.Unicode().tag(sync=True)
    is_live = traitlets.Bool(False).tag(sync=True)
    """Whether the page should send a heartbeat."""
    beat = traitlets.Int(0).tag(sync=True)
    """Increases every few seconds while a page shows the panel."""
