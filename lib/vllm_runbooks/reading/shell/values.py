"""Types of the shell reader: words, assignments, invocations, and values in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os.path import commonprefix
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.shell import syntax


@dataclass(frozen=True)
class Word:
    """An argument as received by a program. `value` is None if unknown, with the reason `why`."""

    value: str | None
    start: int
    end: int
    raw: str
    why: str = ""
    at: Sequence[int] | None = None
    """Offset in the file of each character of the value; None if some are not in the file."""
    expands: frozenset[str] = frozenset()
    """Unquoted expansions: "glob", "brace", "tilde", "parameter" and "command"."""

    @property
    def excerpt(self) -> Excerpt | None:
        """The value with its offsets in the file, if it has them."""
        if self.value is None or self.at is None:
            return None
        return Excerpt(self.value, [*self.at, self.at[-1] + 1 if self.at else self.end])


@dataclass(frozen=True)
class Assignment:
    """`NAME=value`, or `export NAME` of an earlier value."""

    name: str
    value: Word
    start: int
    end: int
    exported: bool


@dataclass(frozen=True)
class Invocation:
    """A command that bash runs, or would run, with its words after expansion, the program first."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    environment: Mapping[str, str | None]
    """Exported variables of the script, with the assignments before the command; None for an
    unknown value."""
    start: int
    end: int
    is_background: bool = False
    is_waited: bool = False
    """Whether the script later waits for the background process, or uses its process id or a
    trap."""
    is_conditional: bool = False
    """Whether the command only runs under an unknown condition."""
    is_reached: bool = True
    """Whether bash reaches it if nothing is set from outside and programs succeed."""
    is_nested: bool = False
    round: tuple[tuple[str, str], ...] = ()
    """The variables of the loops around it, in this round."""
    documents: tuple[Excerpt, ...] = ()
    """Its here-documents, as written."""


@dataclass
class ScriptRun:
    """Result of running a script."""

    invocations: list[Invocation] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    too_much: tuple[str, int] | None = None


class ValuePiece(NamedTuple):
    """Part of a value: text, offsets, and the reason if unknown."""

    text: str | None
    at: Sequence[int] | None = None
    why: str = ""
    outside: bool = False
    quoted: bool = False


Value = tuple[ValuePiece, ...]


@dataclass(frozen=True)
class Variable:
    value: Value | None = None
    elements: dict[int | str, Value] | None = None
    is_map: bool = False
    is_exported: bool = False
    export_doubt: str = ""
    """The reason why it is unknown whether it is exported; empty if known."""
    is_integer: bool = False
    is_readonly: bool = False
    case: str = ""
    target: str = ""
    """Variable to which a reference, `declare -n`, refers."""
    owner: object = None
    """State that owns the elements: until it is copied, they may be changed in place."""

    @property
    def first_key(self) -> int | str:
        """Key of the element to which the plain name refers."""
        return "0" if self.is_map else 0

    @property
    def keys(self) -> list[int | str]:
        """Keys of the elements, those of a list in order."""
        keys = list(self.elements or ())
        return keys if self.is_map else sorted(keys, key=lambda key: (isinstance(key, str), key))

    @property
    def listed(self) -> Mapping[int | str, Value]:
        """The elements; a value that is no list is one."""
        if self.elements is None:
            return {0: self.value} if self.value else {}
        return self.elements


@dataclass
class State:
    """Everything that a subshell has a copy of."""

    variables: dict[str, Variable] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)
    functions: dict[str, syntax.Command] = field(default_factory=dict)
    name: Value = ()
    positional: list[Value] | None = None
    options: frozenset[str] = frozenset()
    sourced: bool = False
    environment: Mapping[str, str | None] | None = None
    ifs: str | None = " \t\n"
    owner: object = field(default_factory=object)

    def copy(self) -> State:
        self.owner = object()
        return replace(
            self, variables=dict(self.variables), unset=set(self.unset), functions=dict(self.functions),
            positional=None if self.positional is None else list(self.positional),
        )  # fmt: skip


def plain(value: Value) -> str | None:
    """The text of a value; None if a part of it is unknown."""
    texts = [piece.text for piece in value]
    return None if None in texts else "".join(text for text in texts if text is not None)


def is_outside(value: Iterable[ValuePiece]) -> bool:
    return any(piece.outside for piece in value)


def reason(value: Iterable[ValuePiece]) -> str:
    return next((piece.why for piece in value if piece.why), "")


def doubt_of(value: Iterable[ValuePiece]) -> Value:
    """An empty value with the doubts of another one, for a part cut out of it."""
    why = reason(value)
    return (ValuePiece("", None, why, outside=True),) if why else ()


def unknowable(why: str) -> Value:
    return (ValuePiece(None, None, why),)


def several(why: str) -> Value:
    """An element of a list that represents an unknown number of unknown elements."""
    return (*unknowable(why), ValuePiece("", None, "\0many"))


def unset_value(name: str) -> Value:
    """The value of a variable that nothing sets."""
    return (ValuePiece("", None, f"unset variable {name}", True),)


def text_value(text: str, *, outside: bool = False) -> Value:
    return (ValuePiece(text, None, "", outside),) if text or outside else ()


def cut_value(value: Value, start: int, end: int) -> Value:
    """The characters of a known value from one index to another."""
    pieces, place = [], 0
    for piece in value:
        text = piece.text or ""
        begin, stop = max(start - place, 0), min(end - place, len(text))
        if begin < stop:
            pieces.append(
                piece._replace(text=text[begin:stop], at=piece.at[begin:stop] if piece.at is not None else None)
            )
        place += len(text)
    return tuple(pieces)


def without_start(value: Iterable[ValuePiece], size: int) -> Value:
    """A value without its first `size` known characters."""
    pieces = []
    for piece in value:
        cut = min(size, len(piece.text or ""))
        size -= cut
        if piece.text is None or len(piece.text) > cut or (piece.why and not size):
            at = piece.at[cut:] if piece.at is not None else None
            pieces.append(piece._replace(text=None if piece.text is None else piece.text[cut:], at=at))
    return tuple(pieces)


class Input:
    """Input of a command: a value from its beginning on; None if unknown."""

    def __init__(self, value: Value | None) -> None:
        self.why = "input" if value is None else reason(value)
        self._value = value or ()
        self._text = None if value is None else plain(value)
        self._mark = doubt_of(self._value)
        self.place = 0

    def take(self, delimiter: str, most: int | None = None) -> tuple[Value | None, bool]:
        """Text before the next delimiter or of at most `most` characters.

        Also returns whether the delimiter or the number was reached.
        """
        if self._text is None:
            return None, False
        start, end, size = self.place, self._text.find(delimiter, self.place), len(delimiter)
        if most is not None and (end < 0 or end > start + most) and len(self._text) >= start + most:
            end, size = start + most, 0
        self.place = end + size if end >= 0 else len(self._text)
        return (*cut_value(self._value, start, end if end >= 0 else len(self._text)), *self._mark), end >= 0

    def rest(self) -> Value | None:
        """The rest; None if unknown."""
        if self._text is None:
            return None
        start, self.place = self.place, len(self._text)
        return (*cut_value(self._value, start, self.place), *self._mark)


class Field:
    """One argument in the making."""

    __slots__ = ("is_many", "is_quoted", "pieces")

    def __init__(self) -> None:
        self.pieces: list[ValuePiece] = []
        self.is_quoted = False
        self.is_many = False

    @property
    def is_absent(self) -> bool:
        """Whether it vanishes if nothing is set from outside."""
        return not self.is_quoted and all([piece.text == "" for piece in self.pieces])


@lru_cache(maxsize=64)
def _separators(ifs: str) -> re.Pattern[str] | None:
    """Groups of blanks, and other separators; None if nothing is split."""
    blanks = "".join(sign for sign in ifs if sign in " \t\n")
    others = "".join(sign for sign in ifs if sign not in " \t\n")
    tokens = [f"(?P<blank>[{re.escape(blanks)}]+)"] if blanks else []
    tokens += [f"(?P<other>[{re.escape(others)}])"] if others else []
    return re.compile("|".join(tokens)) if tokens else None


class Splitter:
    """Joins pieces to fields and splits unquoted ones."""

    def __init__(self, ifs: str | None, why: str = "", expands: set[str] | None = None, *, splits: bool = True) -> None:
        self.ifs, self._why, self.splits = ifs, why, splits
        self.expands = set() if expands is None else expands
        self.fields: list[Field] = []
        self._current: Field | None = None
        self._after_blank = False
        self._tokens = _separators(ifs or "")

    def _open(self) -> Field:
        if self._current is None:
            self._current = Field()
        self._after_blank = False
        return self._current

    def literal(self, piece: ValuePiece, *, many: bool = False) -> None:
        """A piece that is not split."""
        current = self._open()
        current.pieces.append(piece)
        current.is_quoted |= piece.quoted
        current.is_many |= many

    def expansion(self, piece: ValuePiece) -> None:
        """A piece that is split."""
        if piece.text is None or self.ifs is None:
            self.literal(piece if piece.text is None else ValuePiece(None, None, self._why), many=True)
            return
        if not piece.text:
            if piece.why or piece.outside:
                self._open().pieces.append(piece)
            return
        if self._tokens is None:
            self.literal(piece)
            return
        place = 0
        for match in self._tokens.finditer(piece.text):
            self._some(piece, place, match.start())
            place = match.end()
            if match.lastgroup == "blank":
                if self._current is not None and not self._empty():
                    self.close()
                    self._after_blank = True
            else:
                self._separate()
        self._some(piece, place, len(piece.text))

    def _empty(self) -> bool:
        current = self._current
        return current is None or (current.is_absent and not any(piece.why for piece in current.pieces))

    def _some(self, piece: ValuePiece, start: int, end: int) -> None:
        if start < end and piece.text is not None:
            at = piece.at[start:end] if piece.at is not None else None
            self._open().pieces.append(piece._replace(text=piece.text[start:end], at=at))

    def close(self) -> None:
        """The end of an argument, empty or not."""
        if self._current is not None:
            self.fields.append(self._current)
        self._current = None

    def cut(self) -> None:
        """The end of one element of a list: as if the first sign of IFS stood there."""
        if self.ifs and self.ifs[0] not in " \t\n":
            self._separate()
        elif self._current is not None and not self._empty():
            self.close()
            self._after_blank = True

    def _separate(self) -> None:
        """A separator that is no blank ends an argument, an empty one as well."""
        if self._after_blank:
            self._after_blank = False
        else:
            self._open()
            self.close()

    def all_fields(self) -> list[Field]:
        """The fields, empty ones as well."""
        return [*self.fields, self._current] if self._current else self.fields

    def finished(self) -> list[Field]:
        """The fields without unquoted empty ones, unless an outside variable may fill them."""
        if self._current is not None and not self._empty():
            self.close()
        return self.fields


def assignment_word(node: syntax.AssignmentNode) -> syntax.WordNode:
    """An assignment as an ordinary word."""
    size = len(node.name) + 1 + node.is_appended
    name = syntax.Literal(f"{node.name}{'+' * node.is_appended}=", range(node.start, node.start + size), quoted=False)
    return syntax.WordNode((name, *node.value.parts), node.start, node.end, node.value.raw)


def merged(variable: Variable, other: Variable, why: str) -> Variable:
    """Common part of two states of a variable."""
    common = _common(variable, other, why)
    if variable.is_exported == other.is_exported and variable.export_doubt == other.export_doubt:
        return common
    return replace(common, is_exported=True, export_doubt=why)


def _common(variable: Variable, other: Variable, why: str) -> Variable:
    """Common prefix of two values of a variable."""
    if variable == other:
        return variable
    if variable.elements is not None and other.elements is not None and not variable.is_map:
        common: dict[int | str, Value] = {}
        for key in sorted(key for key in variable.elements if isinstance(key, int)):
            if key not in other.elements or plain(variable.elements[key]) != plain(other.elements[key]):
                break
            common[key] = variable.elements[key]
        if len(common) == len(variable.elements) == len(other.elements):
            return variable
        common[next_index(common)] = several(why)
        return replace(variable, elements=common)
    if variable.elements is None and other.elements is None:
        left, right = variable.value or (), other.value or ()
        texts = plain(left), plain(right)
        if texts[0] is not None and texts[0] == texts[1] and bool(reason(left)) == bool(reason(right)):
            return variable
        if texts[0] is None or texts[1] is None or is_unset(left) or is_unset(right):
            return replace(variable, value=unknowable(reason(left) or reason(right)))
        size = len(commonprefix([texts[0], texts[1]]))  # noqa: RUF071 - just that
        rests = [rest for rest in (texts[0][size:], texts[1][size:]) if rest]
        glue = (ValuePiece(" "),) if size and all(rest[0].isspace() for rest in rests) else ()
        return replace(variable, value=(*cut_value(left, 0, size), *glue, *unknowable(why)))
    return replace(variable, value=None, elements={0: several(why)})


def is_unset(value: Value) -> bool:
    """Whether this is a variable that nothing sets."""
    return bool(value) and all(piece.text == "" and piece.why.startswith("unset variable") for piece in value)


def is_several(value: Value) -> bool:
    """Whether this element represents an unknown number of elements."""
    return bool(value) and value[-1].why == "\0many"


def supposed(elements: Sequence[Value]) -> list[Value] | None:
    """Elements of a list if nothing is set from outside, marked as such; None if any is unknown."""
    doubts = [element for element in elements if is_several(element)]
    if any(plain(doubt) != "" for doubt in doubts):
        return None
    mark = [ValuePiece("", None, reason(doubts[0]), outside=True)] if doubts else []
    return [(*element, *mark) for element in elements if not is_several(element)]


def counted(elements: Sequence[Value], doubt: Value) -> Value:
    """Number of elements of a list whose length is uncertain."""
    certain = supposed(elements)
    return unknowable(reason(doubt)) if certain is None else (ValuePiece(str(len(certain)), None, reason(doubt), True),)


def next_index(elements: Iterable[int | str]) -> int:
    """Index after the last element."""
    return max((key for key in elements if isinstance(key, int)), default=-1) + 1


def list_sign(subscript: syntax.Parts | None) -> str:
    if subscript is not None and len(subscript) == 1 and isinstance(subscript[0], syntax.Literal):
        return subscript[0].text if subscript[0].text in ("@", "*") else ""
    return ""


def cased(value: Value, case: str) -> Value:
    return tuple(
        piece._replace(text=piece.text.lower() if case == "l" else piece.text.upper()) if piece.text else piece
        for piece in value
    )


def glued(pieces: Sequence[ValuePiece]) -> Value:
    """The same value with adjacent certain pieces joined."""
    glued: list[ValuePiece] = []
    run: list[ValuePiece] = []

    def flush() -> None:
        if len(run) == 1:
            glued.append(run[0])
        elif run:
            at = None
            if run[0].at is not None:
                at = [offset for piece in run for offset in piece.at or ()]
            glued.append(ValuePiece("".join(piece.text or "" for piece in run), at))
        run.clear()

    for piece in pieces:
        if piece.text is None or piece.why or piece.outside:
            flush()
            glued.append(piece)
        elif piece.text:
            if run and (run[0].at is None) != (piece.at is None):
                flush()
            run.append(piece)
    flush()
    return tuple(glued)


def as_element(item: Field) -> Value:
    """An argument as an element of a list, marked if it may be none or several."""
    value = tuple(piece._replace(quoted=False) for piece in item.pieces)
    return (*value, ValuePiece("", None, "\0many")) if item.is_many or (item.is_absent and item.pieces) else value


def as_field(value: Value) -> Field:
    made = Field()
    made.pieces = list(value)
    made.is_quoted = True
    return made


_GLOB = re.compile(r"[*?]|\[.*\]")


def has_glob(item: Field) -> bool:
    return any(not piece.quoted and _GLOB.search((piece.text or "")[:4096]) for piece in item.pieces)


def places_of(value: Iterable[ValuePiece]) -> Sequence[int] | None:
    pieces = [piece for piece in value if piece.text]
    if any(piece.at is None for piece in pieces):
        return None
    if len(pieces) == 1:
        return pieces[0].at
    return [offset for piece in pieces for offset in piece.at or ()]


def as_word(item: Field, node: syntax.WordNode, expands: frozenset[str]) -> Word:
    why = reason(piece for piece in item.pieces if piece.why != "\0many")
    if item.is_many or item.is_absent:
        expands = expands | {"parameter"} if "command" not in expands else expands
    if why:
        return Word(None, node.start, node.end, node.raw, why, None, expands)
    return Word(plain(tuple(item.pieces)), node.start, node.end, node.raw, "", places_of(item.pieces), expands)


def as_whole_word(value: Value, node: syntax.WordNode) -> Word:
    why = reason(value)
    if why:
        return Word(None, node.start, node.end, node.raw, why)
    return Word(plain(value), node.start, node.end, node.raw, "", places_of(value))
