"""What the shell's own commands do, and what those programs print that do nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from vllm_runbooks.reading.shell import syntax
from vllm_runbooks.reading.shell.expansion import TooMuch, Unreadable, formatted, stretches, unescaped
from vllm_runbooks.reading.shell.values import (
    Assignment,
    Field,
    Input,
    Piece,
    Value,
    Variable,
    Word,
    as_element,
    cut_value,
    doubt_of,
    is_outside,
    is_several,
    is_unset,
    places_of,
    plain,
    reason,
    supposed,
    text_value,
    unknowable,
    without_start,
)
from vllm_runbooks.reading.shell.words import (
    FAILURE,
    MOST_NESTED,
    MOST_WORDS,
    NAME,
    SUCCESS,
    Expander,
    Signal,
    Skip,
    Status,
    Stop,
)

DECLARES = frozenset({"declare", "typeset", "export", "readonly", "local"})
"""Builtins whose arguments are assignments."""
_HARMLESS_SOURCES = re.compile(
    r"(?:^|/)(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile|\.zshrc|profile|bashrc)$"
)
"""Files that set up a shell, and leave the variables of a script alone."""


class Shell(Expander):
    """What a builtin is run by; what follows commands is left to a subclass."""

    def invoke(self, words: list[Word], command: syntax.Simple) -> None:
        """Note a program that runs."""
        raise NotImplementedError

    def nested_script(self, value: Value, place: int) -> Signal | None:
        """Run the commands that a value holds; `place` is where in the file those begin that stand nowhere in it."""
        raise NotImplementedError

    def write(self, value: Value) -> None:
        """Print something."""
        raise NotImplementedError


_Builtin = Callable[[Shell, Sequence[Field], Sequence[Word], syntax.Simple], "Signal | None"]


# Tests

_INTEGER = re.compile(r"\s*[-+]?\d{1,18}\s*", re.ASCII)
NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_COMPARES: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}


def _not(value: bool | None) -> bool | None:  # noqa: FBT001 - logic with three values
    return None if value is None else not value


def _both(one: bool | None, two: bool | None) -> bool | None:  # noqa: FBT001 - logic with three values
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def _either(one: bool | None, two: bool | None) -> bool | None:  # noqa: FBT001 - logic with three values
    return _not(_both(_not(one), _not(two)))


def as_status(result: bool | None, outside: bool, why: str) -> Status:  # noqa: FBT001 - as conditions return them
    return Status(None if result is None else int(not result), "given" if outside else "certain", why)


def unary(shell: Shell, operator: str, value: Value) -> tuple[bool | None, bool]:
    """Whether a test of one value holds (None: cannot be known), and whether that rests on what is outside."""
    text = plain(value)
    outside = is_outside(value)
    if operator in ("-n", "-z"):
        if text is None:
            if any(piece.text for piece in value):
                return operator == "-n", outside
            return None, outside
        return bool(text) == (operator == "-n"), outside
    if operator in ("-v", "-R") and text is not None:
        name, _, subscript = text.partition("[")
        found = shell.value_of(name, subscript.rstrip("]") or None)
        return (None if found and found[0].text is None else found is not None and not is_unset(found)), (
            outside or bool(found and is_unset(found))
        )
    if operator == "-o" and text is not None:
        return None, outside
    return None, outside


def _tested(shell: Shell, fields: Sequence[Field]) -> Status:
    """What `test` or `[` finds of its arguments."""
    values = [tuple(item.pieces) for item in fields if not (item.is_absent)]
    outside = any(is_outside(item.pieces) for item in fields)
    unknown = next((piece.why for item in fields for piece in item.pieces if piece.text is None), "a file")
    if any(item.is_many for item in fields):
        return as_status(None, outside, unknown)
    texts = [plain(value) for value in values]
    try:
        return as_status(_test_words(shell, list(zip(texts, values, strict=True)), 0), outside, unknown)
    except Unreadable:
        return Status(2, "given" if outside else "certain")


def _test_words(shell: Shell, words: list[tuple[str | None, Value]], depth: int) -> bool | None:
    if depth > MOST_NESTED:
        raise TooMuch
    size = len(words)
    texts = [text for text, _ in words]
    if size == 0:
        return False
    if size == 1:
        return unary(shell, "-n", words[0][1])[0]
    if size == 2:
        if texts[0] == "!":
            return _not(_test_words(shell, words[1:], depth + 1))
        return unary(shell, _operator(texts[0]), words[1][1])[0]
    if size == 3:
        if texts[1] in _COMPARES or texts[1] in NUMERIC or texts[1] in ("-nt", "-ot", "-ef"):
            return _compare(str(texts[1]), texts[0], texts[2])
        if texts[1] in ("-a", "-o"):
            one, two = (_test_words(shell, [word], depth + 1) for word in (words[0], words[2]))
            return _both(one, two) if texts[1] == "-a" else _either(one, two)
        if texts[0] == "!":
            return _not(_test_words(shell, words[1:], depth + 1))
        if texts[0] == "(" and texts[2] == ")":
            return _test_words(shell, words[1:2], depth + 1)
        if None in texts:
            return None
        raise Unreadable
    if size == 4 and texts[0] == "!":
        return _not(_test_words(shell, words[1:], depth + 1))
    if size == 4 and texts[0] == "(" and texts[-1] == ")":
        return _test_words(shell, words[1:-1], depth + 1)
    if None in texts:
        return None
    result, rest = _test_or(shell, words, 0, depth)
    if rest < size:
        raise Unreadable
    return result


def _test_or(shell: Shell, words: list[tuple[str | None, Value]], place: int, depth: int) -> tuple[bool | None, int]:
    """Terms joined by -a and -o, from a place on; and where they end."""
    alternatives: list[bool | None] = []
    while True:
        result, place = _test_term(shell, words, place, depth)
        while place < len(words) and words[place][0] == "-a":
            other, place = _test_term(shell, words, place + 1, depth)
            result = _both(result, other)
        alternatives.append(result)
        if place >= len(words) or words[place][0] != "-o":
            break
        place += 1
    result = alternatives[0]
    for other in alternatives[1:]:
        result = _either(result, other)
    return result, place


def _test_term(shell: Shell, words: list[tuple[str | None, Value]], place: int, depth: int) -> tuple[bool | None, int]:
    negated = False
    while place < len(words) and words[place][0] == "!":
        negated, place = not negated, place + 1
    left = words[place][0] if place < len(words) else None
    if left is None:
        raise Unreadable
    following = words[place + 1][0] if place + 2 < len(words) else None
    result: bool | None
    if left == "(":
        if depth > MOST_NESTED:
            raise TooMuch
        result, place = _test_or(shell, words, place + 1, depth + 1)
        if place >= len(words) or words[place][0] != ")":
            raise Unreadable
        place += 1
    elif following in _COMPARES or following in NUMERIC or following in ("-nt", "-ot", "-ef"):
        result, place = _compare(str(following), left, words[place + 2][0]), place + 3
    elif re.fullmatch(r"-[a-zA-Z]", left) and place + 1 < len(words):
        result, place = unary(shell, left, words[place + 1][1])[0], place + 2
    else:
        result, place = bool(left), place + 1
    return (_not(result) if negated else result), place


def _operator(text: str | None) -> str:
    if text is None or not re.fullmatch(r"-[a-zA-Z]", text):
        raise Unreadable
    return text


def _compare(operator: str, left: str | None, right: str | None) -> bool | None:
    if left is None or right is None or operator in ("-nt", "-ot", "-ef"):
        return None
    if operator in _COMPARES:
        return _COMPARES[operator](left, right)
    if not (_INTEGER.fullmatch(left) and _INTEGER.fullmatch(right)):
        raise Unreadable
    return NUMERIC[operator](int(left), int(right))


# Control


def _true(shell: Shell, *_: object) -> None:
    shell.status = SUCCESS


def _false(shell: Shell, *_: object) -> None:
    shell.status = FAILURE


def _test(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    arguments = list(fields[1:])
    if words[0].value == "[":
        if not arguments or plain(tuple(arguments[-1].pieces)) != "]":
            shell.status = Status(2)
            return
        arguments.pop()
    shell.status = _tested(shell, arguments)


def _exit(shell: Shell, fields: Sequence[Field], *_: object) -> Signal:
    shell.status = _code(fields, shell.status)
    return Signal("exit")


def _return(shell: Shell, fields: Sequence[Field], *_: object) -> Signal | None:
    shell.status = _code(fields, shell.status)
    if not shell.calls:
        shell.status = Status(2)
        return None
    return Signal("return")


def _code(fields: Sequence[Field], status: Status) -> Status:
    if len(fields) < 2:
        return status
    text = plain(tuple(fields[1].pieces))
    return Status(int(text) & 255 if text and _INTEGER.fullmatch(text) else None)


def _break(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> Signal | None:
    shell.status = SUCCESS
    if not shell.loops:
        return None
    text = plain(tuple(fields[1].pieces)) if len(fields) > 1 else "1"
    levels = int(text) if text and text.isdecimal() and 0 < len(text) < 6 else 1
    return Signal(str(words[0].value), min(levels, shell.loops))


def _eval(shell: Shell, fields: Sequence[Field], *_: object) -> Signal | None:
    pieces: list[Piece] = []
    for index, item in enumerate(fields[1:]):
        if index:
            pieces.append(Piece(" ", None))
        pieces += item.pieces
    if (text := plain(tuple(pieces))) is not None and not text.strip():
        shell.status = SUCCESS
    return shell.nested_script(tuple(pieces), shell.place)


def _source(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    path = plain(tuple(fields[1].pieces)) if len(fields) > 1 else None
    shell.status = Status(0, "assumed")
    raw = path or "".join(piece.text or "" for item in fields[1:2] for piece in item.pieces)
    if _HARMLESS_SOURCES.search(raw):
        return
    state = shell.state
    shell.spend(len(state.variables))
    state.variables = {name: Variable(unknowable("sourced file")) for name in state.variables}
    state.unset.clear()
    state.sourced, state.environment, state.ifs = True, None, None
    state.ifs = " \t\n"


def _set_options(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    shell.status = SUCCESS
    letters = set(shell.state.options)
    long = {"errexit": "e", "nounset": "u", "allexport": "a", "noglob": "f", "pipefail": "pipefail"}
    index = 1
    while index < len(fields):
        text = plain(tuple(fields[index].pieces))
        if text is None:
            shell.state.positional = [(*unknowable("a condition"), Piece("", None, "\0many"))]
            return
        if text == "--" or text[:1] not in ("-", "+") or len(text) < 2:
            break
        change = letters.add if text[0] == "-" else letters.discard
        for letter in text[1:]:
            if letter == "o":
                index += 1
                name = plain(tuple(fields[index].pieces)) if index < len(fields) else None
                change(long.get(name or "", "-"))
            else:
                change(letter)
        index += 1
    shell.state.options = frozenset(letters)
    if index < len(fields):
        text = plain(tuple(fields[index].pieces))
        first = index + 1 if text in ("--", "-") else index
        if text == "-" and first == len(fields):
            return
        shell.state.positional = [as_element(item) for item in fields[first:]]


def _shift(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    text = plain(tuple(fields[1].pieces)) if len(fields) > 1 else "1"
    positional = shell.state.positional
    if positional is None:
        shell.status = Status(1, "given")
        return
    doubt = next((value for value in positional if is_several(value)), None)
    if doubt and text and text.isdecimal() and len(text) < 8 and (left := supposed(positional)) is not None:
        shell.status = Status(int(int(text) > len(left)), "given")
        if int(text) <= len(left):
            shell.state.positional = [*left[int(text) :], (Piece("", None, reason(doubt), outside=True), doubt[-1])]
        return
    if text is None or not text.isdecimal() or doubt:
        given = unknowable("a condition") if text is not None else fields[1].pieces
        why = reason(next((value for value in positional if is_several(value)), given))
        shell.state.positional = [(*unknowable(why), Piece("", None, "\0many"))]
        shell.status = Status(None)
        return
    count = int(text) if len(text) < 8 else len(positional) + 1
    shell.status = SUCCESS if count <= len(positional) else FAILURE
    if count <= len(positional):
        del positional[:count]


def _unset(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    shell.status = SUCCESS
    is_function = is_reference = False
    for word in words[1:]:
        if word.value in ("-f", "-v", "-n"):
            is_function, is_reference = word.value == "-f", word.value == "-n"
            continue
        if word.value is None:
            continue
        name, bracket, subscript = word.value.partition("[")
        name = name if is_reference else shell.meant(name)
        variable = shell.state.variables.get(name)
        if variable and variable.is_readonly:
            shell.status = FAILURE
        elif is_function or (variable is None and name in shell.state.functions and name not in shell.known):
            shell.state.functions.pop(name, None)
        elif bracket and variable and variable.elements is not None:
            key: str | int = subscript.rstrip("]")
            if not variable.is_map:
                key = int(key) if str(key).isdecimal() and len(str(key)) < 9 else -1
            elements = {k: v for k, v in variable.elements.items() if k != key}
            shell.spend(len(elements))
            shell.state.variables[name] = replace(variable, elements=elements)
        else:
            shell.forget(name)


def _options(words: Sequence[Word], taking: str) -> tuple[dict[str, str], list[Word]]:
    """The options of a builtin, those in `taking` with their values; and the words after them."""
    found: dict[str, str] = {}
    index = 1
    while index < len(words) and (text := words[index].value or "")[:1] == "-" and len(text) > 1:
        index += 1
        if text == "--":
            break
        for place, letter in enumerate(text[1:], 2):
            found[letter] = ""
            if letter in taking:
                found[letter] = text[place:]
                if place == len(text) and index < len(words):
                    found[letter], index = words[index].value or "", index + 1
                break
    return found, list(words[index:])


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 8 else None


def _read(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    given, rest = _options(words, "adinNptu")
    names = [name for word in rest if (name := shell.meant(word.value or ""))]
    source = shell.input if given.get("u", "0") == "0" else Input(None)
    line, is_whole = source.taken((given.get("d", "\n") or "\0")[0], _count(given.get("n", given.get("N"))))
    mark = doubt_of(line or ())
    escaped: set[int] = set()
    while line is not None and "r" not in given:
        line, is_cut = _unescaped(line, escaped)
        if not (is_cut and is_whole):
            break
        following, is_whole = source.taken("\n")
        line = (*line, *(following or ()))
    ifs = shell.state.ifs
    if line is None or ifs is None:
        shell.status = Status(None)
        value = unknowable(source.why)
        if "a" in given:
            shell.set_list(given["a"], [(*value, Piece("", None, "\0many"))])
        for name in names or (["REPLY"] if "a" not in given else []):
            shell.assign(name, value)
        return
    shell.status = Status(int(not is_whole), "given" if mark else "certain")
    text = plain(line) or ""
    shell.spend(4 * len(text))
    if "a" in given:
        shell.set_list(given["a"], [(*cut_value(line, *part), *mark) for part in stretches(text, escaped, ifs, None)])
    elif not names:
        shell.assign("REPLY", line)
    else:
        parts = stretches(text, escaped, ifs if "N" not in given else "", len(names))
        for name, part in zip(names, parts, strict=True):
            shell.assign(name, (*cut_value(line, *part), *mark))


def _unescaped(line: Value, escaped: set[int]) -> tuple[Value, bool]:
    """A line without the backslashes that `read` takes out; whether one at its end joins it to the next."""
    text = plain(line) or ""
    pieces: list[Piece] = []
    size = last = place = 0
    while (place := text.find("\\", place)) >= 0:
        pieces += cut_value(line, last, place)
        size += place - last
        if place + 1 == len(text):
            return tuple(pieces), True
        escaped.add(size)
        last, place = place + 1, place + 2
    return (*pieces, *cut_value(line, last, len(text))), False


def _mapfile(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    given, names = _options(words, "dnOsuCc")
    source = shell.input if given.get("u", "0") == "0" else Input(None)
    delimiter = (given.get("d", "\n") or "\0")[0]
    elements: list[Value] = []
    is_whole = True
    while is_whole:
        line, is_whole = source.taken(delimiter)
        shell.spend(1 + len(plain(line or ()) or ""))
        if line is None:
            elements = [(*unknowable(source.why), Piece("", None, "\0many"))]
        elif plain(line) or is_whole:
            elements.append((*line, Piece(delimiter)) if is_whole and "t" not in given else line)
    if count := _count(given.get("s")):
        elements = elements[count:]
    if count := _count(given.get("n")):
        elements = elements[:count]
    shell.set_list((names[0].value if names else None) or "MAPFILE", elements)
    shell.status = SUCCESS


def _printf(shell: Shell, fields: Sequence[Field], words: Sequence[Word], command: syntax.Simple) -> None:
    shell.status = SUCCESS
    if len(words) < 3 or words[1].value != "-v" or words[2].value is None:
        shell.invoke(list(words), command)
        shell.write(printed(shell, "printf", fields[1:]))
        return
    name, bracket, subscript = words[2].value.partition("[")
    value = printed(shell, "printf", fields[3:])
    if not NAME.fullmatch(name):
        shell.status = Status(2)
    elif bracket:
        shell.set_element(name, subscript.removesuffix("]"), value)
    else:
        shell.assign(name, value)


# Declarations


def declare(
    shell: Shell, builtin: str, fields: Sequence[Field], words: Sequence[Word],
    declared: Sequence[syntax.AssignmentNode],
) -> None:  # fmt: skip
    """`declare`, `typeset`, `local`, `export` and `readonly`."""
    letters = "".join(w.value[1:] for w in words if w.value and w.value[0] == "-")
    removed = "".join(w.value[1:] for w in words if w.value and w.value[0] == "+")
    exports = (builtin == "export" and "n" not in letters) or (builtin != "export" and "x" in letters)
    is_local = builtin == "local" or (builtin in ("declare", "typeset") and "g" not in letters)
    shell.status = SUCCESS
    is_readonly = builtin == "readonly" or "r" in letters
    if "p" in letters or (builtin == "export" and "f" in letters) or "f" in letters or "F" in letters:
        return
    values = [None if made.elements is not None else shell.one(made.value.parts, assigns=True) for made in declared]
    for node, value in zip(declared, values, strict=True):
        if is_local and shell.calls:
            shell.make_local(node.name)
        if "n" in letters and builtin != "export":
            shell.state.variables[node.name] = Variable(target=plain(value or ()) or "")
            continue
        try:
            _declared(shell, node, value, letters, removed, exports=exports)
        except (Skip, Stop):
            shell.status = FAILURE
            continue
        if is_readonly:
            _protect(shell, node.name)
        if any(isinstance(part, syntax.Substitution) for part in node.value.parts):
            shell.status = Status(0, "assumed")
    for item, word in zip(fields, words, strict=True):
        _declare_word(shell, builtin, item, word, letters=letters, removed=removed, exports=exports, is_local=is_local)


def _declare_word(
    shell: Shell, builtin: str, item: Field, word: Word, *, letters: str, removed: str, exports: bool, is_local: bool
) -> None:
    """A word of a declaration that is no assignment as it is written: a name, or one that is expanded."""
    text = "".join(piece.text or "" for piece in item.pieces[:1]) if word.value is None else word.value
    if text[:1] in ("-", "+") or (word.value is None and "=" not in text):
        return
    name, sign, _ = text.partition("=")
    is_appended = bool(sign) and name.endswith("+")
    name = name.removesuffix("+") if sign else name
    if not NAME.fullmatch(name):
        shell.status = FAILURE
        return
    if is_local:
        shell.make_local(name)
    _flag(shell, name, letters, removed)
    if sign:
        value = without_start(item.pieces, len(name) + 1 + is_appended)
        if is_appended:
            value = shell.appended(name, value, is_integer=False)
        shell.assign(name, tuple(piece._replace(quoted=False) for piece in value))
    elif name not in shell.state.variables and not exports:
        shell.state.variables[name] = Variable()
    if exports:
        if name not in shell.state.variables and name not in shell.state.unset:
            shell.state.variables[name] = Variable(shell.value_of(name))
        shell.export(name)
    if builtin == "export" and "n" in letters:
        shell.state.variables[name] = replace(shell.state.variables[name], is_exported=False)
        shell.state.environment = None
    if (builtin == "readonly" or "r" in letters) and name in shell.state.variables:
        _protect(shell, name)
    current = shell.value_of(name)
    if exports or sign:
        known = Word(
            None if current is None or reason(current) else plain(current), word.start, word.end, word.raw,
            reason(current or ()), places_of(current or ()),
        )  # fmt: skip
        shell.result.assignments.append(Assignment(name, known, word.start, word.end, exports))


def _declared(
    shell: Shell, node: syntax.AssignmentNode, value: Value | None, letters: str, removed: str, *, exports: bool
) -> None:
    """One assignment of a declaration."""
    _flag(shell, node.name, letters, removed)
    shell.assign_node(
        node, is_listed=True, exports=exports, is_map="A" in letters, is_integer="i" in letters, value=value
    )


def _protect(shell: Shell, name: str) -> None:
    shell.state.variables[name] = replace(shell.state.variables[name], is_readonly=True)


def _flag(shell: Shell, name: str, letters: str, removed: str) -> None:
    """Attributes that a declaration gives."""
    if not set(letters) & set("aAixlu") and "x" not in removed:
        return
    old = shell.state.variables.get(name) or Variable()
    if "A" in letters or "a" in letters:
        old = replace(old, elements=old.elements if old.elements is not None else {}, is_map="A" in letters)
    if "i" in letters:
        old = replace(old, is_integer=True)
    if "l" in letters or "u" in letters:
        old = replace(old, case="l" if "l" in letters else "u")
    if "x" in removed:
        old = replace(old, is_exported=False)
    shell.state.variables[name] = old
    shell.state.environment = None


# What is printed by programs that do nothing else


def _echo(_: Shell, values: list[Value]) -> Value:
    end, is_escaped = "\n", False
    while values and re.fullmatch(r"-[neE]+", option := plain(values[0]) or ""):
        end = "" if "n" in option else end
        is_escaped = option.rfind("e") > option.rfind("E") or (is_escaped and "E" not in option)
        values = values[1:]
    joined = [piece for value in values for piece in (Piece(" "), *value)][1:]
    if is_escaped:
        joined = [Piece(unescaped(plain(tuple(joined)) or ""))]
    return (*(piece._replace(quoted=False) for piece in joined), Piece(end))


def _formatted(shell: Shell, values: list[Value]) -> Value:
    texts = [plain(value) or "" for value in values]
    texts = texts[texts[:1] == ["--"] :]
    if len(texts) == 2 and texts[0] in ("%s", "%s\n"):
        return (*values[-1], *text_value(texts[0][2:]))
    if not texts:
        return ()
    text, is_sound = formatted(texts[0], texts[1:])
    if not is_sound:
        shell.status = FAILURE
    return (*text_value(text), *doubt_of(piece for value in values for piece in value))


def _cat(shell: Shell, values: list[Value]) -> Value:
    if values and all(plain(value) == "/dev/null" for value in values):
        return ()
    if values and [plain(value) for value in values] != ["-"]:
        raise Unreadable
    value = shell.input.rest()
    return value if value is not None else unknowable(shell.input.why)


def _basename(_: Shell, values: list[Value]) -> Value:
    if not values or len(values) > 2:
        raise Unreadable
    text = (plain(values[0]) or "").rstrip("/")
    start = text.rfind("/") + 1
    suffix = plain(values[1]) or "" if len(values) > 1 else ""
    end = len(text) - len(suffix) if text.endswith(suffix) and len(text) - len(suffix) > start else len(text)
    if not text or text.startswith("-"):
        raise Unreadable
    return (*cut_value(values[0], start, end), Piece("\n"))


def _dirname(_: Shell, values: list[Value]) -> Value:
    if len(values) != 1:
        raise Unreadable
    text = plain(values[0]) or ""
    head, slash, _name = (text.rstrip("/") or text[:1] + ".").rpartition("/")
    head = head.rstrip("/")
    if _name.startswith("-") and not slash:
        raise Unreadable
    return (*(cut_value(values[0], 0, len(head)) if head else (Piece("/" if slash else "."),)), Piece("\n"))


def _seq(shell: Shell, values: list[Value]) -> Value:
    texts = [plain(value) or "" for value in values]
    if not 1 <= len(texts) <= 3 or not all(re.fullmatch(r"-?(0|[1-9]\d{0,8})", text) for text in texts):
        raise Unreadable
    numbers = [int(text) for text in texts]
    first, last = (1, *numbers)[-2:] if len(numbers) < 3 else (numbers[0], numbers[2])
    step = numbers[1] if len(numbers) == 3 else 1
    if not step:
        raise Unreadable
    found = range(first, last + (1 if step > 0 else -1), step)
    if len(found) > MOST_WORDS:
        raise TooMuch
    shell.spend(8 * len(found))
    return text_value("".join(f"{number}\n" for number in found))


_PASSING = frozenset({"echo", "printf"})
"""Those that print what they are given, whatever it rests on."""
_PRINTS: dict[str | None, Callable[[Shell, list[Value]], Value]] = {
    "echo": _echo,
    "printf": _formatted,
    "cat": _cat,
    "basename": _basename,
    "dirname": _dirname,
    "seq": _seq,
}


def printed(shell: Shell, name: str | None, fields: Sequence[Field]) -> Value:
    """What a program prints that does nothing else."""
    values = [tuple(item.pieces) for item in fields]
    if name not in _PRINTS or any((reason(v) if name not in _PASSING else "") or plain(v) is None for v in values):
        return unknowable("command substitution")
    try:
        return _PRINTS[name](shell, values)
    except Unreadable:
        return unknowable("command substitution")


# Others


def _let(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    shell.status = FAILURE
    for item in fields[1:]:
        text = plain(tuple(item.pieces))
        if text is None:
            shell.status = Status(None)
            continue
        try:
            number = shell.calculator(text).value()
        except Unreadable:
            shell.status = FAILURE
            return
        outside = is_outside(item.pieces) or shell.arithmetic_outside
        shell.status = Status(None if number is None else int(not number), "given" if outside else "certain")


def _wait(shell: Shell, *_: object) -> None:
    shell.waited()
    shell.status = Status(0, "assumed")


def _trap(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    shell.status = SUCCESS
    shell.is_trapped = True
    if any(word.value in ("EXIT", "0") for word in words[2:]) and (shell.reached or not shell.traps):
        shell.traps = [] if words[1].value in ("-", "") else [(tuple(fields[1].pieces), shell.reached)]
    if len(words) > 2 and any(word.value == "ERR" for word in words[2:]):
        shell.error_trap = () if words[1].value in ("-", "") else tuple(fields[1].pieces)


def _cd(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], command: syntax.Simple) -> None:
    shell.invoke(list(words), command)
    shell.state.variables.pop("PWD", None)
    shell.status = Status(0, "assumed")


def _getopts(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    if len(words) < 3 or not words[2].value or not NAME.fullmatch(words[2].value):
        shell.status = Status(2)
        return
    name = words[2].value
    values = [tuple(item.pieces) for item in fields[3:]] or shell.state.positional
    index = _count(plain(shell.value_of("OPTIND") or ()) or "1")
    allowed = words[1].value
    if values is None or allowed is None or index is None or None in map(plain, values):
        shell.status = Status(1, "given") if values is None else Status(None)
        for changed in (name, "OPTARG", "OPTIND"):
            shell.assign(changed, unknowable("unset variable @"))
        return
    texts = [plain(value) or "" for value in values]
    at = shell.cluster[1] if shell.cluster[0] == index else 1
    argument = texts[index - 1] if 0 < index <= len(texts) else ""
    found: Value | None = None
    if at == 1 and (argument == "--" or not re.match(r"-.", argument)):
        shell.status, option = FAILURE, "?"
        index += argument == "--"
    else:
        shell.status, option = SUCCESS, argument[at]
        at += 1
        is_silent = allowed.startswith(":")
        place = allowed.find(option, is_silent) if option != ":" else -1
        wants = place >= 0 and allowed[place + 1 : place + 2] == ":"
        if wants and at < len(argument):
            found, at = cut_value(values[index - 1], at, len(argument)), len(argument)
        elif wants and index < len(texts):
            found, index = values[index], index + 1
        elif wants or place < 0:
            found = text_value(option) if is_silent else None
            option = ":" if wants and is_silent else "?"
        if at >= len(argument):
            index, at = index + 1, 1
    shell.cluster = index, at
    shell.assign(name, text_value(option))
    shell.assign("OPTIND", text_value(str(index)))
    if found is None:
        shell.forget("OPTARG")
    else:
        shell.assign("OPTARG", tuple(piece._replace(quoted=False) for piece in found))


def _shopt(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    given, names = _options(words, "")
    named = {str(word.value) for word in names}
    if "s" in given:
        shell.state.options |= named
    elif "u" in given:
        shell.state.options -= named
    shell.status = SUCCESS if set(given) & set("su") else Status(None)


BUILTINS: dict[str | None, _Builtin] = {
    ":": _true,
    "true": _true,
    "false": _false,
    "test": _test,
    "[": _test,
    "exit": _exit,
    "return": _return,
    "break": _break,
    "continue": _break,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "set": _set_options,
    "shift": _shift,
    "unset": _unset,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "shopt": _shopt,
    "printf": _printf,
    "let": _let,
    "wait": _wait,
    "trap": _trap,
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "getopts": _getopts,
    **dict.fromkeys(("alias", "unalias", "hash", "ulimit", "umask", "disown", "jobs", "enable"), _true),
}
