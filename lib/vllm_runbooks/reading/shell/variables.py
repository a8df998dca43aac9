"""Variables of a shell: reading, assigning, exporting and hiding them, and arithmetic on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from vllm_runbooks.reading.shell import values
from vllm_runbooks.reading.shell.expansion import Calculator, TooMuch, Unreadable
from vllm_runbooks.reading.shell.state import Shell, Skip, Stop
from vllm_runbooks.reading.shell.values import Value, ValuePiece, Variable
from vllm_runbooks.reading.shell.word_lists import word_list

_MOST_TEXT = 1 << 20  # characters of one value


def lookup(shell: Shell, name: str, subscript: str | int | None = None) -> Value | None:
    """The value of a variable, None if certainly unset; a piece with `why` is from outside, or unknown."""
    name = resolved_name(shell, name)
    variable = shell.state.variables.get(name)
    if variable is not None and variable.elements is not None:
        return _element(shell, variable, variable.elements, subscript)
    if variable is not None:
        if subscript not in (None, 0, "0"):
            check_index(shell, subscript)
            return None
        return variable.value
    if name in shell.state.unset:
        return None
    if name in shell.inherited:
        return values.text_value(shell.inherited[name])
    if name in ("IFS", "OPTIND"):
        return values.text_value(" \t\n" if name == "IFS" else "1")
    if name in word_list("machine-variables"):
        return values.unknowable(f"unset variable {name}")
    if shell.state.sourced:
        return values.unknowable("sourced file")
    check_index(shell, subscript)
    return values.unset_value(name)


def _element(
    shell: Shell, variable: Variable, elements: Mapping[int | str, Value], key: str | int | None
) -> Value | None:
    if key is None:
        key = variable.first_key
    if isinstance(key, int) and key < 0:
        key += values.next_index(elements)
        check_index(shell, key)
    doubtful = [index for index, value in elements.items() if values.is_several(value)]
    if not variable.is_map and doubtful:
        if not isinstance(key, int) or key >= min(index for index in doubtful if isinstance(index, int)):
            return values.unknowable(values.reason(elements[doubtful[0]]))
    elif doubtful and key not in elements:
        return values.unknowable(values.reason(elements[doubtful[0]]))
    return elements.get(key)


def value_of(shell: Shell, name: str, subscript: str | None = None) -> Value | None:
    """The value of a variable, or of one of its elements; None if it has none."""
    if name.isdigit():
        return special_value(shell, name)
    if subscript is None:
        return lookup(shell, name)
    variable = shell.variable(resolved_name(shell, name))
    if subscript in ("@", "*") and variable.elements is not None and not variable.is_map:
        return next(iter(variable.elements.values()), None)
    try:
        key = element_key(shell, subscript, is_map=variable.is_map)
    except Skip:
        key = None
    return values.unknowable("an index") if key is None else lookup(shell, name, key)


def special_value(shell: Shell, name: str) -> Value | None:
    """The value of `$1`, `$#`, `$?` and their like."""
    positional = shell.state.positional
    if name == "#":
        doubt = next(filter(values.is_several, positional or ()), None)
        if doubt:
            return values.counted(positional or (), doubt)
        return values.text_value(str(len(positional or ())), outside=positional is None)
    if name == "0":
        return shell.state.name or values.unknowable("the name of the script")
    if name.isdigit():
        number = int(name) if len(name) < 8 else 10_000_000
        if positional is None:
            return values.unset_value(name)
        if doubt := next(filter(values.is_several, positional[:number]), None):
            kept = values.supposed(positional)
            if kept is None:
                return values.unknowable(values.reason(doubt))
            return kept[number - 1] if number <= len(kept) else (ValuePiece("", None, values.reason(doubt), True),)
        return positional[number - 1] if number <= len(positional) else None
    if name == "?":
        if shell.status.code is None:
            return values.unknowable("the result of a command")
        return values.text_value(str(shell.status.code), outside=shell.status.origin != "certain")
    if name == "!":
        shell.mark_waited()
    return values.unknowable("options of the shell" if name == "-" else "a process id")


def resolved_name(shell: Shell, name: str) -> str:
    """Variable to which a name refers: `declare -n` makes references."""
    for _ in range(8):
        variable = shell.state.variables.get(name)
        if variable is None or not variable.target:
            break
        name = variable.target
    return name


def check_index(shell: Shell, index: str | int | None) -> None:
    """Fail on an index before the beginning; under `set -e` that ends the script."""
    if isinstance(index, int) and index < 0:
        shell.failed = True
        if "e" in shell.state.options:
            raise Stop


def exported_environment(shell: Shell) -> Mapping[str, str | None]:
    """The variables that a program gets; None for an unknown value."""
    if shell.state.environment is None:
        shell.spend(len(shell.state.variables))
        environment: dict[str, str | None] = {}
        for name, variable in shell.state.variables.items():
            if variable.is_exported and variable.value is None and variable.elements is None:
                # A local variable without a value hides none in the environment.
                hidden = [saved for call in shell.calls if (saved := call.get(name)) and saved.value is not None]
                variable = hidden[-1] if hidden else variable  # noqa: PLW2901
            if variable.is_exported and variable.elements is None and variable.value is not None:
                environment[name] = (
                    None if variable.export_doubt or values.reason(variable.value) else values.plain(variable.value)
                )
        shell.state.environment = MappingProxyType(environment)
    return shell.state.environment


# Changes


def assign(shell: Shell, name: str, value: Value) -> None:
    """Assign a value to a variable. Raises Skip if it is read-only, Stop under `set -e`."""
    name = resolved_name(shell, name)
    if sum(len(piece.text or "") for piece in value) > _MOST_TEXT or len(value) > _MOST_TEXT >> 4:
        raise TooMuch
    shell.spend(len(value))
    old = shell.state.variables.get(name) or Variable(is_exported="a" in shell.state.options)
    if old.is_readonly:
        raise refusal(shell)
    if old.is_integer:
        value = as_integer(shell, value)
    if old.case:
        value = values.cased(value, old.case)
    if values.is_unset(value):
        value = (*value, ValuePiece("", None, "", True))  # it is set now, to nothing
    if old.elements is not None:
        new = replace(old, elements={**old.elements, old.first_key: value})
    else:
        new = replace(old, value=value)
    put(shell, name, new)


def put(shell: Shell, name: str, variable: Variable) -> None:
    """Set a variable."""
    shell.state.variables[name] = variable
    shell.state.unset.discard(name)
    if variable.is_exported:
        shell.state.environment = None
    if name == "IFS":
        _note_ifs(shell)


def restore(shell: Shell, name: str, variable: Variable | None) -> None:
    """Restore a variable."""
    if variable is None:
        shell.state.variables.pop(name, None)
    else:
        shell.state.variables[name] = variable
    shell.state.environment = None
    if name == "IFS":
        _note_ifs(shell)


def forget(shell: Shell, name: str) -> None:
    """Unset a variable."""
    shell.state.unset.add(name)
    restore(shell, name, None)


def _note_ifs(shell: Shell) -> None:
    value = lookup(shell, "IFS")
    shell.state.ifs = " \t\n" if value is None or values.is_unset(value) else values.plain(value)


def refusal(shell: Shell) -> Skip | Stop:
    """An error that `set -e` makes fatal."""
    return Stop() if "e" in shell.state.options else Skip()


def appended(shell: Shell, name: str, value: Value, *, is_integer: bool = False) -> Value:
    """The value of a variable with something appended."""
    old = lookup(shell, name) or ()
    if is_integer:
        return as_integer(shell, values.text_value(f"({values.plain(old) or 0})+({values.plain(value)})"))
    old = tuple(piece for piece in old if not values.is_unset((piece,)))
    shell.spend(sum(len(piece.text or "") for piece in (*old, *value)) + len(old))
    return (*old, *value)


def export(shell: Shell, name: str) -> None:
    """Export a variable."""
    old = shell.variable(name)
    if not old.is_exported or old.export_doubt:
        shell.state.variables[name] = replace(old, is_exported=True, export_doubt="")
        shell.state.environment = None


def make_local(shell: Shell, name: str) -> None:
    """Hide a variable until the function returns."""
    if shell.calls and name not in shell.calls[-1]:
        old = shell.state.variables.get(name)
        shell.calls[-1][name] = old
        shell.state.variables[name] = Variable(is_exported=bool(old and old.is_exported))
        shell.state.unset.discard(name)


def set_list(shell: Shell, name: str, elements: Sequence[Value]) -> None:
    """Make a variable a list."""
    old = shell.state.variables.get(name) or Variable(is_exported="a" in shell.state.options)
    shell.spend(len(elements))
    shell.state.variables[name] = replace(old, value=None, elements=dict(enumerate(elements)))
    shell.state.unset.discard(name)
    shell.state.environment = None


def forget_from(elements: dict[int | str, Value], key: int | str) -> bool:
    """Forget a list from its first element of unknown index on, if a change affects it.

    Returns whether it does.
    """
    first = min(
        (at for at, value in elements.items() if isinstance(at, int) and values.is_several(value)), default=None
    )
    if first is None or not isinstance(key, int) or key < first:
        return False
    for at in [at for at in elements if isinstance(at, int) and at >= first]:
        del elements[at]
    elements[first] = values.several("an index")
    return True


def set_element(
    shell: Shell, name: str, key: str | int | None, value: Value, *, why: str = "", is_added: bool = False,
    is_appended: bool = False,
) -> None:  # fmt: skip
    """Assign or append a value to an element; a `key` of None is unknown for a reason, an added one is their number."""
    old = shell.variable(name)
    elements = dict(old.listed)
    shell.spend(len(elements))
    if isinstance(key, int) and key < 0:
        key += values.next_index(elements)
    if is_added and any(map(values.is_several, elements.values())):
        key = values.next_index(elements)
    if key is None:
        elements = {0: values.several(why or "an index")}
    elif is_added or not forget_from(elements, key):
        elements[key] = (*elements.get(key, ()), *value) if is_appended else value
    shell.state.variables[name] = replace(old, value=None, elements=elements)


def unset_element(shell: Shell, name: str, subscript: str) -> None:
    """Remove an element of a list or a map, or all of a list's for `[@]`."""
    old = shell.variable(name)
    elements = dict(old.listed)
    shell.spend(len(elements))
    is_whole = not old.is_map and subscript in ("@", "*")
    key = None if is_whole else element_key(shell, subscript, is_map=old.is_map)
    if isinstance(key, int) and key < 0:
        key += values.next_index(elements)
    if key is None:
        elements = {} if is_whole else {0: values.several("an index")}
    elif not forget_from(elements, key):
        elements.pop(key, None)
    shell.state.variables[name] = replace(old, elements=elements)


# Arithmetic


def element_key(shell: Shell, text: str | None, *, is_map: bool) -> int | str | None:
    """The key that a subscript is; None if unknown."""
    return text if text is None or is_map else evaluate(shell, text)


def evaluate(shell: Shell, text: str) -> int | None:
    """The value of an arithmetic expression, None if unknown. Raises Skip if bash cannot read it."""
    try:
        return calculator(shell, text).value()
    except Unreadable:
        raise Skip from None


def as_integer(shell: Shell, value: Value) -> Value:
    """Value of a variable with the attribute `-i`."""
    text = values.plain(value)
    if text is None:
        return value
    number = evaluate(shell, text)
    outside = values.is_outside(value) or shell.arithmetic_outside
    return (
        ValuePiece(
            None if number is None else str(number), None, values.reason(value) or shell.arithmetic_why, outside
        ),
    )


def calculator(shell: Shell, text: str) -> Calculator:
    """An arithmetic expression on the shell's variables."""
    shell.spend(len(text))
    shell.arithmetic_outside, shell.arithmetic_why = False, ""

    def key_of(name: str, subscript: str) -> str | int | None:
        return subscript if shell.variable(name).is_map else calculator(shell, subscript).value()

    def read(name: str, subscript: str) -> str | None:
        value = lookup(shell, name, key_of(name, subscript) if subscript else None)
        shell.arithmetic_outside |= values.is_outside(value or ())
        if value is not None and values.reason(value):
            shell.arithmetic_why = values.reason(value)
            if values.is_unset(value) and "u" in shell.state.options:
                shell.reached = False
        return values.plain(value or ())

    def write(name: str, subscript: str, number: int | None) -> None:
        text = None if number is None else str(number)
        value = (ValuePiece(text, None, shell.arithmetic_why, shell.arithmetic_outside),)
        if not subscript:
            assign(shell, name, value)
        elif (key := key_of(name, subscript)) is not None:
            old = shell.variable(name)
            shell.state.variables[name] = replace(old, elements={**(old.elements or {}), key: value})

    return Calculator(text, read, write)
