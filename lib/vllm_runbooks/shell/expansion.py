"""What bash computes with text: patterns, arithmetic, braces and fields. Pure, and linear but where said otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from vllm_runbooks.shell.syntax import Literal, Parameter, Part, Parts

_MOST_BRACKETS = 40
"""Levels of brackets or braces in each other that are followed."""


class TooMuch(Exception):  # noqa: N818 - an answer, not a failure
    """A bound is reached: what is computed would be larger than any real script makes it."""


class Unreadable(Exception):  # noqa: N818 - an answer, not a failure
    """Bash itself would report an error here."""


# Patterns

_STAR = "**"
"""Any run of signs."""


class Pattern:
    """A glob pattern: signs with whether each is quoted. A text is matched in one pass over all places at once."""

    def __init__(self, signs: Iterable[tuple[str, bool]]) -> None:
        listed = list(signs)
        self._tokens: list[str | tuple[bool, str, list[tuple[str, str]]] | None] = []
        index = 0
        while index < len(listed):
            sign, quoted = listed[index]
            index += 1
            if quoted or sign not in "*?[\\":
                self._tokens.append(sign)
            elif sign == "*":
                if not self._tokens or self._tokens[-1] != _STAR:
                    self._tokens.append(_STAR)
            elif sign == "?":
                self._tokens.append(None)
            elif sign == "\\":
                self._tokens.append(listed[index][0] if index < len(listed) else "\\")
                index += 1
            else:
                found = _bracket(listed, index)
                if found:
                    self._tokens.append(found[0])
                    index = found[1]
                else:
                    self._tokens.append("[")
        self.is_literal = all(isinstance(token, str) and token != _STAR for token in self._tokens)
        self.cost = 1 + len(self._tokens) // 32

    @property
    def text(self) -> str:
        """The text that a literal pattern matches."""
        return "".join(token for token in self._tokens if isinstance(token, str))

    def _masks(
        self, tokens: list[str | tuple[bool, str, list[tuple[str, str]]] | None]
    ) -> tuple[int, Callable[[str], int]]:
        stars = sum(1 << i for i, token in enumerate(tokens) if token == _STAR)
        seen: dict[str, int] = {}

        def mask(sign: str) -> int:
            if sign not in seen:
                seen[sign] = sum(1 << i for i, token in enumerate(tokens) if _fits(token, sign))
            return seen[sign]

        return stars, mask

    def prefixes(self, text: str, *, backwards: bool = False) -> list[int]:
        """Lengths of the beginnings (or ends) of a text that match, in order."""
        tokens = self._tokens[::-1] if backwards else self._tokens
        stars, mask = self._masks(tokens)
        goal = 1 << len(tokens)
        state = 1
        state |= (state & stars) << 1
        lengths = [0] if state & goal else []
        for length, sign in enumerate(reversed(text) if backwards else text, 1):
            state = ((state & mask(sign)) << 1) | (state & stars)
            state |= (state & stars) << 1
            if not state:
                break
            if state & goal:
                lengths.append(length)
        return lengths

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        lengths = self.prefixes(text)
        return bool(lengths) and lengths[-1] == len(text)


_CLASSES: dict[str, Callable[[str], bool]] = {
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "alnum": str.isalnum,
    "upper": str.isupper,
    "lower": str.islower,
    "space": str.isspace,
    "blank": lambda sign: sign in " \t",
    "punct": lambda sign: sign.isascii() and sign.isprintable() and not sign.isalnum() and sign != " ",
    "xdigit": lambda sign: sign in "0123456789abcdefABCDEF",
}


def _bracket(
    listed: Sequence[tuple[str, bool]], index: int
) -> tuple[tuple[bool, str, list[tuple[str, str]]], int] | None:
    """A bracket expression that begins after its `[`: negated, signs, ranges; and where it ends."""
    negated = index < len(listed) and listed[index][0] in "!^" and not listed[index][1]
    index += negated
    signs, first = "", True
    ranges: list[tuple[str, str]] = []
    end = min(len(listed), index + 512)
    while index < end:
        sign, quoted = listed[index]
        if sign == "]" and not quoted and not first:
            return (negated, signs, ranges), index + 1
        first = False
        if sign == "[" and not quoted and index + 1 < end and listed[index + 1][0] == ":":
            name = "".join(s for s, _ in listed[index + 2 : index + 9]).partition(":]")
            if name[1] and name[0] in _CLASSES:
                ranges.append(("class", name[0]))
                index += len(name[0]) + 4
                continue
        if sign == "\\" and not quoted and index + 1 < end:
            index += 1
            sign = listed[index][0]
        if index + 2 < end and listed[index + 1] == ("-", False) and listed[index + 2] != ("]", False):
            ranges.append((sign, listed[index + 2][0]))
            index += 3
            continue
        signs += sign
        index += 1
    return None


def _fits(token: str | tuple[bool, str, list[tuple[str, str]]] | None, sign: str) -> bool:
    if token is None:
        return True
    if isinstance(token, str):
        return token == sign
    negated, signs, ranges = token
    inside = sign in signs or any(
        _CLASSES[to](sign) if begin == "class" else begin <= sign <= to for begin, to in ranges
    )
    return inside != negated


# Arithmetic

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+#[0-9A-Za-z@_]+|\d+)|([A-Za-z_]\w*)(\[[^\[\]]{0,200}\])?|"
    r"(\*\*|<<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!&|^~?:(),]))",
    re.ASCII,
)
_NAMES = re.compile(r"\s*[A-Za-z_]")
_BINARY = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("**",),
)  # fmt: skip
_LEVEL = {operator: level for level, operators in enumerate(_BINARY) for operator in operators}
_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@_"


class _Token(NamedTuple):
    kind: str
    text: str
    subscript: str = ""


class Calculator:
    """Evaluates an arithmetic expression; `None` where a value in it cannot be known."""

    def __init__(
        self,
        text: str,
        get: Callable[[str, str], str | None],
        put: Callable[[str, str, int | None], None],
        depth: int = 0,
    ) -> None:
        self._get, self._put, self._depth = get, put, depth
        self._tokens: list[_Token] = []
        self._next = 0
        self._skipping = 0
        place = 0
        text = text.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if not found:
                raise Unreadable
            place = found.end()
            if found[1]:
                self._tokens.append(_Token("number", found[1]))
            elif found[2]:
                self._tokens.append(_Token("name", found[2], (found[3] or "")[1:-1]))
            elif found[4] in ("++", "--") and self._kind_before() != "name" and not _NAMES.match(text, place):
                # `+++N` is `+ ++N`: a doubled sign stands before a name or after one.
                self._tokens.append(_Token("sign", found[4][0]))
                place -= 1
            else:
                self._tokens.append(_Token("sign", found[4]))

    def _kind_before(self) -> str:
        return self._tokens[-1].kind if self._tokens else ""

    def value(self) -> int | None:
        """The value of the whole expression; 0 of an empty one."""
        if not self._tokens:
            return 0
        result = self._comma()
        if self._next < len(self._tokens):
            raise Unreadable
        return result

    def _peek(self) -> str:
        return self._tokens[self._next].text if self._next < len(self._tokens) and self._kind() == "sign" else ""

    def _kind(self) -> str:
        return self._tokens[self._next].kind if self._next < len(self._tokens) else ""

    def _comma(self) -> int | None:
        self._depth += 1
        if self._depth > _MOST_BRACKETS:
            raise TooMuch
        result = self._assignment()
        while self._peek() == ",":
            self._next += 1
            result = self._assignment()
        self._depth -= 1
        return result

    def _assignment(self) -> int | None:
        if self._kind() == "name" and self._next + 1 < len(self._tokens):
            name, sign = self._tokens[self._next], self._tokens[self._next + 1]
            if sign.kind == "sign" and sign.text in _ASSIGN:
                self._next += 2
                self._depth += 1
                if self._depth > _MOST_BRACKETS:
                    raise TooMuch
                old = self._variable(name) if sign.text != "=" else 0
                new = self._assignment()
                self._depth -= 1
                value = new if sign.text == "=" else self._binary(sign.text[:-1], old, new)
                self._set(name, value)
                return value
        return self._ternary()

    def _ternary(self) -> int | None:
        condition = self._operation(0)
        if self._peek() != "?":
            return condition
        self._next += 1
        self._depth += 1
        if self._depth > _MOST_BRACKETS:
            raise TooMuch
        self._skipping += condition != 1 and not condition
        yes = self._comma()
        self._skipping -= condition != 1 and not condition
        if self._peek() != ":":
            raise Unreadable
        self._next += 1
        self._skipping += bool(condition)
        no = self._ternary()
        self._skipping -= bool(condition)
        self._depth -= 1
        return None if condition is None else (yes if condition else no)

    def _operation(self, level: int) -> int | None:
        """Binary operators of a level and above, by climbing."""
        left = self._unary()
        while (operator := self._peek()) in _LEVEL and _LEVEL[operator] >= level:
            self._next += 1
            strength = _LEVEL[operator]
            skips = (operator == "&&" and left == 0) or (operator == "||" and bool(left))
            self._skipping += skips
            self._depth += operator == "**"
            if self._depth > _MOST_BRACKETS:
                raise TooMuch
            right = self._operation(strength + (operator != "**"))
            self._depth -= operator == "**"
            self._skipping -= skips
            left = (operator == "||") + 0 if skips else self._binary(operator, left, right)
        return left

    def _unary(self) -> int | None:
        signs: list[str] = []
        while (sign := self._peek()) in ("+", "-", "!", "~"):
            self._next += 1
            signs.append(sign)
        value = self._primary()
        for sign in reversed(signs):
            if value is not None:
                value = {"+": value, "-": _wrap(-value), "!": int(not value), "~": ~value}[sign]
        return value

    def _primary(self) -> int | None:
        if self._next >= len(self._tokens):
            raise Unreadable
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "number":
            return _number(token.text)
        if token.kind == "name":
            value = self._variable(token)
            if self._peek() in ("++", "--"):
                step = 1 if self._peek() == "++" else -1
                self._next += 1
                self._set(token, None if value is None else _wrap(value + step))
            return value
        if token.text == "(":
            value = self._comma()
            if self._peek() != ")":
                raise Unreadable
            self._next += 1
            return value
        if token.text in ("++", "--") and self._kind() == "name":
            name = self._tokens[self._next]
            self._next += 1
            old = self._variable(name)
            value = None if old is None else _wrap(old + (1 if token.text == "++" else -1))
            self._set(name, value)
            return value
        if token.text in ("++", "--"):
            value = self._primary() if self._kind() == "number" else None
            if value is None:
                raise Unreadable
            return value
        raise Unreadable

    def _variable(self, token: _Token) -> int | None:
        text = "0" if self._skipping else self._get(token.text, token.subscript)
        if text is None:
            return None
        text = text.strip()
        if not text:
            return 0
        if re.fullmatch(r"[-+]?\d{1,18}", text, re.ASCII) and not text.lstrip("+-").startswith("0"):
            return int(text)
        if self._depth > _MOST_BRACKETS - 4:
            raise TooMuch
        return Calculator(text, self._get, self._put, self._depth + 4).value()

    def _set(self, token: _Token, value: int | None) -> None:
        if not self._skipping:
            self._put(token.text, token.subscript, value)

    def _binary(self, operator: str, left: int | None, right: int | None) -> int | None:
        if left is None or right is None:
            return None
        if operator in ("/", "%", "**") and not self._skipping and (right < 0 if operator == "**" else right == 0):
            raise Unreadable
        if operator in ("/", "%"):
            if right == 0:
                return 0
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return _wrap(quotient if operator == "/" else left - quotient * right)
        if operator == "**":
            return _wrap(pow(left, right, 1 << 64)) if right >= 0 else 0
        return _wrap(_OPERATIONS[operator](left, right))


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
}


def _wrap(number: int) -> int:
    """A number as 64 bits hold it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _number(text: str) -> int:
    if len(text) > 80:
        raise Unreadable
    if "#" in text:
        base, _, digits = text.partition("#")
        size = int(base)
        if not 2 <= size <= 64 or not digits:
            raise Unreadable
        number = 0
        for digit in digits:
            value = _DIGITS.find(digit.lower() if size <= 36 else digit)
            if not 0 <= value < size:
                raise Unreadable
            number = number * size + value
        return _wrap(number)
    if text[:2] in ("0x", "0X"):
        return _wrap(int(text, 16))
    if text.startswith("0"):
        if set(text) & set("89"):
            raise Unreadable
        return _wrap(int(text, 8))
    return _wrap(int(text))


# Braces

_SEQUENCE = re.compile(
    r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,18}))?"
)


def has_braces(parts: Parts) -> bool:
    """Whether a word may be expanded by its braces."""
    return any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in parts) and any(
        isinstance(part, Literal) and not part.quoted and "}" in part.text for part in parts
    )


def expand_braces(parts: Parts, most: int) -> list[Parts]:
    """The words that `a{b,c}` and `{1..3}` make of a word, in order: itself where there are none.

    Raises TooMuch beyond so many.
    """
    tokens: list[Part] = []
    for part in parts:
        if isinstance(part, Literal) and not part.quoted and ("{" in part.text or "}" in part.text or "," in part.text):
            place = 0
            for piece in re.split(r"([{},])", part.text):
                if piece:
                    tokens.append(Literal(piece, part.at[place : place + len(piece)], quoted=False))
                place += len(piece)
        else:
            tokens.append(part)
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if _is(token, "{"):
            opened.append(index)
        elif _is(token, "}") and opened:
            pairs[opened.pop()] = index
    braces = _Braces(tokens, pairs, most)
    words = braces.words(0, len(tokens), 0)
    return [_renamed(word) for word in words] if braces.is_expanded else [parts]


def _renamed(word: list[Part]) -> Parts:
    """A word whose `$name` reaches as far as it does once the braces are gone: `$a{b,c}` is `$ab $ac`."""
    parts: list[Part] = []
    for part in word:
        last = parts[-1] if parts else None
        if (
            isinstance(last, Parameter)
            and isinstance(part, Literal)
            and not part.quoted
            and not last.quoted
            and last.end - last.start == len(last.name) + 1
            and not last.name.isdigit()
            and (found := re.match(r"\w+", part.text, re.ASCII))
            and (last.name[0].isalpha() or last.name[0] == "_")
        ):
            parts[-1] = last._replace(name=last.name + found[0], end=last.end + found.end())
            if found.end() < len(part.text):
                parts.append(Literal(part.text[found.end() :], part.at[found.end() :], quoted=False))
            continue
        parts.append(part)
    return tuple(parts)


def _is(token: Part, sign: str) -> bool:
    return isinstance(token, Literal) and not token.quoted and token.text == sign


class _Braces:
    def __init__(self, tokens: list[Part], pairs: dict[int, int], most: int) -> None:
        self._tokens, self._pairs, self._most = tokens, pairs, most
        self._made = 0
        self.is_expanded = False

    def words(self, start: int, end: int, depth: int) -> list[list[Part]]:
        """The words that a stretch of tokens makes."""
        if depth > _MOST_BRACKETS:
            raise TooMuch
        words: list[list[Part]] = [[]]
        index = start
        while index < end:
            token = self._tokens[index]
            close = self._pairs.get(index, end) if _is(token, "{") else end
            choices: list[list[Part]] | None = None
            if close < end:
                choices = self._choices(index + 1, close, depth)
            if choices is None:
                for word in words:
                    word.append(token)
                index += 1
                continue
            self.is_expanded = True
            self._made += len(words) * len(choices)
            if self._made > self._most:
                raise TooMuch
            words = [word + choice for word in words for choice in choices]
            index = close + 1
        return words

    def _choices(self, start: int, end: int, depth: int) -> list[list[Part]] | None:
        commas = []
        index = start
        while index < end:
            if _is(self._tokens[index], "{") and index in self._pairs and self._pairs[index] < end:
                index = self._pairs[index]
            elif _is(self._tokens[index], ","):
                commas.append(index)
            index += 1
        if commas:
            edges = [start - 1, *commas, end]
            return [word for left, right in pairwise(edges) for word in self.words(left + 1, right, depth + 1)]
        only = self._tokens[start] if end == start + 1 else None
        if isinstance(only, Literal) and not only.quoted and (found := _SEQUENCE.fullmatch(only.text)):
            return [[Literal(text, [only.at[0]] * len(text), quoted=False)] for text in self._sequence(found)]
        return None

    def _sequence(self, found: re.Match[str]) -> list[str]:
        first, last, step = (found[1], found[2], found[3]) if found[1] else (found[4], found[5], found[6])
        begin, end = (int(first), int(last)) if found[1] else (ord(first), ord(last))
        stride = abs(int(step or 1)) or 1
        if abs(end - begin) // stride >= self._most:
            raise TooMuch
        numbers = range(begin, end + 1, stride) if begin <= end else range(begin, end - 1, -stride)
        if not found[1]:
            return [chr(number) for number in numbers]
        padded = any(re.match(r"-?0\d", text) for text in (first, last))
        width = max(len(first), len(last)) if padded else 0
        return [f"{number:0{width}d}" for number in numbers]
