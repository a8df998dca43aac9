"""Placeholders: `<model>`, `PORT`, `{{ .Values.model }}`, `${X}`, `...`, `[options]`.

An unknown part of a text is the sign `HOLE`, with its text and `END` behind it if that is kept: to a shell, to YAML
and to systemd both are letters like any other. `filled` makes a word with the sign unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.shell import Word

END = "\ue0b0"
EXPRESSION = re.compile(f"{HOLE}{{2}}[^\n{HOLE}{END}]{{0,500}}{END}{{2}}")
"""A template's expression in the value of a YAML scalar."""
_HELP = re.compile(r"-h\Z|--help(?:=|\Z)")
_SYNOPSIS = re.compile(r"\[(?:-{1,2}[A-Za-z]|<[A-Za-z])")
"""Beginning of a word in a synopsis: `[--port PORT]`."""
_OMITTED = re.compile(
    r"\[(?:[a-z]*[-_ ]?(?:options|args|arguments|flags|params|parameters)|\.{3}|\u2026)(?:\.{3}|\u2026)?\](?:\.{3})?",
    re.IGNORECASE,
)
_STANDS_FOR = re.compile(r"\{[A-Za-z_]\w{0,60}\}|%[A-Za-z_]\w{0,60}%|[A-Z](?:[A-Z_]{0,60}[A-Z])?")
"""What in a page may stand for a value that is to be filled in: `{port}`, `PORT`, `N`."""
_MARKED = re.compile(r"@[A-Z_][A-Z0-9_]{0,60}@|%[A-Z_][A-Z0-9_]{0,60}%|__[A-Z][A-Z0-9_]{0,60}__")
"""A value that another program fills in before a script runs: `@PORT@`, `%PORT%`, `__PORT__`."""
_LATER = re.compile(
    rf"{_MARKED.pattern}|<(?![<( ])[^<>\n]{{1,80}}>"
    r"|\$\$?[({][A-Za-z_][^(){}\n]{0,200}[)}]|\$\$?[A-Za-z_]\w{0,200}"
    r"|\{\{[^{}\n]{1,200}\}\}|\{[A-Za-z_]\w{0,60}\}|(?:YOUR|REPLACE|CHANGE|INSERT|TODO|FIXME)(?:[_-][A-Za-z0-9_-]{1,60})?|CHANGEME"
)
"""A value that a person or a later program fills in: `<port>`, `{port}`, `${PORT}`, `$(PORT)`, `REPLACE_ME`."""
_OPTION = re.compile(r"[\"']?(--?[A-Za-z][A-Za-z0-9_.-]{0,80})=")
_NAMING = re.compile(
    r"(?:.*_)?(?:N|X|NUM|INT|INTEGER|FLOAT|NUMBER|SIZE|COUNT|VALUE|PORT|HOST|MODEL|NAME|PATH|LEN|LENGTH|TP|PP|DP|KEY|TOKEN"
    r"|YOUR|GPUS?|ID|DIR|FILE|IP|ADDRESS|URL)(?:_.*)?"
)
_ELISION = {"...", "…", "[...]", "[…]", "……"}
_PLACEHOLDER = re.compile(r"<(?=[^\W\d_][^<>\n|&;$\"'`]{0,80}>)([^<>\n|&;$\"'`]{0,79}[^<>\n|&;$\"'`\s])>")
_TEMPLATE = re.compile(
    rf"\{{\{{(?:[^{{}}\n]|\{{(?!\{{)[^{{}}\n]{{0,200}}\}}){{1,500}}\}}\}}|{EXPRESSION.pattern}|<%=[^%\n]{{1,500}}%>"
)
"""An expression that a template fills in, as it is written and as `yaml_places` hands it on."""
VARIABLE = re.compile(r"\$\{[A-Za-z_][^{}$\n]{0,200}\}", re.ASCII)
"""`${NAME}` in a manifest for Kubernetes, which reads $(NAME): envsubst, Akamas and others fill it in."""


def marked(text: str, *, is_page: bool) -> str:
    """A script's text, as long as it was, in which what a page or a template has to be filled in means nothing."""
    if is_page:
        text = _PLACEHOLDER.sub(rf"{HOLE}\1{END}", text)
    return _TEMPLATE.sub(masked, text)


def masked(match: re.Match[str]) -> str:
    """Placeholder for an unknown text, of the same length."""
    return f"{HOLE}{'x' * (len(match[0]) - 2)}{END}"


def filled(word: Word) -> Word:
    """The word; its value is None if a part of it is unknown."""
    if word.value is not None and HOLE in word.value:
        return replace(word, value=None, why="placeholder", at=None)
    return word


def arguments(words: Sequence[Word], *, is_page: bool) -> tuple[list[Word] | None, bool]:
    """Arguments without placeholders, and whether there were any; None for a request for help."""
    kept: list[Word] = []
    is_elided = False
    for index, word in enumerate(map(filled, words)):
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


def is_placeholder(text: str) -> bool:
    """Whether a value is filled in before vLLM gets it, or by a person who uses the file."""
    return _LATER.fullmatch(text) is not None


def without_values(words: Sequence[Word]) -> list[str | None]:
    """The values of words: unknown where one is to be filled in, `HOLE` if only its option is known."""
    return [_without_value(word) for word in words]


def _without_value(word: Word) -> str | None:
    if word.value is None:
        match = _OPTION.match(word.raw)
        return f"{match[1]}={HOLE}" if match else None
    name, equals, value = word.value.partition("=")
    if equals and name.startswith("-") and is_placeholder(value):
        return f"{name}={HOLE}"
    return None if is_placeholder(word.value) else word.value


def _is_to_be_filled(value: str, option: str | None) -> bool:
    """Whether a word in a page is the name of a value rather than the value."""
    if not _STANDS_FOR.fullmatch(value):
        return False
    if value[0] in "{%":
        return True
    name = (option or "").lstrip("-").replace("-", "_").upper()
    return (option or "").startswith("-") and (bool(_NAMING.fullmatch(value)) or value in name)
