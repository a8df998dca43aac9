"""YAML nodes with the position in the file of each character of each scalar.

Nothing is constructed: a scalar is text, whatever its tag. Aliases refer to the node itself, so a
few lines may describe an infinite tree: callers that traverse it must count (`walk` does). Invalid
YAML, or a text too large or too deep to read in reasonable time, raises `YamlError` and nothing
else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.arguments.words import HOLE
from vllm_runbooks.reading.documents import escapes
from vllm_runbooks.reading.documents.placeholders import END

_MAX_LENGTH = 200_000  # characters of a document: the parser reads some 70,000 a second
_MAX_EVENTS = 40_000
_MAX_DEPTH = 60
_MAX_MERGES = 20
MAX_VISITED = 20_000
"""Nodes that a walk visits, aliases each time anew."""
_TEMPLATE_LINE = re.compile(r"^[ \t]*(?:\{\{[^\n]{0,2000}\}\}|\{%[^\n]{0,2000}%\})[ \t]*$", re.MULTILINE)
_BLANK_BLOCK = re.compile(r"(?<=[|>\-+\d]\n)(?:[ \t]++\n)++")
"""Blank lines at the beginning of a block scalar, which YAML allows only up to its indentation."""
_TEMPLATE = re.compile(r"\{\{[^{}\n]{0,500}\}\}|<%=[^%\n]{0,500}%>")
_STATEMENT = re.compile(
    r"^[ \t]{0,200}(?:-[ \t]{1,8})?"
    r"(?:\{\{-|\{%|<%|\{\{[ \t]{0,8}(?:if|else|end|range|with|include|toYaml|template)\b)",
    re.MULTILINE,
)
"""A line that begins with a statement of a template, which may render to any number of lines."""
_QUIET = str.maketrans({'"': "\u2033", "'": "\u2032", "#": "\u266f", "\\": "\u2216"})
"""Signs that would mean something to YAML in the middle of an expression."""
_FOLDED = r"[ \t]*+(?P<breaks>[\r\n][ \t\r\n]*+)|[ \t]++|"
_FLOW = {
    "plain": re.compile(_FOLDED + r"[^ \t\r\n]++"),
    "single": re.compile(_FOLDED + r"(?P<quote>'')|[^ \t\r\n']++|'"),
    "double": re.compile(
        _FOLDED + r"(?P<cut>\\[\r\n][ \t\r\n]*+)|\\(?P<code>x.{2}|u.{4}|U.{8}|.)|[^ \t\r\n\\]++|\\", re.DOTALL
    ),
}
_LINE_ENDS = re.compile(r"\n*")
_BREAK = re.compile(r"\r\n?|\n")
_ESCAPES = {**escapes.SIMPLE, **dict(zip("0eN_LP", "\0\x1b\x85\xa0\u2028\u2029", strict=True))}


class YamlError(Exception):
    """The text is invalid YAML; `at` is the offset of the error."""

    def __init__(self, says: str, at: int) -> None:
        super().__init__(says)
        self.at = at


@dataclass(frozen=True, eq=False)
class Scalar:
    """A scalar: its value with the offset of each character, and its range, quotes included."""

    text: Excerpt
    start: int
    end: int
    style: str
    """"plain", "single", "double", "literal" or "folded"."""

    @property
    def value(self) -> str:
        """The value as text."""
        return self.text.text

    @property
    def has_template(self) -> bool:
        """Whether a template's expression (`{{ … }}`) is in it, so that the value is unknown."""
        return HOLE in self.value


@dataclass(frozen=True, eq=False)
class Sequence:
    """A sequence; `is_flow`: written in brackets."""

    items: list[Node]
    start: int
    end: int
    is_flow: bool


@dataclass(frozen=True, eq=False)
class Mapping:
    """A mapping, its pairs in order; keys may repeat."""

    pairs: list[tuple[Node, Node]]
    start: int
    end: int
    is_flow: bool

    def get(self, key: str) -> Node | None:
        """The value of a key, its own before one that is merged in (`<<`)."""
        for mapping in _merged(self, [_MAX_MERGES]):
            for name, value in reversed(mapping.pairs):
                if isinstance(name, Scalar) and name.value == key:
                    return value
        return None

    def items(self) -> list[tuple[Scalar, Node]]:
        """Pairs whose key is a scalar, merged ones last.

        For equal keys the last of the mapping itself.
        """
        pairs: dict[str, tuple[Scalar, Node]] = {}
        for mapping in _merged(self, [_MAX_MERGES]):
            last = {key.value: (key, value) for key, value in mapping.pairs if isinstance(key, Scalar)}
            pairs |= {key: pair for key, pair in last.items() if key not in pairs and key != "<<"}
        return list(pairs.values())

    def repeated(self) -> list[Scalar]:
        """Duplicate keys; those that a template fills in may differ."""
        keys = [key for key, _ in self.pairs if isinstance(key, Scalar) and not key.has_template]
        first = {key.value: key for key in reversed(keys)}
        return [key for key in keys if first[key.value] is not key]


Node = Scalar | Sequence | Mapping


def documents(source: Excerpt) -> Iterator[Excerpt]:
    """Documents of a stream: the text between lines that begin with `---`."""
    begin = 0
    for match in re.finditer(r"^(?:---(?=\s|\Z)|\.\.\.[ \t]*$)", source.text, re.MULTILINE):
        if source.text[begin : match.start()].strip():
            yield source.part(begin, match.start())
        begin = match.end()
    if source.text[begin:].strip():
        yield source.part(begin, len(source.text))


def read(source: Excerpt, *, is_template: bool = True) -> Node | None:
    """Root of one document, None if there are only comments. Raises YamlError as `roots` does."""
    return next(iter(roots(source, is_template=is_template)), None)


def roots(source: Excerpt, *, is_template: bool = True) -> list[Node]:
    """The root of each document of a stream. Raises YamlError if the text is no YAML or more than can be read.

    With `is_template`, `{{ … }}` is an expression rather than YAML.
    """
    if len(source.text) > _MAX_LENGTH:
        raise YamlError(f"longer than {_MAX_LENGTH} characters", source.at[0])
    import warnings

    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    text = source.text
    if is_template:
        text = _TEMPLATE_LINE.sub(lambda match: " " * len(match[0]), text)
        if text != source.text:
            text = _BLANK_BLOCK.sub(lambda match: "\n" * len(match[0]), text)
        text = _TEMPLATE.sub(
            lambda match: f"{HOLE * 2}{match[0][2:-2].translate(_QUIET)}{END * 2}".replace(": ", ":\xa0"), text
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _composed(source, text, YAML(typ="safe", pure=True).parse(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = min(mark.index, len(text)) if mark else 0
        raise YamlError(str(error.problem or error.context or "no YAML")[:200], source.at[at]) from None
    except YAMLError as error:
        at = min(getattr(error, "position", 0) or 0, len(text))
        raise YamlError(str(error).split("\n")[0][:200] or "no YAML", source.at[at]) from None
    except (ValueError, TypeError, AttributeError, AssertionError, LookupError, RecursionError, OverflowError):
        # Other exceptions of the YAML library on damaged input.
        raise YamlError("no YAML", source.at[0]) from None


def is_near_template(source: Excerpt, at: int) -> bool:
    """Whether only the rendered text can be checked: a template has statements, or a mark is near an offset."""
    if _STATEMENT.search(source.text):
        return True
    line = source.text.count("\n", 0, bisect_left(source.at, at))
    near = source.text.split("\n")[max(line - 1, 0) : line + 2]
    return any("{{" in text or "{%" in text for text in near)


def at(node: Node | None, *path: str) -> Node | None:
    """The node at a path of keys; None if there is none."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def items(node: Node | None) -> list[Node]:
    """Items of a sequence; none of anything else."""
    return node.items if isinstance(node, Sequence) else []


def pairs(node: Node | None) -> list[tuple[Scalar, Node]]:
    """Pairs of a mapping; none of anything else."""
    return node.items() if isinstance(node, Mapping) else []


def scalars(node: Node | None) -> list[Scalar]:
    """A scalar, or those of a sequence."""
    if isinstance(node, Scalar):
        return [node] if node.value not in {"", "~", "null"} else []
    return [item for item in items(node) if isinstance(item, Scalar)]


def walk(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every node with its path of keys, from the outside in.

    Limited, because aliases may repeat.
    """
    waiting: list[tuple[tuple[str, ...], Node]] = [((), root)]
    visited = 0
    while waiting and visited < MAX_VISITED:
        path, node = waiting.pop()
        visited += 1
        yield path, node
        if len(path) >= _MAX_DEPTH:
            continue
        if isinstance(node, Mapping):
            waiting += [((*path, key.value), value) for key, value in reversed(node.items()[:MAX_VISITED])]
        elif isinstance(node, Sequence):
            waiting += [((*path, "-"), item) for item in reversed(node.items[:MAX_VISITED])]


def _merged(mapping: Mapping, left: list[int]) -> Iterator[Mapping]:
    """A mapping, then those merged into it; `left` is the remaining budget."""
    if left[0] <= 0:
        return
    left[0] -= 1
    yield mapping
    for key, value in mapping.pairs:
        if isinstance(key, Scalar) and key.value == "<<" and key.style == "plain":
            for other in value.items if isinstance(value, Sequence) else [value]:
                if isinstance(other, Mapping):
                    yield from _merged(other, left)


def _composed(source: Excerpt, text: str, events: Iterator[Any]) -> list[Node]:
    roots: list[Node] = []
    anchors: dict[str, Node] = {}
    levels: list[tuple[Sequence | Mapping, list[Node]]] = []
    """Open collections, each with its contents so far, keys and values in turn."""
    for count, event in enumerate(events):
        kind = type(event).__name__
        start = min(event.start_mark.index, len(text))
        if count > _MAX_EVENTS or len(levels) > _MAX_DEPTH:
            raise YamlError("too large or too deep", source.at[start])
        if kind in {"SequenceEndEvent", "MappingEndEvent"}:
            closed, children = levels.pop()
            object.__setattr__(closed, "end", source.at[min(event.end_mark.index, len(text))])
            if isinstance(closed, Sequence):
                closed.items.extend(children)
            else:
                closed.pairs.extend(zip(children[::2], children[1::2], strict=True))
            continue
        siblings = levels[-1][1] if levels else roots
        if kind == "AliasEvent":
            if event.anchor not in anchors:
                raise YamlError(f"unknown alias {event.anchor}", source.at[start])
            siblings.append(anchors[event.anchor])
            continue
        node: Node
        if kind == "ScalarEvent":
            node = _scalar(source, text, event)
        elif kind in {"SequenceStartEvent", "MappingStartEvent"}:
            made = Sequence if kind == "SequenceStartEvent" else Mapping
            node = made([], source.at[start], source.at[start], bool(event.flow_style))
            levels.append((node, []))
        else:
            continue
        if event.anchor:
            anchors[event.anchor] = node
        siblings.append(node)
    return roots


def _scalar(source: Excerpt, text: str, event: Any) -> Scalar:
    start, end = event.start_mark.index, min(event.end_mark.index, len(text))
    mark = text[start] if start < len(text) and end > start else ""
    style = {"'": "single", '"': "double", "|": "literal", ">": "folded"}.get(event.style or "", "plain")
    while style == "plain" and end > start and text[end - 1] in " \t\r\n":
        end -= 1  # the mark of a plain scalar is sometimes after the line's end
    value = event.value
    if style in {"literal", "folded"} and mark in "|>":
        characters = _block(text, start, end, value)
    else:
        inset = style in {"single", "double"}
        characters = _flow(text, start + inset, end - inset, style)
    if "".join(character for character, _ in characters) == value:
        at = [source.at[place] for _, place in characters]
    else:  # a rare form whose character offsets are unknown: use that of the scalar
        at = [source.at[start]] * len(value)
    return Scalar(Excerpt(value, [*at, source.at[end]]), source.at[start], source.at[end], style)


def _flow(text: str, start: int, end: int, style: str) -> list[tuple[str, int]]:
    """Characters of a plain or quoted scalar with their places: line ends become blanks, empty lines line ends."""
    characters: list[tuple[str, int]] = []
    for match in _FLOW.get(style, _FLOW["plain"]).finditer(text, start, end):
        groups = match.groupdict()
        made, place = match[0], match.start()
        if groups["breaks"]:
            count = len(_BREAK.findall(match["breaks"]))
            made, place = " " if count == 1 else "\n" * (count - 1), match.start("breaks")
        elif groups.get("cut") or groups.get("quote"):
            made = "" if groups.get("cut") else "'"
        elif code := groups.get("code"):
            try:
                made = chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
            except (ValueError, OverflowError):
                made = code[0]
        else:
            characters += zip(made, range(place, match.end()), strict=True)
            continue
        characters += [(character, place) for character in made]
    return characters


def _block(text: str, start: int, end: int, value: str) -> list[tuple[str, int]]:
    """Characters of a literal or folded scalar with their places: its lines are looked for in the value, in order."""
    place = text.find("\n", start, end) + 1
    body = value.lstrip("\n")
    leading = len(body) - len(body.lstrip(" "))
    size = len(value.rstrip("\n"))
    indent = -1
    characters: list[tuple[str, int]] = []
    breaks: list[int] = []
    """Line ends since the last line with text."""
    while 0 < place < end:
        stop = text.find("\n", place, end)
        stop = end if stop < 0 else stop
        line = text[place : stop - (text[stop - 1] == "\r")]
        if indent < 0 and line.strip(" "):
            indent = len(line) - len(line.lstrip(" ")) - leading
        kept = line[indent:] if indent >= 0 else ""
        if kept:
            done = len(characters)
            if done >= size:
                break  # a comment after the scalar
            ends = _LINE_ENDS.match(value, done)
            between = ends[0] if ends else ""
            if not between and breaks and kept[0] not in " \t":
                between, breaks = value[done : done + 1], breaks[:1]
            characters += zip(between, breaks[len(breaks) - len(between) :], strict=False)
            characters += zip(kept, range(place + indent, stop), strict=False)
            breaks = []
        if stop < end:
            breaks.append(stop)
        place = stop + 1
    return [*characters, *zip(value[len(characters) :], breaks, strict=False)]
