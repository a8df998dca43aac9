"""Templates of files: Jinja, Go (Helm), ERB and Terraform statements, rendered without their values.

Statements and comments are left out, and one branch of each condition is kept. Expressions stay:
`placeholders` marks them as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Excerpt

_MAX_STATEMENT = 4000
_MAX_LINE = 400
_SIGN = re.compile(r"\{%|%\}|\{\{|\}\}|(?<![$\w])\{#|#\}|<%|%>|%\{|\}")
_CLOSERS = {"{%": "%}", "{{": "}}", "{#": "#}", "<%": "%>", "%{": "}"}
_GO = re.compile(r"-?\s{0,8}(?:(if|else|end|range|with|define|block|break|continue)\b|\$\w{1,60}\s{0,8}:?=|/\*)")
_WORD = re.compile(r"[-+_~]?\s{0,8}(\w{1,20})")
_TERRAFORM = frozenset({"if", "else", "endif", "for", "endfor"})
_OPENS = frozenset(
    {"if", "unless", "for", "while", "range", "with", "define", "block", "call", "filter", "macro", "case"}
)
_TURNS = frozenset({"else", "elif", "elsif", "when"})

_KEYWORDS = frozenset({
    "set", "include", "import", "from", "extends", "do", "raw", "break", "continue", "trans", "assign", "capture",
    "comment",
})  # fmt: skip
_BLOCK = re.compile(
    r"-?\s{0,8}(?:(\})\s{0,8}(else|elsif)?|.{0,400}(?:\bdo\b\s{0,8}(?:\|[^|]{0,80}\|)?|\{)\s{0,8}-?\Z)", re.DOTALL
)
"""A statement of ERB or Puppet that opens a block (`do |x|`, `|$x| {`), closes it (`}`) or turns (`} else {`)."""


class _Statement(NamedTuple):
    start: int
    end: int
    word: str
    """Its keyword; empty for a comment."""


def is_template(text: str) -> bool:
    """Whether a text may have statements of a template; a cheap check."""
    return any(opener in text for opener in _CLOSERS)


def rendered(source: Excerpt, *, is_last: bool = False) -> Excerpt:
    """The text without statements and comments, and with the first branch of each condition, or its last."""
    text = source.text
    cuts = sorted(
        [_whole_line(text, item) for item in _statements(text)] + list(_other_branches(text, is_last=is_last))
    )
    if not cuts:
        return source
    kept, done = [], 0
    for start, end in cuts:
        if start > done:
            kept.append((done, start))
        done = max(done, end)
    return source.joined([*kept, (done, len(text))])


def has_branches(text: str) -> bool:
    """Whether a condition has more than one branch."""
    return is_template(text) and any(True for _ in _other_branches(text, is_last=False))


def _statements(text: str) -> Iterator[_Statement]:
    opener, start = "", 0
    for match in _SIGN.finditer(text):
        sign = match[0]
        if opener and sign == _CLOSERS[opener] and match.end() - start <= _MAX_STATEMENT:
            word = _keyword(opener, text[start + 2 : match.start()])
            if word is not None:
                yield _Statement(start, match.end(), word)
            opener = ""
        elif sign in _CLOSERS and (not opener or match.start() - start > _MAX_STATEMENT):
            opener, start = sign, match.start()


def _keyword(opener: str, inside: str) -> str | None:
    """Keyword of a statement, empty for a comment; None for an expression."""
    if opener == "{#":
        return ""
    if opener == "{{":
        match = _GO.match(inside)
        return (match[1] or "") if match else None
    if opener == "<%" and re.match(r"-?=|#", inside):
        return "" if inside[:1] == "#" else None
    match = _WORD.match(inside)
    word = match[1] if match else ""
    if opener == "<%" and word not in _OPENS | _TURNS and (block := _BLOCK.match(inside)):
        return block[2] or ("end" if block[1] else "for")
    if opener == "%{":
        return word if word in _TERRAFORM else None
    return word if opener == "<%" or word.startswith("end") or word in _OPENS | _TURNS | _KEYWORDS else None


def _other_branches(text: str, *, is_last: bool) -> Iterator[tuple[int, int]]:
    """Text of the branches that are not taken."""
    open_conditions: list[list[_Statement]] = []
    for item in _statements(text):
        if item.word in _OPENS:
            open_conditions.append([item])
        elif item.word in _TURNS and open_conditions:
            open_conditions[-1].append(item)
        elif item.word.startswith("end") and open_conditions and item.word[3:] in {"", open_conditions[-1][0].word}:
            turns = open_conditions.pop()
            if len(turns) > 1:
                first, last = (turns[0], turns[-1]) if is_last else (turns[1], item)
                yield _whole_line(text, first)[0], _whole_line(text, last)[1]


def _whole_line(text: str, item: _Statement) -> tuple[int, int]:
    """Range of a statement, with its line if nothing else is on it."""
    before, after = max(item.start - _MAX_LINE, 0), item.end + _MAX_LINE
    begin = text.rfind("\n", before, item.start) + 1
    end = text.find("\n", item.end, after) + 1
    begin = begin or before
    end = end or min(after, len(text))
    if (before and begin == before) or end == after:  # a very long line
        return item.start, item.end
    is_alone = not text[begin : item.start].strip() and not text[item.end : end].strip()
    return (begin, end) if is_alone else (item.start, item.end)
