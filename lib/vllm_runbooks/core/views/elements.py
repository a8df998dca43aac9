"""Parts of every view: wrapped lines of a terminal, and elements of HTML, in which text of a log is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from vllm_runbooks.core.display import RenderedView, visible
from vllm_runbooks.core.records import Truth
from vllm_runbooks.core.views import text_width as columns

COLUMNS = 80
GREEN, RED, AMBER, GREY, BLUE = "#1a7f37", "#cf222e", "#9a6700", "#6e7781", "#0969da"
TRUTHS = {Truth.RIGHT: GREEN, Truth.WRONG: RED, Truth.UNKNOWN: GREY}


class Headline(NamedTuple):
    """An answer in one line: a short verdict, then its basis."""

    verdict: str
    why: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.why}"


def cut(line: str, width: int = 160) -> str:
    """A text in one line, truncated to `width`."""
    return columns.cut(" ".join(line.split()), width)


def beyond(rows: Sequence[object], most: int) -> list[str]:
    """A line with the number of rows that are not listed; none if all are."""
    return [f"and {len(rows) - most:,} more: see --format json"] if len(rows) > most else []


def joined(parts: Iterable[str]) -> str:
    return visible("\n\n".join(parts) + "\n")


def wrap(body: str, indent: str = "  ", first: str | None = None) -> str:
    """A paragraph of a terminal, indented; `first` begins its first line instead."""
    lead = indent if first is None else first
    words = " ".join(body.split())
    return "\n".join(columns.wrap(words, COLUMNS, lead, indent))


def tag(name: str, body: str, style: str = "") -> str:
    return f'<{name} style="{style}">{body}</{name}>' if style else f"<{name}>{body}</{name}>"


def prose(text: str) -> str:
    return re.sub(r"`([^`]{1,200})`", r"<code>\1</code>", escape(text))


def coloured(text: str, colour: str, style: str = "") -> str:
    """A text in a colour that can be read on light and dark ground: mixed with that of the text around it."""
    return tag("span", escape(text), f"color:color-mix(in srgb, {colour} 60%, currentColor)" + (style and f";{style}"))


def badge(word: str, colour: str) -> str:
    return tag(
        "span", escape(word), f"background:{colour};color:#fff;border-radius:4px;padding:1px 8px;font-weight:600"
    )


def verdict(headline: Headline, tone: str) -> str:
    body = f"{badge(headline.verdict, tone)} <b>{escape(headline.why)}</b>"
    return tag("div", body, "font-size:16px;margin-bottom:6px;max-width:80ch")


def remark(text: str) -> str:
    return tag("p", escape(text), "opacity:.75;font-size:13px;max-width:80ch")


def heading(text: str) -> str:
    return tag("div", tag("b", escape(text)), "margin-top:14px;margin-bottom:4px")


def html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Iterable[int] = (),
    below: Sequence[str] = (),
    is_indented: bool = False,
    widest: str = "52em",
) -> str:
    """A table; `below` has a remark under each row, from the second column on if `is_indented`."""
    right = frozenset(numeric)
    indent, span = ("<td></td>", len(head) - 1) if is_indented else ("", len(head))
    styles = [
        f"padding:4px 14px 4px 0;vertical-align:top;text-align:{'right' if n in right else 'left'}"
        for n in range(len(head))
    ]
    top = "".join(tag("th", escape(h), f"{s};font-weight:600") for h, s in zip(head, styles, strict=True))
    lines = []
    for number, row in enumerate(rows):
        lines.append(tag("tr", "".join(tag("td", c, s) for c, s in zip(row, styles, strict=True))))
        if number < len(below) and below[number]:
            faint = "padding:0 14px 6px 0;text-align:left;opacity:.72;font-size:13px"
            lines.append(f'<tr>{indent}<td colspan="{span}" style="{faint}">{escape(below[number])}</td></tr>')
    whole = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return tag("table", whole, f"border-collapse:collapse;font-size:14px;max-width:{widest}")


def cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[escape(cell) for cell in row] for row in rows]


_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;text-align:left;font-size:13px;line-height:1.45"


def preformatted(text: str) -> str:
    return tag("pre", tag("code", escape(text)), _PRE)


def quoted(place: str, text: str, tone: str = RED, *, about: str = "", behind: str = "") -> str:
    """A line of the input; `about` and `behind` continue its text, and `about` is underlined."""
    place = tag("span", escape(visible(place)), "opacity:.75;margin-right:10px")
    words = escape(visible(text))
    if about:
        words += tag("u", escape(visible(about)), f"text-decoration:underline 2px {tone};text-underline-offset:3px")
    words += escape(visible(behind))
    line = tag("code", words, "white-space:pre-wrap;overflow-wrap:anywhere;background:transparent")
    style = f"border-left:3px solid {tone};padding:2px 0 2px 10px;margin:4px 0;font-size:13px"
    return tag("div", place + line, style)


def tinted(tone: str, padding: str) -> str:
    return f"border-left:4px solid {tone};background:{tone}1c;padding:{padding}"


def grid(
    head: Sequence[str], rows: Sequence[Sequence[str]], below: str = "", *, is_numeric: bool = False
) -> RenderedView:
    """A table of plain cells, with columns as wide as needed in a terminal.

    Numbers are right-aligned.
    """
    widths = [max(columns.width(row[i]) for row in (head, *rows)) for i in range(len(head))]
    numeric = range(1, len(head)) if is_numeric else range(0)
    lines = [
        "  ".join(columns.padded(c, widths[i], is_right=i in numeric) for i, c in enumerate(row)).rstrip()
        for row in (head, *rows)
    ]
    html = html_table(head, cells(rows), numeric=numeric, widest="none")
    return RenderedView("\n".join([*lines, *([below] if below else [])]), html + (remark(below) if below else ""))
