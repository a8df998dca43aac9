"""Placeholders in documentation: `<model>`, `PORT`, `{{ .Values.model }}`, `...`, `[options]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.shell import Word

_HELP = re.compile(r"-h\Z|--help(?:=|\Z)")
_SYNOPSIS = re.compile(r"\[(?:-{1,2}[A-Za-z]|<[A-Za-z])")
"""Beginning of a word in a synopsis: `[--port PORT]`."""
_OMITTED = re.compile(
    r"\[(?:[a-z]*[-_ ]?(?:options|args|arguments|flags|params|parameters)|\.{3}|\u2026)(?:\.{3}|\u2026)?\](?:\.{3})?",
    re.IGNORECASE,
)
_STANDS_FOR = re.compile(r"\{[A-Za-z_]\w{0,60}\}|%[A-Za-z_]\w{0,60}%|[A-Z](?:[A-Z_]{0,60}[A-Z])?")
"""What in a page may stand for a value that is to be filled in: `{port}`, `PORT`, `N`."""
_MARKED = re.compile(r"@[A-Z_][A-Z0-9_]{0,60}@|%[A-Z_][A-Z0-9_]{0,60}%")
"""A value that another program fills in before a script runs: `@PORT@`, `%PORT%`."""
_NAMING = re.compile(
    r"(?:.*_)?(?:N|X|NUM|INT|INTEGER|FLOAT|NUMBER|SIZE|COUNT|VALUE|PORT|HOST|MODEL|NAME|PATH|LEN|LENGTH|TP|PP|DP|KEY|TOKEN"
    r"|YOUR|GPUS?|ID|DIR|FILE|IP|ADDRESS|URL)(?:_.*)?"
)
_ELISION = {"...", "…", "[...]", "[…]", "……"}
_PLACEHOLDER = re.compile(r"<(?=[^\W\d_][^<>\n|&;$\"'`]{0,80}>)([^<>\n|&;$\"'`]{0,79}[^<>\n|&;$\"'`\s])>")
_TEMPLATE = re.compile(r"(?:\{\{|\u2983{2})[^{}\n\u2983\u2984]{1,500}(?:\}\}|\u2984{2})")
"""An expression that a template fills in, as it is written and as `yaml_places` hands it on."""
_EXPRESSION = re.compile(r"\{\{[^\n]{0,1000}?\}\}|\u2983{2}[^\n]{0,1000}?\u2984{2}")
_STATEMENT = re.compile(r"(?<!\$)\{%[-+ \w][^\n]{0,1000}?%\}|(?<!\$)\{# (?s:.){0,4000}? #\}")
_STATEMENT_LINE = re.compile(
    r"^(?:[ \t]*(?:\{%[-+ \w][^\n]{0,1000}?%\}"
    r"|\{\{-?[ \t]*(?:if|else|end|range|with|define|template)\b[^\n]{0,1000}?\}\}))+[ \t]*\n",
    re.MULTILINE,
)
"""A line with nothing but statements of Jinja or of a Go template."""
UNKNOWN = "\ue0b2x\ue0b0"
"""Marks an unknown part of a script: `filled` makes the word unknown."""
_PLACEHOLDER_SIGNS = str.maketrans("<>", "\ue0b2\ue0b0")
"""Signs without a meaning, which are characters like any other to a shell."""


def marked(text: str, *, is_page: bool) -> str:
    """A script's text, as long as it was, in which what a page or a template has to be filled in means nothing."""
    if is_page:
        text = _PLACEHOLDER.sub(lambda match: match[0].translate(_PLACEHOLDER_SIGNS), text)
    return _TEMPLATE.sub(lambda match: f"\ue0b2{'x' * (len(match[0]) - 2)}\ue0b0", text)


def rendered(source: Excerpt) -> Excerpt:
    """A text without a template's statements, in which its expressions are unknown.

    A line with nothing but statements is removed, as Ansible and Helm remove it.
    """
    if not any(mark in source.text for mark in ("{%", "{{", "\u2983\u2983")):
        return source
    done, kept = 0, []
    for match in _STATEMENT_LINE.finditer(source.text):
        kept.append((done, match.start()))
        done = match.end()
    source = source.joined([*kept, (done, len(source.text))])
    text = _STATEMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source.text)
    return Excerpt(_EXPRESSION.sub(lambda match: f"\ue0b2{'x' * (len(match[0]) - 2)}\ue0b0", text), source.at)


def filled(word: Word) -> Word:
    """The word, with an unknown value if it has a mark of `marked`."""
    if word.value is not None and "\ue0b2" in word.value and "\ue0b0" in word.value:
        return replace(word, value=None, why="placeholder", at=None)
    return word


def arguments(words: Sequence[Word], *, is_page: bool) -> tuple[list[Word] | None, bool]:
    """Arguments without placeholders, and whether there were any; None for a request for help."""
    kept: list[Word] = []
    is_elided = False
    for index, word in enumerate(words):
        value = word.value
        if value is None:
            kept.append(word)
        elif _HELP.match(value) or _SYNOPSIS.match(value) or (index == 0 and re.fullmatch(r"\[[\w <>|-]+\]", value)):
            return None, False
        elif value in _ELISION or _OMITTED.fullmatch(value):
            is_elided = True
        elif is_page and ("..." in value or "\u2026" in value):
            kept.append(replace(word, value=None, why="left out", at=None))
        elif _MARKED.fullmatch(value) or (is_page and _is_to_be_filled(value, kept[-1].value if kept else None)):
            kept.append(replace(word, value=None, why="placeholder", at=None))
        else:
            kept.append(word)
    return kept, is_elided


def _is_to_be_filled(value: str, option: str | None) -> bool:
    """Whether a word in a page is the name of a value rather than the value."""
    if not _STANDS_FOR.fullmatch(value):
        return False
    if value[0] in "{%":
        return True
    name = (option or "").lstrip("-").replace("-", "_").upper()
    return (option or "").startswith("-") and (bool(_NAMING.fullmatch(value)) or value in name)
