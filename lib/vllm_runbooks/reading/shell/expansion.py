"""Bash's text operations: patterns, arithmetic, braces and fields.

Pure, and linear unless noted.
"""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from vllm_runbooks.reading.shell.syntax import Literal, ParameterNode, Part, Parts

_MOST_BRACKETS = 40  # levels of brackets or braces in each other that are followed


class TooMuch(Exception):  # noqa: N818 - an answer, not a failure
    """A limit is exceeded: the result would be larger than in any real script."""


class Unreadable(Exception):  # noqa: N818 - an answer, not a failure
    """Bash itself would report an error here."""


# Patterns

_STAR = "**"


class _ExtGlob(NamedTuple):
    """`@(a|b)`, or with another sign before the bracket."""

    sign: str
    alternatives: list[list[_PatternToken]]


_PatternToken = str | tuple[bool, str, list[tuple[str, str]]] | _ExtGlob | None
"""A character, a bracket expression, a group; None for any character."""


def _pattern_tokens(
    listed: Sequence[tuple[str, bool]], index: int, *, takes_groups: bool, depth: int = 0
) -> tuple[list[_PatternToken], int]:
    """Tokens of a pattern, within a group up to its `|` or `)`; and the end index."""
    tokens: list[_PatternToken] = []
    if depth > _MOST_BRACKETS:
        raise TooMuch
    while index < len(listed):
        sign, quoted = listed[index]
        if depth and not quoted and sign in "|)":
            break
        index += 1
        if takes_groups and not quoted and sign in "@?*+!" and listed[index : index + 1] == [("(", False)]:
            group = _ExtGlob(sign, [])
            while index < len(listed) and listed[index] in (("(", False), ("|", False)):
                alternative, index = _pattern_tokens(listed, index + 1, takes_groups=True, depth=depth + 1)
                group.alternatives.append(alternative)
            tokens.append(group)
            index += 1
        elif quoted or sign not in "*?[\\":
            tokens.append(sign)
        elif sign == "*":
            if not tokens or tokens[-1] != _STAR:
                tokens.append(_STAR)
        elif sign == "?":
            tokens.append(None)
        elif sign == "\\":
            tokens.append(listed[index][0] if index < len(listed) else "\\")
            index += 1
        else:
            bracket = _bracket(listed, index)
            tokens.append(bracket[0] if bracket else "[")
            index = bracket[1] if bracket else index
    return tokens, index


def _ends(tokens: Iterable[_PatternToken], text: str, starts: set[int]) -> set[int]:
    """End positions of a pattern in a text that begins at one of `starts`."""
    for token in tokens:
        if not starts:
            break
        if token == _STAR:
            starts = set(range(min(starts), len(text) + 1))
        elif isinstance(token, _ExtGlob):
            starts = _group_ends(token, text, starts)
        else:
            starts = {place + 1 for place in starts if place < len(text) and _fits(token, text[place])}
    return starts


def _group_ends(group: _ExtGlob, text: str, starts: set[int]) -> set[int]:
    def once(places: set[int]) -> set[int]:
        return {end for tokens in group.alternatives for end in _ends(tokens, text, places)}

    if group.sign == "!":
        return {end for start in starts for end in set(range(start, len(text) + 1)) - once({start})}
    ends = once(starts)
    fresh = ends if group.sign in "*+" else set()
    while fresh := once(fresh) - ends:
        ends |= fresh
    return ends | starts if group.sign in "?*" else ends


class GlobPattern:
    """A glob pattern: characters with whether each is quoted. Matches a text in one pass."""

    def __init__(
        self, signs: Iterable[tuple[str, bool]], *, ignores_case: bool = False, takes_groups: bool = False
    ) -> None:
        listed = [(sign.lower(), quoted) for sign, quoted in signs] if ignores_case else list(signs)
        self._ignores_case = ignores_case
        self._tokens, _ = _pattern_tokens(listed, 0, takes_groups=takes_groups)
        self._has_groups = any(isinstance(token, _ExtGlob) for token in self._tokens)
        self.is_literal = not ignores_case and all(isinstance(token, str) and token != _STAR for token in self._tokens)

    def work(self, text: str) -> int:
        """Approximate number of steps to match a text."""
        return 4 * len(text) * (1 + len(self._tokens) // 32) * (1 + len(text) * 16 * self._has_groups)

    @property
    def text(self) -> str:
        """The text that a literal pattern matches."""
        return "".join(token for token in self._tokens if isinstance(token, str))

    def _masks(self, tokens: list[_PatternToken]) -> tuple[int, Callable[[str], int]]:
        stars = sum(1 << i for i, token in enumerate(tokens) if token == _STAR)
        seen: dict[str, int] = {}

        def mask(sign: str) -> int:
            if sign not in seen:
                seen[sign] = sum(1 << i for i, token in enumerate(tokens) if _fits(token, sign))
            return seen[sign]

        return stars, mask

    def prefixes(self, text: str, *, backwards: bool = False) -> list[int]:
        """Lengths of the beginnings (or ends) of a text that match, in order."""
        text = text.lower() if self._ignores_case else text
        if self._has_groups and backwards:
            size = len(text)
            return [size - start for start in range(size, -1, -1) if size in _ends(self._tokens, text, {start})]
        if self._has_groups:
            return sorted(_ends(self._tokens, text, {0}))
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
    """A bracket expression after its `[`: negated, characters, ranges; and the end index."""
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
            name = "".join(s for s, _ in listed[index + 2 : index + 10]).partition(":]")
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


def _fits(token: _PatternToken, sign: str) -> bool:
    if token is None:
        return True
    if isinstance(token, str | _ExtGlob):
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
    """Evaluates an arithmetic expression; None if a value in it is unknown."""

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
            match = _TOKEN.match(text, place)
            if not match:
                raise Unreadable
            place = match.end()
            is_after_name = bool(self._tokens) and self._tokens[-1].kind == "name"
            if match[1]:
                token = _Token("number", match[1])
            elif match[2]:
                token = _Token("name", match[2], (match[3] or "")[1:-1])
            elif match[4] in ("++", "--") and not is_after_name and not _NAMES.match(text, place):
                # `+++N` is `+ ++N`: a double sign is before or after a name.
                token = _Token("sign", match[4][0])
                place -= 1
            else:
                token = _Token("sign", match[4])
            self._tokens.append(token)

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

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _MOST_BRACKETS:
            raise TooMuch

    def _comma(self) -> int | None:
        self._enter()
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
                self._enter()
                old = self._variable(name) if sign.text != "=" else 0
                new = self._assignment()
                self._depth -= 1
                value = new if sign.text == "=" else self._binary(sign.text[:-1], old, new)
                self._set(name, value)
                return value
        value = self._ternary()
        if self._peek() in _ASSIGN:
            raise Unreadable
        return value

    def _ternary(self) -> int | None:
        condition = self._operation(0)
        if self._peek() != "?":
            return condition
        self._next += 1
        self._enter()
        self._skipping += not condition
        yes = self._comma()
        self._skipping -= not condition
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
        while (sign := self._peek()) in _LEVEL and _LEVEL[sign] >= level:
            self._next += 1
            skips = (sign == "&&" and left == 0) or (sign == "||" and bool(left))
            self._skipping += skips
            is_power = sign == "**"
            if is_power:
                self._enter()
            right = self._operation(_LEVEL[sign] + (not is_power))
            self._depth -= is_power
            self._skipping -= skips
            left = int(sign == "||") if skips else self._binary(sign, left, right)
        return left

    def _unary(self) -> int | None:
        first = self._next
        while self._peek() in ("+", "-", "!", "~"):
            self._next += 1
        signs = self._tokens[first : self._next]
        value = self._primary()
        for sign in reversed(signs):
            if value is not None:
                value = {"+": value, "-": _wrap(-value), "!": int(not value), "~": ~value}[sign.text]
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
        kind = self._kind() if token.text in ("++", "--") else ""
        if kind == "name":
            name = self._tokens[self._next]
            self._next += 1
            old = self._variable(name)
            value = None if old is None else _wrap(old + (1 if token.text == "++" else -1))
            self._set(name, value)
            return value
        if kind == "number":
            return self._primary()
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

    def _binary(self, sign: str, left: int | None, right: int | None) -> int | None:
        if left is None or right is None:
            return None
        if sign in ("/", "%", "**") and not self._skipping and (right < 0 if sign == "**" else right == 0):
            raise Unreadable
        if sign in ("/", "%"):
            if right == 0:
                return 0
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return _wrap(quotient if sign == "/" else left - quotient * right)
        if sign == "**":
            return _wrap(pow(left, right, 1 << 64)) if right >= 0 else 0
        return _wrap(_OPERATIONS[sign](left, right))


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63),
    "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b),
}  # fmt: skip


def _wrap(number: int) -> int:
    """A number wrapped to 64 bits."""
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
    try:
        return _wrap(int(text, 16 if text[:2] in ("0x", "0X") else 8 if text.startswith("0") else 10))
    except ValueError:
        raise Unreadable from None


# Braces

_SEQUENCE = re.compile(
    r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,18}))?"
)


def has_braces(parts: Parts) -> bool:
    """Whether a word may have brace expansions."""
    return any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in parts) and any(
        isinstance(part, Literal) and not part.quoted and "}" in part.text for part in parts
    )


def expand_braces(parts: Parts, most: int) -> list[Parts]:
    """Words of `a{b,c}` and `{1..3}`; a word without braces is returned itself.

    Raises TooMuch beyond `most` words.
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
        elif _is(token, "}") and opened and (start := opened.pop()) >= 0:
            pairs[start] = index
        elif isinstance(token, ParameterNode):
            # Brackets count as written: `${X:-{y}` leaves one open.
            inner = "".join(
                part.text for word in token.arguments for part in word if isinstance(part, Literal) and not part.quoted
            )
            opened += [-1] * (inner.count("{") - inner.count("}"))
    braces = _Braces(tokens, pairs, most)
    words = braces.words(0, len(tokens), 0)
    return [_renamed(word) for word in words] if braces.is_expanded else [parts]


def _renamed(word: list[Part]) -> Parts:
    """A word whose `$name` extends to its end after brace expansion: `$a{b,c}` is `$ab $ac`."""
    parts: list[Part] = []
    for part in word:
        last = parts[-1] if parts else None
        if (
            isinstance(last, ParameterNode)
            and isinstance(part, Literal)
            and not part.quoted
            and not last.quoted
            and last.end - last.start == len(last.name) + 1
            and not last.name.isdigit()
            and (match := re.match(r"\w+", part.text, re.ASCII))
            and (last.name[0].isalpha() or last.name[0] == "_")
        ):
            parts[-1] = last._replace(name=last.name + match[0], end=last.end + match.end())
            if match.end() < len(part.text):
                parts.append(Literal(part.text[match.end() :], part.at[match.end() :], quoted=False))
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
        """Words of a range of tokens."""
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
        if isinstance(only, Literal) and not only.quoted and (match := _SEQUENCE.fullmatch(only.text)):
            return [[Literal(text, [only.at[0]] * len(text), quoted=False)] for text in self._sequence(match)]
        return None

    def _sequence(self, match: re.Match[str]) -> list[str]:
        first, last, step = (match[1], match[2], match[3]) if match[1] else (match[4], match[5], match[6])
        begin, end = (int(first), int(last)) if match[1] else (ord(first), ord(last))
        stride = abs(int(step or 1)) or 1
        if abs(end - begin) // stride >= self._most:
            raise TooMuch
        numbers = range(begin, end + 1, stride) if begin <= end else range(begin, end - 1, -stride)
        if not match[1]:
            return [chr(number) for number in numbers]
        padded = any(re.match(r"-?0\d", text) for text in (first, last))
        width = max(len(first), len(last)) if padded else 0
        return [f"{number:0{width}d}" for number in numbers]


# ---- text that builtins make and split

_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([0-7]{1,4})|([abeEfnrtv\\\"']))")
_FORMAT = re.compile(r"%(?:%|([-+ #0]*)(\*|\d{1,4})?(?:\.(\*|\d{0,4}))?([diouxXeEfFgGcsbq]))")


def unescaped(text: str) -> str:
    """A text with its C escapes undone, as `echo -e` and `printf` do it."""

    def sign(match: re.Match[str]) -> str:
        if match[4]:
            return _ESCAPES.get(match[4], match[4])
        code = match[1] or match[2]
        return chr(int(code, 16) if code else int(match[3], 8) & 0xFF)

    return _ESCAPE.sub(sign, text)


def formatted(template: str, arguments: Sequence[str]) -> tuple[str, bool]:
    """Output of `printf` for a template, and whether all numbers are valid.

    Raises Unreadable if uncertain.
    """
    left = deque(arguments)
    made: list[str] = []
    bad: list[str] = []
    size = 0
    while True:
        before, last, place = len(left), len(made), 0
        for match in _FORMAT.finditer(template):
            made += [_escaped_only(template[place : match.start()]), _conversion(match, left, bad)]
            place = match.end()
        made.append(_escaped_only(template[place:]))
        size += sum(map(len, made[last:]))
        if size > 1 << 20:
            raise TooMuch
        if not left or len(left) == before:
            return "".join(made), not bad


def _escaped_only(text: str) -> str:
    if "%" in text:
        raise Unreadable
    return unescaped(text)


def _conversion(match: re.Match[str], left: deque[str], bad: list[str]) -> str:
    """Replace one `%d` of a template by the next argument; invalid numbers are recorded."""
    flags, width, precision, kind = match.groups()
    if kind is None:
        return "%"
    width, precision = (
        (str(_integer(left.popleft() if left else "", bad)) if size == "*" else size) for size in (width, precision)
    )
    text = left.popleft() if left else ""
    layout = f"%{flags}{width or ''}" + ("" if precision is None else f".{precision}")
    value: str | int | float = text
    if kind in "diouxX":
        value = _integer(text, bad)
    elif kind in "eEfFgG":
        try:
            value = float(text or 0)
        except ValueError:
            raise Unreadable from None
    elif kind == "c":
        value = text[:1]
    elif kind == "q":
        value = backslashed(text)
    elif kind == "b":
        value = unescaped(text)
    return (layout + (kind if kind in "diouxXeEfFgG" else "s")) % value


def _integer(text: str, bad: list[str]) -> int:
    if text[:1] in ("'", '"'):
        return ord(text[1:2] or "\0")
    match = re.match(
        r"\s*([-+]?)(0[xX][0-9a-fA-F]{1,15}|0[0-7]{0,18}|[1-9]\d{0,17})(?![0-9a-fA-F]{16})", text, re.ASCII
    )
    if text and (not match or match.end() < len(text)):
        bad.append(text)
    return _number(match[2]) * (-1 if match[1] == "-" else 1) if match else 0


def backslashed(text: str) -> str:
    """A text as `printf %q` quotes it."""
    if any(ord(sign) < 32 for sign in text):
        return single_quoted(text)
    return re.sub(r"""(?<![^:=])~|\A#|[ !"$&'()*,;<>?\[\\\]^`{|}]""", r"\\\g<0>", text) or "''"


def single_quoted(text: str) -> str:
    """A text as `${X@Q}` quotes it."""
    if all(ord(sign) >= 32 for sign in text):
        return "'" + text.replace("'", "'\\''") + "'"
    names = {sign: name for name, sign in _ESCAPES.items() if name != "e"} | {"'": "'", "\\": "\\"}
    signs = (f"\\{names[sign]}" if sign in names else f"\\{ord(sign):03o}" if ord(sign) < 32 else sign for sign in text)
    return f"$'{''.join(signs)}'"


def stretches(text: str, escaped: Container[int], ifs: str, most: int | None) -> list[tuple[int, int]]:
    """Parts of a line that `read` assigns to `most` names (None for a list).

    Escaped characters do not separate.
    """

    def separates(place: int, signs: str) -> bool:
        return place < end and text[place] in signs and place not in escaped

    def word_end(place: int) -> int:
        while place < end and not separates(place, ifs):
            place += 1
        return place

    def following(place: int) -> int:
        while separates(place, blanks):
            place += 1
        if separates(place, ifs):
            place += 1
            while separates(place, blanks):
                place += 1
        return place

    blanks = "".join(sign for sign in ifs if sign in " \t\n")
    place, end = 0, len(text)
    while separates(place, blanks):
        place += 1
    while end > place and separates(end - 1, blanks):
        end -= 1
    parts: list[tuple[int, int]] = []
    while place < end and (most is None or len(parts) < most - 1):
        stop = word_end(place)
        parts.append((place, stop))
        place = following(stop)
    if most is not None and len(parts) < most:
        stop = word_end(place)
        parts.append((place, stop if following(stop) >= end else end))
        parts += [(end, end)] * (most - len(parts))
    return parts


# Regular expressions

_REGEX = re.compile(
    r"(\((?!\?)|\)|\|)|(\[\^?(?:\[:[a-z]+:\]|[^\[\\])(?:\[:[a-z]+:\]|[^\]\[\\])*\])|([*+?]|\{\d{1,3}(?:,\d{0,3})?\})|([\^$.])|([^\\*+?{}()\[\]])",
)
_REGEX_CLASSES = {
    "digit": "0-9", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "blank": r" \t", "xdigit": "0-9a-fA-F", "punct": r"!-/:-@\[-`{-~",
}  # fmt: skip


def search(pieces: Iterable[tuple[str, bool]], text: str, *, ignores_case: bool = False) -> list[str] | None:
    """The match and each group of `[[ =~ ]]`, None without a match.

    Raises Unreadable if it may take long.
    """
    made: list[str] = []
    opened: list[int] = []
    repeats = 0
    is_nested = is_closed = False
    size = 0
    for piece, quoted in pieces:
        size += len(piece)
        if quoted:
            made += [re.escape(sign) for sign in piece]
            continue
        place = 0
        while place < len(piece):
            if piece[place] == "\\" and place + 1 < len(piece):
                made.append(re.escape(piece[place + 1]))
                place, is_closed = place + 2, False
                continue
            token = _REGEX.match(piece, place)
            if not token or (token[3] and not made):
                raise Unreadable
            place = token.end()
            made.append(token[0])
            if token[0] == "(":
                opened.append(repeats)
            elif token[0] == ")":
                if not opened:
                    raise Unreadable
                is_closed = opened.pop() < repeats
                continue
            elif token[2]:
                made[-1] = re.sub(r"\[:([a-z]+):\]", lambda name: _REGEX_CLASSES.get(name[1], ""), token[2])
            elif token[3]:
                repeats += 1
                is_nested |= is_closed and token[0] != "?"
            elif token[0] == "$":
                made[-1] = r"\Z"
            elif token[5]:
                made[-1] = re.escape(token[5])
            is_closed = False
    if opened or size > 200 or repeats > 6 or len(text) > (20 if is_nested else 128 if repeats <= 3 else 48):
        raise Unreadable
    try:
        match = re.search("".join(made), text, re.DOTALL | (re.IGNORECASE if ignores_case else 0))
    except re.error:
        raise Unreadable from None
    return match and [match[0], *(group or "" for group in match.groups())]
