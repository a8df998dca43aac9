"""Sphinx settings of the site; `vllm-runbooks site build` uses them on a copy of this folder, generated pages added."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from sphinx.search.en import SearchEnglish

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "vllm-runbooks"
author = "The vllm-runbooks authors"
language = "en"

extensions = ["myst_nb"]
# Included by other pages.
exclude_patterns = ["_generated/*"]
# Options begin with two dashes in prose as well.
smartquotes = False

# Notebooks arrive executed and cleaned; nothing is ever executed here.
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
# MyST-NB's own default loads two scripts from elsewhere; nothing on this site needs them.
nb_ipywidgets_js = {}
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
# Links lead to pages and labels; nothing here documents code, whose domains are slow to ask.
myst_ref_domains = ["std"]

# Lists, which show all that a sidebar would.
_INDEXES = ("symptoms/index", "rules/index", "options/index", "variables/index", "runbooks/index")
# Pages too short for a list of their headings.
_BARE = ("index", "runbooks/index", "search", "gpus/index", "models/index")

html_theme = "pydata_sphinx_theme"
html_title = "vllm-runbooks"
html_static_path = ["_static"]
html_css_files = ["header.css", "custom.css", "language.css"]
# Its layout has the site's header, which the pages that run in the browser have as well.
templates_path = ["_templates"]
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_favicon = "_static/favicon.svg"
# The first two say which language and theme are shown, before anything is.
html_js_files = ["language.js", "theme.js", ("lookup.js", {"defer": "defer"}), ("site.js", {"defer": "defer"})]
# Pages with nothing beside them to choose from.
html_sidebars = {"index": [], "gpus/**": [], "models/**": [], "search": [], **{page: [] for page in _INDEXES}}
# Light or dark as the reader's system says, until they choose.
html_context = {"default_mode": "auto"}
html_theme_options = {
    "back_to_top_button": False,
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    # Of the patterns that match a page, the last decides.
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in _BARE}},
    "show_nav_level": 2,
    # A page deeper than that would get a switch in the sidebar, which has no name for a screen reader.
    "navigation_depth": 2,
    "show_toc_level": 1,
    "footer_start": [],
    "footer_center": [],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


_HAN = r"\u3400-\u9fff"


class Search(SearchEnglish):
    """English words as they are; of Chinese, which has no blanks between words, every two signs that stand together."""

    _word_re = re.compile(rf"[{_HAN}]+|[^\W{_HAN}]+")
    js_splitter_code = rf"""
var splitQuery = (query) => query.split(/[^\p{{Letter}}\p{{Number}}_\p{{Emoji_Presentation}}]+/gu)
  .flatMap((word) => word.match(/[{_HAN}]+|[^{_HAN}]+/g) || [])
  .flatMap((word) => /^[{_HAN}]{{3}}/.test(word)
    ? Array.from({{length: word.length - 1}}, (_, at) => word.slice(at, at + 2)) : [word]);
"""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Sphinx forgets between pages, and the same words stand on all of them: stemming was a tenth of the build.
        self.stem = functools.cache(self.stem)

    def split(self, input: str) -> list[str]:  # noqa: A002 - Sphinx's name
        """The words of a text, for the index; what is searched for is split alike."""
        found: list[str] = []
        for word in super().split(input):
            is_han = re.match(f"[{_HAN}]", word)
            found += [word[at : at + 2] for at in range(max(len(word) - 1, 1))] if is_han else [word]
        return found


_LISTS = {"models": "Models", "gpus": "GPUs"}


def _add_parent(app: Sphinx, name: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Name the list above a model or GPU in its breadcrumbs: no table of contents does."""
    folder = name.partition("/")[0]
    if folder in _LISTS and name != f"{folder}/index":
        link = app.builder.get_relative_uri(name, f"{folder}/index")
        context["parents"] = [{"link": link, "title": _LISTS[folder]}]


def setup(app: Sphinx) -> None:
    """Search in both of the site's languages, and breadcrumbs of models and GPUs."""
    app.add_search_language(Search)
    app.connect("html-page-context", _add_parent)
