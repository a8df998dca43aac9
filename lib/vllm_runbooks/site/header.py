"""Header of every page, of Sphinx and in the browser: brand, links, search, theme."""

from __future__ import annotations

from collections.abc import Callable

_LINKS = (
    ("diagnose.html", "Diagnose"), ("check.html", "Check"), ("plan.html", "Plan"), ("symptoms/index.html", "Symptoms"),
    ("runbooks/index.html", "Runbooks"), ("rules/index.html", "Rules"), ("options/index.html", "Options"),
    ("models/index.html", "Models"), ("gpus/index.html", "GPUs"), ("guide.html", "Guide"),
)  # fmt: skip
_MORE = (
    ("variables/index.html", "Variables"), ("commands/index.html", "Commands"), ("api/index.html", "Library"),
    ("contributing.html", "Contribute"), ("background.html", "How it is made"),
)  # fmt: skip
LAYOUT = "layout.html"
"""Template of Sphinx's pages, in `docs/_templates`."""
PLACE = "$header"
"""Placeholder of the header in that template."""


def header(address: Callable[[str], str], current: Callable[[str], str]) -> str:
    """The header as HTML.

    Args:
        address: Returns the address of a page of the site, relative to the page with this
            header.
        current: Returns an attribute for the link to a page, which marks the current page.
    """

    def link(page: str, name: str) -> str:
        return f'<a href="{address(page)}"{current(page)}>{name}</a>'

    more = "".join(link(page, name) for page, name in _MORE)
    return (
        f'<a class="site-brand" href="{address("index.html")}">vllm-runbooks</a>'
        f'<nav class="site-links" aria-label="Site">{"".join(link(page, name) for page, name in _LINKS)}'
        f'<details class="site-more"><summary>More</summary><div>{more}</div></details></nav>'
        '<div class="site-tools"><button type="button" class="site-search" data-search hidden>'
        '<span>Search</span> <kbd aria-hidden="true">Ctrl K</kbd></button>'
        '<button type="button" id="theme">Theme</button></div>'
    )


def template_header() -> str:
    """The header for a template of Sphinx, which knows the page."""

    def current(page: str) -> str:
        name = page.removesuffix(".html")
        folder = name.removesuffix("index") if name.endswith("/index") else None
        test = f'pagename.startswith("{folder}")' if folder else f'pagename == "{name}"'
        return f"{{{{ ' aria-current=\"page\"' if {test} }}}}"

    return header(lambda page: f"{{{{ pathto('{page}', 1) }}}}", current)
