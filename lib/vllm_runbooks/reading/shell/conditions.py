"""Tests of a shell, `[[ … ]]`, `[ … ]` and `test`, with three answers: true, false and unknown."""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Sequence

from vllm_runbooks.reading.shell import syntax, values
from vllm_runbooks.reading.shell.expansion import TooMuch, Unreadable, search
from vllm_runbooks.reading.shell.state import FAILURE, MOST_NESTED, Shell, Skip, Status
from vllm_runbooks.reading.shell.values import Field, Value
from vllm_runbooks.reading.shell.variables import evaluate, set_list, value_of
from vllm_runbooks.reading.shell.words import expand_pattern, expand_pieces, expand_value

_Tested = tuple[str | None, Value]
INTEGER = re.compile(r"\s*[-+]?\d{1,18}\s*", re.ASCII)
_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt,
    "-ge": operator.ge,
}  # fmt: skip
_COMPARES: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_BINARY = {*_NUMERIC, *_COMPARES, "-nt", "-ot", "-ef"}


def _not(value: bool | None) -> bool | None:  # noqa: FBT001 - logic with three values
    return None if value is None else not value


def _joined(results: Sequence[bool | None], *, decisive: bool) -> bool | None:
    """Results joined by "or" (`decisive` is True) or by "and"."""
    if decisive in results:
        return decisive
    return None if None in results else not decisive


def as_status(result: bool | None, outside: bool, why: str) -> Status:  # noqa: FBT001 - as conditions return them
    """The exit status of a test."""
    return Status(None if result is None else int(not result), "given" if outside else "certain", why)


def run_condition(shell: Shell, condition: syntax.ConditionNode) -> None:
    """Run `[[ … ]]`."""
    try:
        shell.doubt = "a file"
        shell.status = as_status(*_condition(shell, condition), shell.doubt)
    except Skip:
        shell.status = FAILURE


def _condition(shell: Shell, condition: syntax.ConditionNode) -> tuple[bool | None, bool]:
    """Whether `[[ … ]]` is true (None if unknown), and whether that depends on the outside."""
    sign, operands = condition.operator, condition.operands
    words = [operand for operand in operands if isinstance(operand, syntax.WordNode)]
    if not words:
        decisive, outside = sign == "||", False
        results: list[bool | None] = []
        for operand in operands:
            assert isinstance(operand, syntax.ConditionNode)  # noqa: S101 - for the type checker: no operand is a word
            result, is_from_outside = _condition(shell, operand)
            results.append(result)
            outside |= is_from_outside
            if sign != "!" and result is decisive:
                break
        return (_not(results[0]) if sign == "!" else _joined(results, decisive=decisive)), outside
    first = expand_value(shell, words[0].parts)
    if len(words) == 1:
        return _unary(shell, sign, first)
    outside, text = values.is_outside(first), values.plain(first)
    if sign == "=~":
        return _searched(shell, text, words[1].parts), outside
    pattern = expand_pattern(shell, words[1].parts, is_tested=True) if sign in ("=", "!=") else None
    second = expand_value(shell, words[1].parts)
    outside |= values.is_outside(second)
    if sign in ("=", "!="):
        if pattern is None or text is None:
            return None, outside
        shell.spend(pattern.work(text))
        return pattern.matches(text) == (sign == "="), outside
    other = values.plain(second)
    if sign in _NUMERIC:
        left, right = (None if number is None else evaluate(shell, number) for number in (text, other))
        return (None if left is None or right is None else _NUMERIC[sign](left, right)), outside
    if text is None or other is None or sign not in "<>":
        return None, outside
    return _COMPARES[sign](text, other), outside


def _searched(shell: Shell, text: str | None, expression: syntax.Parts) -> bool | None:
    """Whether a regular expression matches a text; records its groups."""
    pieces = expand_pieces(shell, expression)
    groups: list[Value] = [values.several("unset variable BASH_REMATCH")]
    matched = None
    repeats = sum(sign in "*+?{" for piece in pieces for sign in piece.text or "")
    shell.spend(len(text or "") ** min(repeats, 3) // 16)
    if text is not None and not any(piece.text is None for piece in pieces):
        with contextlib.suppress(Unreadable):
            matches = search(
                [(piece.text or "", piece.quoted) for piece in pieces], text, ignores_case=shell.ignores_case
            )
            groups, matched = [values.text_value(group) for group in matches or ()], matches is not None
    set_list(shell, "BASH_REMATCH", groups)
    return matched


def _unary(shell: Shell, sign: str, value: Value) -> tuple[bool | None, bool]:
    """Whether a test of one value is true (None if unknown), and whether it is from outside."""
    text, outside = values.plain(value), values.is_outside(value)
    if sign in ("-n", "-z"):
        if text is None and not any(piece.text for piece in value):
            return None, outside
        return (text != "") == (sign == "-n"), outside
    if sign in ("-v", "-R") and text is not None:
        name, _, subscript = text.partition("[")
        variable = value_of(shell, name, subscript.rstrip("]") or None)
        is_absent = variable is not None and values.is_unset(variable)
        if variable and variable[0].text is None:
            return None, outside or is_absent
        return variable is not None and not is_absent, outside or is_absent
    return None, outside


def run_test(shell: Shell, fields: Sequence[Field]) -> None:
    """Run `test` or `[` with these arguments."""
    arguments = [tuple(field.pieces) for field in fields if not field.is_absent]
    outside = any(values.is_outside(field.pieces) for field in fields)
    why = next((piece.why for field in fields for piece in field.pieces if piece.text is None), "a file")
    result = None
    try:
        if not any(field.is_many for field in fields):
            result = _test_words(shell, [(values.plain(value), value) for value in arguments], 0)
        shell.status = as_status(result, outside, why)
    except Unreadable:
        shell.status = Status(2, "given" if outside else "certain")


def _test_words(shell: Shell, words: list[_Tested], depth: int) -> bool | None:
    """The result of a test by the number of its arguments, as POSIX has it."""
    if depth > MOST_NESTED:
        raise TooMuch
    size = len(words)
    texts = [text for text, _ in words]
    if size == 0:
        return False
    if size == 1:
        return _unary(shell, "-n", words[0][1])[0]
    if size == 2 and texts[0] != "!":
        if texts[0] is None or not re.fullmatch(r"-[a-zA-Z]", texts[0]):
            raise Unreadable
        return _unary(shell, texts[0], words[1][1])[0]
    if size == 3 and texts[1] in _BINARY:
        return _compare(str(texts[1]), texts[0], texts[2])
    if size == 3 and texts[1] in ("-a", "-o"):
        results = [_test_words(shell, [word], depth + 1) for word in (words[0], words[2])]
        return _joined(results, decisive=texts[1] == "-o")
    if size <= 4 and texts[0] == "!":
        return _not(_test_words(shell, words[1:], depth + 1))
    if size <= 4 and texts[0] == "(" and texts[-1] == ")":
        return _test_words(shell, words[1:-1], depth + 1)
    if None in texts:
        return None
    if size == 3:
        raise Unreadable
    result, rest = _test_or(shell, words, 0, depth)
    if rest < size:
        raise Unreadable
    return result


def _test_or(shell: Shell, words: list[_Tested], place: int, depth: int) -> tuple[bool | None, int]:
    """Terms joined by -a and -o, from an index on; and the end index."""
    alternatives: list[bool | None] = []
    while True:
        result, place = _test_term(shell, words, place, depth)
        terms = [result]
        while place < len(words) and words[place][0] == "-a":
            result, place = _test_term(shell, words, place + 1, depth)
            terms.append(result)
        alternatives.append(_joined(terms, decisive=False))
        if place >= len(words) or words[place][0] != "-o":
            return _joined(alternatives, decisive=True), place
        place += 1


def _test_term(shell: Shell, words: list[_Tested], place: int, depth: int) -> tuple[bool | None, int]:
    negated = False
    while place < len(words) and words[place][0] == "!":
        negated, place = not negated, place + 1
    left = words[place][0] if place < len(words) else None
    if left is None:
        raise Unreadable
    sign = words[place + 1][0] if place + 2 < len(words) else None
    result: bool | None
    if left == "(":
        if depth > MOST_NESTED:
            raise TooMuch
        result, place = _test_or(shell, words, place + 1, depth + 1)
        if place >= len(words) or words[place][0] != ")":
            raise Unreadable
        place += 1
    elif sign in _BINARY:
        result, place = _compare(str(sign), left, words[place + 2][0]), place + 3
    elif re.fullmatch(r"-[a-zA-Z]", left) and place + 1 < len(words):
        result, place = _unary(shell, left, words[place + 1][1])[0], place + 2
    else:
        result, place = bool(left), place + 1
    return (_not(result) if negated else result), place


def _compare(sign: str, left: str | None, right: str | None) -> bool | None:
    if left is None or right is None or sign in ("-nt", "-ot", "-ef"):
        return None
    if sign in _COMPARES:
        return _COMPARES[sign](left, right)
    if not (INTEGER.fullmatch(left) and INTEGER.fullmatch(right)):
        raise Unreadable
    return _NUMERIC[sign](int(left), int(right))
