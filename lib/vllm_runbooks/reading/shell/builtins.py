"""Shell builtins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from vllm_runbooks.reading.shell import syntax, values, variables
from vllm_runbooks.reading.shell.conditions import INTEGER, run_test
from vllm_runbooks.reading.shell.control import run_text
from vllm_runbooks.reading.shell.expansion import Unreadable, stretches
from vllm_runbooks.reading.shell.invocations import note_invocation
from vllm_runbooks.reading.shell.printing import printed
from vllm_runbooks.reading.shell.state import FAILURE, SUCCESS, Shell, Signal, Skip, Status, Stop
from vllm_runbooks.reading.shell.values import Assignment, Field, Input, Value, ValuePiece, Variable, Word
from vllm_runbooks.reading.shell.words import assign_node, expand_value

DECLARES = frozenset({"declare", "typeset", "export", "readonly", "local"})
"""Builtins whose arguments are assignments."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_HARMLESS_SOURCES = re.compile(
    r"(?:^|/)(?:activate|conda\.sh|\.bashrc|\.bash_profile|\.profile|\.zshrc|profile|bashrc)$"
)
"""Files that set up a shell, and leave the variables of a script alone."""
_OPTION_LETTERS = {"errexit": "e", "nounset": "u", "allexport": "a", "noglob": "f", "pipefail": "pipefail"}

_Builtin = Callable[[Shell, Sequence[Field], Sequence[Word], syntax.Simple], "Signal | None"]


def _argument(fields: Sequence[Field], index: int) -> str | None:
    return values.plain(tuple(fields[index].pieces)) if index < len(fields) else None


def _count(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 8 else None


def _options(words: Sequence[Word], taking: str) -> tuple[dict[str, str], list[Word]]:
    """Options of a builtin, those in `taking` with their values; and the words after them."""
    options: dict[str, str] = {}
    index = 1
    while index < len(words) and (text := words[index].value or "")[:1] == "-" and len(text) > 1:
        index += 1
        if text == "--":
            break
        for place, letter in enumerate(text[1:], 2):
            options[letter] = ""
            if letter in taking:
                options[letter] = text[place:]
                if place == len(text) and index < len(words):
                    options[letter], index = words[index].value or "", index + 1
                break
    return options, list(words[index:])


# Control


def _true(shell: Shell, *_: object) -> None:
    shell.status = SUCCESS


def _false(shell: Shell, *_: object) -> None:
    shell.status = FAILURE


def _test(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    arguments = list(fields[1:])
    if words[0].value == "[":
        if not arguments or _argument(arguments, len(arguments) - 1) != "]":
            shell.status = Status(2)
            return
        arguments.pop()
    run_test(shell, arguments)


def _exit(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> Signal | None:
    if len(fields) > 1:
        text = _argument(fields, 1)
        shell.status = Status(int(text) & 255 if text and INTEGER.fullmatch(text) else None)
    if words[0].value == "return" and not shell.calls:
        shell.status = Status(2)
        return None
    return Signal(str(words[0].value))


def _break(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> Signal | None:
    shell.status = SUCCESS
    if not shell.loops:
        return None
    text = _argument(fields, 1)
    levels = int(text) if text and text.isdecimal() and 0 < len(text) < 6 else 1
    return Signal(str(words[0].value), min(levels, shell.loops))


def _eval(shell: Shell, fields: Sequence[Field], *_: object) -> Signal | None:
    pieces = tuple(piece for item in fields[1:] for piece in (ValuePiece(" "), *item.pieces))[1:]
    if (text := values.plain(pieces)) is not None and not text.strip():
        shell.status = SUCCESS
    return run_text(shell, pieces, shell.place)


def _source(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    shell.status = Status(0, "assumed")
    path = "".join(piece.text or "" for item in fields[1:2] for piece in item.pieces)
    if _HARMLESS_SOURCES.search(path):
        return
    state = shell.state
    shell.spend(len(state.variables))
    state.variables = {name: Variable(values.unknowable("sourced file")) for name in state.variables}
    state.unset.clear()
    state.sourced, state.environment, state.ifs = True, None, " \t\n"


def _wait(shell: Shell, *_: object) -> None:
    shell.mark_waited()
    shell.status = Status(0, "assumed")


def _trap(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    shell.status = SUCCESS
    shell.is_trapped = True
    signals = {word.value for word in words[2:]}
    is_removed = bool(signals) and words[1].value in ("-", "")
    if signals & {"EXIT", "0"} and (shell.reached or not shell.traps):
        shell.traps = [] if is_removed else [(tuple(fields[1].pieces), shell.reached)]
    if "ERR" in signals:
        shell.error_trap = () if is_removed else tuple(fields[1].pieces)


def _cd(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], command: syntax.Simple) -> None:
    note_invocation(shell, list(words), command)
    shell.state.variables.pop("PWD", None)
    shell.status = Status(0, "assumed")


# Options and arguments of the shell


def _set_options(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    shell.status = SUCCESS
    letters = set(shell.state.options)
    index = 1
    while index < len(fields):
        text = _argument(fields, index)
        if text is None:
            shell.state.positional = [values.several("a condition")]
            return
        if text == "--" or text[:1] not in ("-", "+") or len(text) < 2:
            break
        change = letters.add if text[0] == "-" else letters.discard
        for letter in text[1:]:
            index += letter == "o"
            change(_OPTION_LETTERS.get(_argument(fields, index) or "", "-") if letter == "o" else letter)
        index += 1
    shell.state.options = frozenset(letters)
    if index < len(fields):
        text = _argument(fields, index)
        first = index + 1 if text in ("--", "-") else index
        if text != "-" or first < len(fields):
            shell.state.positional = [values.as_element(item) for item in fields[first:]]


def _shopt(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    options, names = _options(words, "")
    named = {str(word.value) for word in names}
    if "s" in options:
        shell.state.options |= named
    elif "u" in options:
        shell.state.options -= named
    shell.status = SUCCESS if options.keys() & set("su") else Status(None)


def _shift(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    text = _argument(fields, 1) if len(fields) > 1 else "1"
    positional = shell.state.positional
    if positional is None:
        shell.status = Status(1, "given")
        return
    doubt = next(filter(values.is_several, positional), None)
    certain = values.supposed(positional)
    if doubt and text and text.isdecimal() and len(text) < 8 and certain is not None:
        shell.status = Status(int(int(text) > len(certain)), "given")
        if int(text) <= len(certain):
            shell.state.positional = [*certain[int(text) :], (*values.doubt_of(doubt), doubt[-1])]
        return
    if text is None or not text.isdecimal() or doubt:
        why = values.reason(doubt or (values.unknowable("a condition") if text is not None else fields[1].pieces))
        shell.state.positional = [values.several(why)]
        shell.status = Status(None)
        return
    count = int(text) if len(text) < 8 else len(positional) + 1
    shell.status = SUCCESS if count <= len(positional) else FAILURE
    if count <= len(positional):
        del positional[:count]


def _getopts(shell: Shell, fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    if len(words) < 3 or not words[2].value or not _NAME.fullmatch(words[2].value):
        shell.status = Status(2)
        return
    name = words[2].value
    arguments = [tuple(item.pieces) for item in fields[3:]] or shell.state.positional
    index = _count(values.plain(variables.value_of(shell, "OPTIND") or ()) or "1")
    allowed = words[1].value
    if arguments is None or allowed is None or index is None or None in map(values.plain, arguments):
        shell.status = Status(1, "given") if arguments is None else Status(None)
        for changed in (name, "OPTARG", "OPTIND"):
            variables.assign(shell, changed, values.unknowable("unset variable @"))
        return
    texts = [values.plain(value) or "" for value in arguments]
    at = shell.getopts_place[1] if shell.getopts_place[0] == index else 1
    argument = texts[index - 1] if 0 < index <= len(texts) else ""
    option_value: Value | None = None
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
            option_value, at = values.cut_value(arguments[index - 1], at, len(argument)), len(argument)
        elif wants and index < len(texts):
            option_value, index = arguments[index], index + 1
        elif wants or place < 0:
            option_value = values.text_value(option) if is_silent else None
            option = ":" if wants and is_silent else "?"
        if at >= len(argument):
            index, at = index + 1, 1
    shell.getopts_place = index, at
    variables.assign(shell, name, values.text_value(option))
    variables.assign(shell, "OPTIND", values.text_value(str(index)))
    if option_value is None:
        variables.forget(shell, "OPTARG")
    else:
        variables.assign(shell, "OPTARG", tuple(piece._replace(quoted=False) for piece in option_value))


# Variables


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
        name = name if is_reference else variables.resolved_name(shell, name)
        variable = shell.state.variables.get(name)
        if variable and variable.is_readonly:
            shell.status = FAILURE
        elif is_function or (variable is None and name in shell.state.functions and name not in shell.inherited):
            shell.state.functions.pop(name, None)
        elif bracket and variable and variable.elements is not None:
            variables.unset_element(shell, name, subscript.rstrip("]"))
        else:
            variables.forget(shell, name)


def _read(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    options, rest = _options(words, "adinNptu")
    names = [name for word in rest if (name := variables.resolved_name(shell, word.value or ""))]
    source = shell.input if options.get("u", "0") == "0" else Input(None)
    line, is_whole = source.take((options.get("d", "\n") or "\0")[0], _count(options.get("n", options.get("N"))))
    mark = values.doubt_of(line or ())
    escaped: set[int] = set()
    while line is not None and "r" not in options:
        line, is_cut = _unescaped(line, escaped)
        if not (is_cut and is_whole):
            break
        following, is_whole = source.take("\n")
        line = (*line, *(following or ()))
    ifs = shell.state.ifs
    if line is None or ifs is None:
        shell.status = Status(None)
        if "a" in options:
            variables.set_list(shell, options["a"], [values.several(source.why)])
        for name in names or (["REPLY"] if "a" not in options else []):
            variables.assign(shell, name, values.unknowable(source.why))
        return
    shell.status = Status(int(not is_whole), "given" if mark else "certain")
    text = values.plain(line) or ""
    shell.spend(4 * len(text))
    if "a" in options:
        parts = stretches(text, escaped, ifs, None)
        variables.set_list(shell, options["a"], [(*values.cut_value(line, *part), *mark) for part in parts])
    elif not names:
        variables.assign(shell, "REPLY", line)
    else:
        parts = stretches(text, escaped, ifs if "N" not in options else "", len(names))
        for name, part in zip(names, parts, strict=True):
            variables.assign(shell, name, (*values.cut_value(line, *part), *mark))


def _unescaped(line: Value, escaped: set[int]) -> tuple[Value, bool]:
    """A line without the backslashes that `read` removes; whether it continues on the next line."""
    text = values.plain(line) or ""
    pieces: list[ValuePiece] = []
    size = last = place = 0
    while (place := text.find("\\", place)) >= 0:
        pieces += values.cut_value(line, last, place)
        size += place - last
        if place + 1 == len(text):
            return tuple(pieces), True
        escaped.add(size)
        last, place = place + 1, place + 2
    return (*pieces, *values.cut_value(line, last, len(text))), False


def _mapfile(shell: Shell, _fields: Sequence[Field], words: Sequence[Word], _: syntax.Simple) -> None:
    options, names = _options(words, "dnOsuCc")
    source = shell.input if options.get("u", "0") == "0" else Input(None)
    delimiter = (options.get("d", "\n") or "\0")[0]
    elements: list[Value] = []
    is_whole = True
    while is_whole:
        line, is_whole = source.take(delimiter)
        shell.spend(1 + len(values.plain(line or ()) or ""))
        if line is None:
            elements = [values.several(source.why)]
        elif values.plain(line) or is_whole:
            elements.append((*line, ValuePiece(delimiter)) if is_whole and "t" not in options else line)
    elements = elements[_count(options.get("s")) or 0 :]
    elements = elements[: _count(options.get("n")) or None]
    variables.set_list(shell, (names[0].value if names else None) or "MAPFILE", elements)
    shell.status = SUCCESS


def _printf(shell: Shell, fields: Sequence[Field], words: Sequence[Word], command: syntax.Simple) -> None:
    shell.status = SUCCESS
    if len(words) < 3 or words[1].value != "-v" or words[2].value is None:
        note_invocation(shell, list(words), command)
        shell.write(printed(shell, "printf", fields[1:]))
        return
    name, bracket, subscript = words[2].value.partition("[")
    value = printed(shell, "printf", fields[3:])
    if not _NAME.fullmatch(name):
        shell.status = Status(2)
    elif bracket:
        key = variables.element_key(shell, subscript.removesuffix("]"), is_map=shell.variable(name).is_map)
        variables.set_element(shell, name, key, value, why=shell.doubt)
    else:
        variables.assign(shell, name, value)


def _let(shell: Shell, fields: Sequence[Field], *_: object) -> None:
    shell.status = FAILURE
    for item in fields[1:]:
        text = values.plain(tuple(item.pieces))
        if text is None:
            shell.status = Status(None)
            continue
        try:
            number = variables.calculator(shell, text).value()
        except Unreadable:
            shell.status = FAILURE
            return
        outside = values.is_outside(item.pieces) or shell.arithmetic_outside
        shell.status = Status(None if number is None else int(not number), "given" if outside else "certain")


def declare(
    shell: Shell, builtin: str, fields: Sequence[Field], words: Sequence[Word],
    declared: Sequence[syntax.AssignmentNode],
) -> None:  # fmt: skip
    """Run `declare`, `typeset`, `local`, `export` or `readonly`."""
    letters = "".join(w.value[1:] for w in words if w.value and w.value[0] == "-")
    removed = "".join(w.value[1:] for w in words if w.value and w.value[0] == "+")
    exports = (builtin == "export" and "n" not in letters) or (builtin != "export" and "x" in letters)
    is_local = builtin == "local" or (builtin in ("declare", "typeset") and "g" not in letters)
    shell.status = SUCCESS
    is_readonly = builtin == "readonly" or "r" in letters
    if set(letters) & set("pfF"):
        return
    expanded = [
        None if made.elements is not None else expand_value(shell, made.value.parts, assigns=True) for made in declared
    ]
    for node, value in zip(declared, expanded, strict=True):
        if is_local and shell.calls:
            variables.make_local(shell, node.name)
        if "n" in letters and builtin != "export":
            shell.state.variables[node.name] = Variable(target=values.plain(value or ()) or "")
            continue
        try:
            _set_attributes(shell, node.name, letters, removed)
            is_map, is_integer = "A" in letters, "i" in letters
            assign_node(
                shell, node, is_listed=True, exports=exports, is_map=is_map, is_integer=is_integer, value=value
            )  # fmt: skip
        except (Skip, Stop):
            shell.status = FAILURE
            continue
        if is_readonly:
            shell.state.variables[node.name] = replace(shell.state.variables[node.name], is_readonly=True)
        if any(isinstance(part, syntax.Substitution) for part in node.value.parts):
            shell.status = Status(0, "assumed")
    for item, word in zip(fields, words, strict=True):
        _declare_word(shell, builtin, item, word, letters=letters, removed=removed, exports=exports, is_local=is_local)


def _declare_word(
    shell: Shell, builtin: str, item: Field, word: Word, *, letters: str, removed: str, exports: bool, is_local: bool
) -> None:
    """Declare a word that is not a literal assignment: a name, or an expanded word."""
    text: str | None = word.value
    if text is None:
        text = "".join(piece.text or "" for piece in item.pieces[:1])
    if text[:1] in ("-", "+") or (word.value is None and "=" not in text):
        return
    name, sign, _ = text.partition("=")
    is_appended = bool(sign) and name.endswith("+")
    name = name.removesuffix("+") if sign else name
    if not _NAME.fullmatch(name):
        shell.status = FAILURE
        return
    by_name = shell.state.variables
    if is_local:
        variables.make_local(shell, name)
    _set_attributes(shell, name, letters, removed)
    if sign:
        value = values.without_start(item.pieces, len(name) + 1 + is_appended)
        if is_appended:
            value = variables.appended(shell, name, value)
        variables.assign(shell, name, tuple(piece._replace(quoted=False) for piece in value))
    elif name not in by_name and not exports:
        by_name[name] = Variable()
    if exports:
        if name not in by_name and name not in shell.state.unset:
            by_name[name] = Variable(variables.value_of(shell, name))
        variables.export(shell, name)
    if builtin == "export" and "n" in letters:
        by_name[name] = replace(by_name[name], is_exported=False)
        shell.state.environment = None
    if (builtin == "readonly" or "r" in letters) and name in by_name:
        by_name[name] = replace(by_name[name], is_readonly=True)
    if exports or sign:
        current = variables.value_of(shell, name)
        value = current or ()
        text = None if current is None or values.reason(value) else values.plain(value)
        assigned = Word(text, word.start, word.end, word.raw, values.reason(value), values.places_of(value))
        shell.result.assignments.append(Assignment(name, assigned, word.start, word.end, exports))


def _set_attributes(shell: Shell, name: str, letters: str, removed: str) -> None:
    if not set(letters) & set("aAixlu") and "x" not in removed:
        return
    old = shell.variable(name)
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


BUILTINS: dict[str | None, _Builtin] = {
    "false": _false,
    "eval": _eval,
    "set": _set_options,
    "shift": _shift,
    "unset": _unset,
    "read": _read,
    "shopt": _shopt,
    "printf": _printf,
    "let": _let,
    "wait": _wait,
    "trap": _trap,
    "getopts": _getopts,
    **dict.fromkeys(("test", "["), _test),
    **dict.fromkeys(("exit", "return"), _exit),
    **dict.fromkeys(("break", "continue"), _break),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("mapfile", "readarray"), _mapfile),
    **dict.fromkeys(("cd", "pushd", "popd"), _cd),
    **dict.fromkeys((":", "true", "alias", "unalias", "hash", "ulimit", "umask", "disown", "jobs", "enable"), _true),
}
