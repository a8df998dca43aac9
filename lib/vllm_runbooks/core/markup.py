"""Clean the HTML of a notebook's outputs and Markdown: nothing in it may run, load or pose as a part of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# Allowed HTML of an output: the elements and properties that `render` modules and
# `runbooks.notebook` write, and nothing that loads, links or runs. `id` and `class` are excluded
# too, so that an output cannot imitate a part of the page.
_TAGS = {
    *("table", "thead", "tbody", "tr", "th", "td", "div", "span", "p", "b", "code", "br", "pre", "details", "summary"),
    *("svg", "g", "rect", "line", "path", "text", "title"),
}
_SHAPE = {
    "x", "y", "x1", "y1", "x2", "y2", "width", "height", "d", "fill", "stroke", "stroke-width", "transform",
    "opacity",
}  # fmt: skip
_ATTRIBUTES: dict[str, set[str]] = {
    "*": {"style"},
    "svg": {"width", "height", "viewBox", "preserveAspectRatio", "role"},
    "pre": {"data-copy"},
    "th": {"colspan", "rowspan"},
    "td": {"colspan", "rowspan"},
    **{name: _SHAPE | {"text-anchor", "font-size"} for name in ("g", "rect", "line", "path", "text")},
}
_PROPERTIES = {
    *("background", "border", "border-collapse", "border-left", "border-radius", "color", "font-size", "font-weight"),
    *("line-height", "margin", "margin-bottom", "margin-right", "margin-top", "max-width", "opacity", "overflow-wrap"),
    *("padding", "text-align", "user-select", "vertical-align", "white-space"),
}
_DROPPED_WHOLE = {"script", "style", "iframe", "object", "embed", "template", "noscript"}
# No brackets except in colours, no backslash: neither url() nor an escaped form of it.
_VALUE = r"(?:[\w#.,%\s+-]|rgba?\([\d.,%\s]*\)|color-mix\([\w#.,%\s]*\))*"
_DECLARATION = re.compile(rf"\s*([a-z-]+)\s*:({_VALUE})\s*")
_PLAIN_VALUE = re.compile(_VALUE)


def clean_html(html: str) -> str:
    """The part of an output's HTML that can neither run nor load anything, nor pose as a part of the page."""
    import nh3

    return str(
        nh3.clean(
            html,
            tags=_TAGS,
            clean_content_tags=_DROPPED_WHOLE,
            attributes=_ATTRIBUTES,
            attribute_filter=_safe_attribute,
            filter_style_properties=_PROPERTIES,
        )
    )


def _safe_attribute(element: str, attribute: str, value: str) -> str | None:  # noqa: ARG001 - nh3's signature
    if attribute != "style":
        return value if _PLAIN_VALUE.fullmatch(value) else None
    # nh3 chooses by property, and would let `background: url(…)` load something.
    matches = (_DECLARATION.fullmatch(part) for part in value.split(";"))
    return ";".join(f"{m[1]}:{m[2].strip()}" for m in matches if m and m[1] in _PROPERTIES) or None


_PROSE_TAGS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br", "a", "em", "strong", "s"),
    *("code", "pre", "table", "thead", "tbody", "tr", "th", "td"),
}


def markdown_html(source: str, links: Mapping[str, str]) -> str:
    """Convert Markdown to HTML that can neither run nor load anything.

    HTML in it becomes text, and images become their descriptions.

    Args:
        source: Text of a cell.
        links: Targets of relative links, by their text; other links than these and https become
            text.
    """
    import nh3

    def safe(element: str, attribute: str, value: str) -> str | None:
        if attribute == "href":
            return value if value.startswith("https://") else links.get(value)
        return _safe_attribute(element, attribute, value)

    return str(
        nh3.clean(
            _markdown().render(source),
            tags=_PROSE_TAGS,
            attributes={"a": {"href"}, "ol": {"start"}, "th": {"style"}, "td": {"style"}},
            attribute_filter=safe,
            filter_style_properties={"text-align"},
            link_rel="noopener",
            url_schemes={"https"},
        )
    )


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _description)
    return parser


def _description(_: object, tokens: Sequence[Any], index: int, *_more: object) -> str:
    return escape(str(tokens[index].content))
