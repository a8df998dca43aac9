"""Output of programs that only print."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vllm_runbooks.reading.shell import values
from vllm_runbooks.reading.shell.expansion import TooMuch, Unreadable, formatted, unescaped
from vllm_runbooks.reading.shell.state import FAILURE, MOST_WORDS, Shell
from vllm_runbooks.reading.shell.values import Field, Value, ValuePiece


def printed(shell: Shell, name: str | None, fields: Sequence[Field]) -> Value:
    """Output of a program that only prints."""
    arguments = [tuple(item.pieces) for item in fields]
    # echo and printf print their arguments, whatever they depend on.
    is_passing = name in ("echo", "printf")
    if name not in _PRINTS or any((values.reason(v) and not is_passing) or values.plain(v) is None for v in arguments):
        return values.unknowable("command substitution")
    try:
        return _PRINTS[name](shell, arguments)
    except Unreadable:
        return values.unknowable("command substitution")


def _echo(_: Shell, arguments: list[Value]) -> Value:
    end, is_escaped = "\n", False
    while arguments and re.fullmatch(r"-[neE]+", option := values.plain(arguments[0]) or ""):
        end = "" if "n" in option else end
        is_escaped = option.rfind("e") > option.rfind("E") or (is_escaped and "E" not in option)
        arguments = arguments[1:]
    joined = [piece for value in arguments for piece in (ValuePiece(" "), *value)][1:]
    if is_escaped:
        joined = [ValuePiece(unescaped(values.plain(tuple(joined)) or ""))]
    return (*(piece._replace(quoted=False) for piece in joined), ValuePiece(end))


def _printf(shell: Shell, arguments: list[Value]) -> Value:
    texts = [values.plain(value) or "" for value in arguments]
    texts = texts[texts[:1] == ["--"] :]
    if len(texts) == 2 and texts[0] in ("%s", "%s\n"):
        return (*arguments[-1], *values.text_value(texts[0][2:]))
    if not texts:
        return ()
    text, is_sound = formatted(texts[0], texts[1:])
    if not is_sound:
        shell.status = FAILURE
    return (*values.text_value(text), *values.doubt_of(piece for value in arguments for piece in value))


def _cat(shell: Shell, arguments: list[Value]) -> Value:
    if arguments and all(values.plain(value) == "/dev/null" for value in arguments):
        return ()
    if arguments and [values.plain(value) for value in arguments] != ["-"]:
        raise Unreadable
    value = shell.input.rest()
    return value if value is not None else values.unknowable(shell.input.why)


def _basename(_: Shell, arguments: list[Value]) -> Value:
    text = (values.plain(arguments[0]) or "").rstrip("/") if 1 <= len(arguments) <= 2 else ""
    if not text or text.startswith("-"):
        raise Unreadable
    start, end = text.rfind("/") + 1, len(text)
    suffix = values.plain(arguments[1]) or "" if len(arguments) > 1 else ""
    if text.endswith(suffix) and end - len(suffix) > start:
        end -= len(suffix)
    return (*values.cut_value(arguments[0], start, end), ValuePiece("\n"))


def _dirname(_: Shell, arguments: list[Value]) -> Value:
    if len(arguments) != 1:
        raise Unreadable
    text = values.plain(arguments[0]) or ""
    head, slash, name = (text.rstrip("/") or text[:1] + ".").rpartition("/")
    head = head.rstrip("/")
    if name.startswith("-") and not slash:
        raise Unreadable
    return (
        *(values.cut_value(arguments[0], 0, len(head)) if head else (ValuePiece("/" if slash else "."),)),
        ValuePiece("\n"),
    )


def _seq(shell: Shell, arguments: list[Value]) -> Value:
    texts = [values.plain(value) or "" for value in arguments]
    if not 1 <= len(texts) <= 3 or not all(re.fullmatch(r"-?(0|[1-9]\d{0,8})", text) for text in texts):
        raise Unreadable
    numbers = [int(text) for text in texts]
    first, last = numbers[0] if len(numbers) > 1 else 1, numbers[-1]
    step = numbers[1] if len(numbers) == 3 else 1
    if not step:
        raise Unreadable
    sequence = range(first, last + (1 if step > 0 else -1), step)
    if len(sequence) > MOST_WORDS:
        raise TooMuch
    shell.spend(8 * len(sequence))
    return values.text_value("".join(f"{number}\n" for number in sequence))


_PRINTS: dict[str | None, Callable[[Shell, list[Value]], Value]] = {
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "basename": _basename,
    "dirname": _dirname,
    "seq": _seq,
}
