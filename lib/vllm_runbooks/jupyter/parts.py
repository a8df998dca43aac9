"""What every panel is made of: views as HTML, a line for what is wrong, controls with their names, places for them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import ipywidgets

from vllm_runbooks.catalog import languages
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.display import Shown, visible
from vllm_runbooks.core.views.elements import BLUE, RED, tag, tinted
from vllm_runbooks.jupyter.page_parts import Head

_FULL = {"width": "100%", "margin": "0"}


class View(ipywidgets.HTML):
    """A view of a `render` module; whatever it shows of a text was escaped there."""

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
    return ipywidgets.Dropdown(options=offered, value=catalog.language(lang) or languages.ENGLISH)


class Panel(ipywidgets.VBox):
    """A panel: its head, and its parts below."""

    def __init__(self, name: str, words: str, children: Sequence[Any]) -> None:
        self.head = Head(name=name, words=words)
        super().__init__([self.head, *children])
        self.add_class("vr-panel")


def heading(words: str) -> View:
    """The name of a part of a panel."""
    return View(heading_of(words))


def heading_of(words: str) -> Shown:
    """The same, for a view that there is."""
    return Shown(words, tag("h3", escape(words), "font-size:15px;margin:16px 0 6px 0"))


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


def corrected(words: str, text: str) -> Shown:
    """What was corrected, in words, and the corrected text where there is one."""
    head = tag("p", tag("b", escape(words)), "margin:0 0 4px 0")
    return Shown(text, head + (command(text).html if text else ""))
