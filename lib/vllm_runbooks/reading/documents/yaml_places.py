"""YAML as nodes that know where in the file each character of each scalar stands.

Nothing is constructed: a scalar is text, whatever its tag. Aliases lead to the node itself, so a few lines may describe
a tree without end: who walks it counts (`walk` does). A text that is no YAML, or too large or too deep to read in
reasonable time, raises `YamlError` and nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from vllm_runbooks.core.excerpt import Excerpt

_MAX_LENGTH = 200_000
"""Characters of one document that are read: the reader takes some 70,000 a second."""
_MAX_EVENTS = 40_000
_MAX_DEPTH = 60
_MAX_MERGES = 20
MAX_VISITED = 20_000
"""Nodes that a walk visits, aliases each time anew."""
_TEMPLATE_LINE = re.compile(r"^[ \t]*(?:\{\{[^\n]{0,2000}\}\}|\{%[^\n]{0,2000}%\})[ \t]*$", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{[^{}\n]{0,500}\}\}")
_OPEN, _CLOSE = "\u2983", "\u2984"
"""Stand for the braces of a template's expression, which YAML would read as a mapping."""
EXPRESSION = re.compile(f"{_OPEN * 2}[^{_OPEN}{_CLOSE}]*{_CLOSE * 2}")
"""A template's expression in the value of a scalar."""
_QUIET = str.maketrans({'"': "\u2033", "'": "\u2032", "#": "\u266f", "\\": "\u2216"})
"""Signs that would mean something to YAML in the middle of an expression."""
_SIMPLE_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}
_LEAD = re.compile(r"(?: |-(?= ))*")
"""What stands in front of a key: the indentation, and dashes of the lists in which it is the first of an item."""
_BLANKS = re.compile(r"[ \t\r\n]*")
_BREAK = re.compile(r"\r\n?|\n")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class YamlError(Exception):
    """The text is no YAML; `at` is the offset where that shows."""

    def __init__(self, says: str, at: int) -> None:
        super().__init__(says)
        self.at = at


@dataclass(frozen=True, eq=False)
class Scalar:
    """A scalar: its value with the place of each character, and where it is written, quotes included."""

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
        """Whether a template's expression (`{{ … }}`) stands in it, so that the value cannot be known."""
        return _OPEN in self.text.text


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
        return _get(self, key, [_MAX_MERGES])

    def items(self) -> list[tuple[Scalar, Node]]:
        """The pairs whose key is a scalar, merged ones last; of those with the same key the last that is its own."""
        found: dict[str, tuple[Scalar, Node]] = {}
        for mapping in _merged(self, [_MAX_MERGES]):
            own = {key.value: (key, value) for key, value in mapping.pairs if isinstance(key, Scalar)}
            found |= {key: pair for key, pair in own.items() if key not in found and key != "<<"}
        return list(found.values())

    def repeated(self) -> list[Scalar]:
        """Keys that stand a second time."""
        seen: set[str] = set()
        again = []
        for key, _ in self.pairs:
            if isinstance(key, Scalar):
                if key.value in seen:
                    again.append(key)
                seen.add(key.value)
        return again


Node = Scalar | Sequence | Mapping


@dataclass
class _Open:
    """A collection whose end has not come yet."""

    node: Sequence | Mapping
    key: list[Node] = field(default_factory=list)


def documents(source: Excerpt) -> Iterator[Excerpt]:
    """The documents of a stream: what stands between lines that begin with `---`."""
    begin = 0
    for match in re.finditer(r"^(?:---(?=\s|\Z)|\.\.\.[ \t]*$)", source.text, re.MULTILINE):
        if source.text[begin : match.start()].strip():
            yield source.part(begin, match.start())
        begin = match.end()
    if source.text[begin:].strip():
        yield source.part(begin, len(source.text))


def read(source: Excerpt) -> Node | None:
    """The root of one document, places being those of the file; None where there is nothing but comments.

    Raises:
        YamlError: The text is no YAML, or more than can be read.
    """
    return next(iter(roots(source)), None)


def roots(source: Excerpt) -> list[Node]:
    """The root of each document of a stream, that of an empty one being an empty scalar; as `read`.

    Raises:
        YamlError: The text is no YAML, or more than can be read.
    """
    if len(source.text) > _MAX_LENGTH:
        raise YamlError(f"longer than {_MAX_LENGTH} characters", source.at[0])
    import warnings

    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    text = _TEMPLATE_LINE.sub(lambda match: " " * len(match[0]), source.text)
    text = _TEMPLATE.sub(
        lambda match: f"{_OPEN * 2}{match[0][2:-2].translate(_QUIET)}{_CLOSE * 2}".replace(": ", ":\xa0"), text
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
        # What the reader raises on damaged input besides its own errors.
        raise YamlError("no YAML", source.at[0]) from None


def is_near_template(source: Excerpt, at: int) -> bool:
    """Whether a template's mark stands about an offset, so that only what the template makes can be judged."""
    line = source.text.count("\n", 0, bisect_left(source.at, at))
    near = source.text.split("\n")[max(line - 1, 0) : line + 2]
    return any("{{" in one or "{%" in one for one in near)


def walk(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every node with the keys that lead to it, from the outside in; at most so many, whatever aliases make of it."""
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
    """A mapping, then those merged into it; `left` says how many more may be looked at."""
    if left[0] <= 0:
        return
    left[0] -= 1
    yield mapping
    for key, value in mapping.pairs:
        if isinstance(key, Scalar) and key.value == "<<" and key.style == "plain":
            for other in value.items if isinstance(value, Sequence) else [value]:
                if isinstance(other, Mapping):
                    yield from _merged(other, left)


def _get(mapping: Mapping, key: str, left: list[int]) -> Node | None:
    for one in _merged(mapping, left):
        for name, value in reversed(one.pairs):
            if isinstance(name, Scalar) and name.value == key:
                return value
    return None


def _composed(source: Excerpt, text: str, events: Iterator[object]) -> list[Node]:
    root: list[Node] = []
    anchors: dict[str, Node] = {}
    open_: list[_Open] = []
    for count, event in enumerate(events):
        kind = type(event).__name__
        if count > _MAX_EVENTS or len(open_) > _MAX_DEPTH:
            raise YamlError("too large or too deep", source.at[min(event.start_mark.index, len(text))])  # type: ignore[attr-defined]
        node: Node
        if kind in {"SequenceEndEvent", "MappingEndEvent"}:
            end = source.at[min(event.end_mark.index, len(text))]  # type: ignore[attr-defined]
            object.__setattr__(open_.pop().node, "end", end)
            continue
        if kind == "AliasEvent":
            if event.anchor not in anchors:  # type: ignore[attr-defined]
                raise YamlError(f"unknown alias {event.anchor}", source.at[event.start_mark.index])  # type: ignore[attr-defined]
            node = anchors[event.anchor]  # type: ignore[attr-defined]
        elif kind == "ScalarEvent":
            node = _scalar(source, text, event)
        elif kind in {"SequenceStartEvent", "MappingStartEvent"}:
            start = source.at[event.start_mark.index]  # type: ignore[attr-defined]
            made = Sequence if kind == "SequenceStartEvent" else Mapping
            node = made([], start, start, bool(event.flow_style))  # type: ignore[attr-defined]
        else:
            continue
        if kind != "AliasEvent" and event.anchor:  # type: ignore[attr-defined]
            anchors[event.anchor] = node  # type: ignore[attr-defined]
        _put(open_[-1] if open_ else None, node, root)
        if kind in {"SequenceStartEvent", "MappingStartEvent"}:
            open_.append(_Open(node))  # type: ignore[arg-type]
    return root


def _put(within: _Open | None, node: Node, root: list[Node]) -> None:
    if within is None:
        root.append(node)
    elif isinstance(within.node, Sequence):
        within.node.items.append(node)
    elif within.key:
        within.node.pairs.append((within.key.pop(), node))
    else:
        within.key.append(node)


def _scalar(source: Excerpt, text: str, event: object) -> Scalar:
    start, end = event.start_mark.index, min(event.end_mark.index, len(text))  # type: ignore[attr-defined]
    mark = text[start] if start < len(text) and end > start else ""
    style = {"'": "single", '"': "double", "|": "literal", ">": "folded"}.get(event.style or "", "plain")  # type: ignore[attr-defined]
    while style == "plain" and end > start and text[end - 1] in " \t\r\n":
        end -= 1  # the mark of a plain scalar stands behind the line's end in some positions
    characters: list[tuple[str, int]]
    if style in {"literal", "folded"} and mark in "|>":
        characters = _block(text, start, end, is_folded=style == "folded")
    elif style == "double":
        characters = _double(text, start + 1, end - 1)
    elif style == "single":
        characters = _folded_lines(text, start + 1, end - 1, is_single=True)
    else:
        characters = _folded_lines(text, start, end)
    value = event.value  # type: ignore[attr-defined]
    if "".join(character for character, _ in characters) == value:
        at = [source.at[place] for _, place in characters]
    else:  # a rare form whose characters this module places otherwise: the scalar as a whole is the place
        at = [source.at[start]] * len(value)
    return Scalar(Excerpt(value, [*at, source.at[end]]), source.at[start], source.at[end], style)


def _folded_lines(text: str, start: int, end: int, *, is_single: bool = False) -> list[tuple[str, int]]:
    """Characters of a plain or single-quoted scalar: line ends become blanks, empty lines line ends, `''` a quote."""
    found: list[tuple[str, int]] = []
    place = start
    while place < end:
        character = text[place]
        if character in "\r\n":
            place = _fold(text, place, end, found)
        elif is_single and character == "'" and text[place + 1 : place + 2] == "'":
            found.append(("'", place))
            place += 2
        else:
            found.append((character, place))
            place += 1
    return found


def _fold(text: str, place: int, end: int, found: list[tuple[str, int]], keep: int = 0) -> int:
    """Fold a line end and the blanks around it; the first `keep` characters stay. Where to go on."""
    while len(found) > keep and found[-1][0] in " \t":
        found.pop()
    match = _BLANKS.match(text, place, end)
    blanks = match[0] if match else ""
    breaks = len(_BREAK.findall(blanks))
    found += [(" ", place)] if breaks == 1 else [("\n", place)] * (breaks - 1)
    return place + len(blanks)


def _double(text: str, start: int, end: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    place, kept = start, 0
    while place < end:
        character = text[place]
        if character in "\r\n":
            place = _fold(text, place, end, found, kept)
        elif character == "\\" and place + 1 < end:
            code = text[place + 1]
            if code in "\r\n":  # an escaped line end: nothing, and the blanks that follow belong to it
                place += 2
                while place < end and text[place] in " \t\r\n":
                    place += 1
                kept = len(found)
                continue
            digits = _HEX_ESCAPES.get(code, 0)
            try:
                made = chr(int(text[place + 2 : place + 2 + digits], 16)) if digits else _SIMPLE_ESCAPES[code]
            except (ValueError, KeyError, OverflowError):
                made = code
            found.append((made, place))
            place += 2 + digits
            kept = len(found)
        else:
            found.append((character, place))
            place += 1
    return found


def _block(text: str, start: int, end: int, *, is_folded: bool) -> list[tuple[str, int]]:
    """Characters of a literal or folded scalar, without the indentation."""
    header_end = text.find("\n", start, end)
    if header_end < 0:
        return []
    header = text[start + 1 : header_end].split("#", maxsplit=1)[0]
    chomp = "-" if "-" in header else "+" if "+" in header else ""
    lines: list[tuple[int, int, int]] = []
    place = header_end + 1
    while place < end:
        stop = text.find("\n", place, end)
        stop = end if stop < 0 else stop
        lines.append((place, stop - (text[stop - 1] == "\r"), stop))
        place = stop + 1
    firsts = [_indentation(text, a, b) for a, b, _ in lines if text[a:b].strip(" ")]
    given = re.search(r"[1-9]", header)
    if given:
        # Counted from the indentation of the collection around it: where its key stands, else the dash of its item.
        written = text[text.rfind("\n", 0, start) + 1 : start]
        lead = _LEAD.match(written)
        outer = lead.end() if lead and lead.end() < len(written) else max(written.rfind("-"), 0)
        indent = min(outer + int(given[0]), *firsts) if firsts else 0
    else:
        indent = firsts[0] if firsts else 0
    found: list[tuple[str, int]] = []
    for a, b, stop in lines:
        if firsts and text[a:b].strip(" ") and _indentation(text, a, b) < indent:
            break  # a comment behind the scalar
        from_ = min(a + indent, b)
        found += [(text[place], place) for place in range(from_, b)]
        if stop < len(text) and stop < end:
            found.append(("\n", stop))
    found = _folded_block(found) if is_folded else found
    while chomp != "+" and found and found[-1][0] == "\n" and (chomp == "-" or (found[-2:-1] and found[-2][0] == "\n")):
        found.pop()
    return [] if chomp != "+" and all(character == "\n" for character, _ in found) else found


def _indentation(text: str, start: int, end: int) -> int:
    place = start
    while place < end and text[place] == " ":
        place += 1
    return place - start


def _folded_block(characters: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Join lines that are neither empty nor indented further; the line ends at the end stay."""
    lines: list[list[tuple[str, int]]] = [[]]
    for pair in characters:
        lines[-1].append(pair)
        if pair[0] == "\n":
            lines.append([])
    if not lines[-1]:
        lines.pop()
    found: list[tuple[str, int]] = []
    waiting: list[tuple[str, int]] = []
    """Line ends since the last line with text."""
    was_indented = False
    for line in lines:
        body = [pair for pair in line if pair[0] != "\n"]
        breaks = [pair for pair in line if pair[0] == "\n"]
        if not body:
            waiting += breaks
            continue
        is_indented = body[0][0] in " \t"
        if not found or was_indented or is_indented:
            found += waiting
        elif len(waiting) == 1:
            found.append((" ", waiting[0][1]))
        else:
            found += waiting[1:]
        found += body
        waiting, was_indented = breaks, is_indented
    return found + waiting
