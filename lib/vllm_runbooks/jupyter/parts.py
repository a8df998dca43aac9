"""Parts of every panel: HTML views, an error line, labeled controls, layouts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import ipywidgets

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.views.elements import BLUE, RED, tag, tinted
from vllm_runbooks.jupyter.page_parts import Head

_FULL = {"width": "100%", "margin": "0"}


class HtmlView(ipywidgets.HTML):
    """A view of a `render` module, which escapes everything in it."""

    def __init__(self, view: RenderedView | None = None) -> None:
        super().__init__(layout=ipywidgets.Layout(width="100%", height="auto", margin="0"))
        self.add_class("vr-view")
        self.show(view)

    def show(self, view: RenderedView | None) -> None:
        """Show a view; None clears it."""
        html = tag("div", view.html, "line-height:1.45;overflow-x:auto;overflow-wrap:break-word") if view else ""
        self.value = html


def said(line: str, tone: str = RED) -> RenderedView | None:
    """An error line; None clears it."""
    if not line:
        return None
    style = f"{tinted(tone, '6px 10px')};font-size:14px"
    return RenderedView(line, tag("div", escape(visible(line)), style))


def answered(source: str) -> RenderedView | None:
    """Name the input of the current answer; None clears it."""
    text = f"Answer for {source}" if source else ""
    return RenderedView(text, tag("div", escape(visible(text)), "font-size:13px;opacity:.85")) if text else None


def working(words: str) -> RenderedView | None:
    """A message that an answer is under way; empty clears it."""
    if not words:
        return None
    style = f"{tinted(BLUE, '6px 10px')};font-size:14px"
    return RenderedView(words, f'<div role="status" style="{style}">{escape(words)}</div>')


def language(lang: str | None) -> ipywidgets.Dropdown:
    """A choice of languages, set to the given one, else that of `VLLM_RUNBOOKS_LANG`.

    Raises:
        InputError: The language does not exist.
    """
    offered = [("English", languages.ENGLISH), *((entry.name, code) for code, entry in languages.LANGUAGES.items())]
    return ipywidgets.Dropdown(options=offered, value=catalog.language(lang) or languages.ENGLISH)


class BasePanel(ipywidgets.VBox):
    """A panel: its head, and its parts below."""

    def __init__(self, name: str, words: str, children: Sequence[Any]) -> None:
        self.head = Head(name=name, words=words)
        super().__init__([self.head, *children])
        self.add_class("vr-panel")


def heading(words: str) -> HtmlView:
    """Heading of a part of a panel."""
    return HtmlView(heading_of(words))


def heading_of(words: str) -> RenderedView:
    """Heading of a view."""
    return RenderedView(words, tag("h3", escape(words), "font-size:15px;margin:16px 0 6px 0"))


def command(text: str) -> RenderedView:
    """A command to copy."""
    style = (
        "white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal;border:1px solid #8886;border-radius:4px;"
        "padding:8px 10px;margin:4px 0;font-size:13px;line-height:1.5;background:transparent;color:inherit"
    )
    return RenderedView(text, tag("pre", tag("code", escape(text), "background:transparent;color:inherit"), style))


def button(words: str, tip: str) -> ipywidgets.Button:
    """A button as wide as its label, aligned with the controls next to it."""
    return ipywidgets.Button(
        description=words, tooltip=tip, layout=ipywidgets.Layout(width="auto", margin="0 16px 6px 0")
    )


def scrolled(view: HtmlView, height: str) -> ipywidgets.Box:
    """A framed, scrolling view; the heading before it is its name."""
    frame = ipywidgets.Layout(max_height=height, overflow="auto", border="1px solid #8886", padding="6px 8px")
    frame.margin, frame.display = "6px 2px 6px 0", "block"
    made = ipywidgets.Box([view], layout=frame)
    made.add_class("vr-scrolled")
    return made


def row(*children: Any) -> ipywidgets.Box:
    """Controls side by side, wrapping if there is no space."""
    return ipywidgets.Box(list(children), layout=ipywidgets.Layout(flex_flow="row wrap", align_items="flex-end"))


def column(children: Sequence[Any]) -> ipywidgets.VBox:
    """Parts below each other."""
    return ipywidgets.VBox(list(children), layout=ipywidgets.Layout(**_FULL))


def field(name: str, widget: Any, width: str = "260px") -> ipywidgets.VBox:
    """A control with its full name above it."""
    label = ipywidgets.Label(name)
    widget.layout.width = "auto"
    if "description" in widget.keys:  # the page looks for one next to a tooltip
        widget.tooltip = name
    layout = ipywidgets.Layout(width=width, max_width="100%", margin="0 16px 4px 0", align_self="flex-start")
    made = ipywidgets.VBox([label, widget], layout=layout)
    made.add_class("vr-field")
    return made


def folds(*parts: tuple[str, Any], is_open: bool = False) -> ipywidgets.Accordion:
    """Parts folded under their names."""
    made = ipywidgets.Accordion(
        [part for _, part in parts], layout=ipywidgets.Layout(width="auto", margin="8px 2px 0 0")
    )
    for index, (name, _) in enumerate(parts):
        made.set_title(index, name)
    made.selected_index = 0 if is_open else None
    made.add_class("vr-folds")
    return made


def offer(chosen: Any, offered: Sequence[tuple[str, Any]], usual: Any) -> None:
    """Offer other values of a slider or a list, each with its name; the current one stays if it is among them."""
    if tuple(chosen.options) == tuple(offered):
        return
    value = chosen.value if chosen.value in {item for _, item in offered} else usual
    chosen.options = offered
    chosen.value = value


def corrected(words: str, text: str) -> RenderedView:
    """A description of the corrections, and the corrected text if there is one."""
    head = tag("p", tag("b", escape(words)), "margin:0 0 4px 0")
    return RenderedView(text, head + (command(text).html if text else ""))
