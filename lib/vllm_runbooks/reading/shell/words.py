"""Words and assignments of a shell script, expanded like bash in a simulated shell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from vllm_runbooks.reading.shell import expansion, syntax, values, variables
from vllm_runbooks.reading.shell.control import run_substitution, run_untaken
from vllm_runbooks.reading.shell.expansion import GlobPattern, Unreadable
from vllm_runbooks.reading.shell.state import MOST_WORDS, Shell, Skip, Stop
from vllm_runbooks.reading.shell.values import Assignment, Field, Splitter, Value, ValuePiece, Variable, Word

_DEFAULTS = frozenset({"-", ":-", "+", ":+", "=", ":=", "?", ":?"})
"""Operators of `${X:-d}` that replace a value."""
_TRANSFORMS = {"@U": "^^", "@u": "^", "@L": ",,"}


# Assignments


def assignable(shell: Shell, nodes: Sequence[syntax.AssignmentNode]) -> list[syntax.AssignmentNode]:
    """Assignments before a command that succeed.

    One to a read-only variable ends the script under `set -e`.
    """
    made = [node for node in nodes if not shell.variable(node.name).is_readonly]
    if len(made) < len(nodes) and "e" in shell.state.options:
        raise Stop
    return made


def assign_node(
    shell: Shell, node: syntax.AssignmentNode, *, is_listed: bool = False, exports: bool = False, is_map: bool = False,
    is_integer: bool = False, value: Value | None = None,
) -> None:  # fmt: skip
    """Make an assignment as written; `value` is its expanded right side, if available."""
    node = node._replace(name=variables.resolved_name(shell, node.name))
    if shell.variable(node.name).is_readonly:
        raise variables.refusal(shell)
    if exports or "a" in shell.state.options:
        variables.export(shell, node.name)
    old = shell.variable(node.name)
    if node.elements is not None:
        _assign_list(shell, node, node.elements, is_map=is_map or old.is_map)
        word = Word(None, node.value.start, node.value.end, node.value.raw, "a list")
    else:
        value = expand_value(shell, node.value.parts, assigns=True) if value is None else value
        if node.subscript is not None:
            is_map = shell.variable(node.name).is_map
            key, why = _subscript_key(shell, node.subscript, is_map=is_map), shell.doubt
            variables.set_element(
                shell, node.name, key, value, why=why, is_added=_is_added(node), is_appended=node.is_appended
            )  # fmt: skip
        else:
            is_integer |= old.is_integer
            if is_integer:
                value = variables.as_integer(shell, value)
            if node.is_appended:
                value = variables.appended(shell, node.name, value, is_integer=is_integer)
            variables.assign(shell, node.name, value)
        word = values.as_whole_word(value, node.value)
    if is_listed:
        shell.result.assignments.append(Assignment(node.name, word, node.start, node.end, old.is_exported))


def _assign_list(shell: Shell, node: syntax.AssignmentNode, items: Sequence[syntax.Element], *, is_map: bool) -> None:
    old = shell.state.variables.get(node.name) or Variable(is_exported="a" in shell.state.options)
    elements: dict[int | str, Value] = {}
    if node.is_appended:
        if old.elements is not None and old.owner is shell.state.owner:
            elements = old.elements
        else:
            elements = dict(old.listed)
            shell.spend(len(elements))
    last = next(reversed(elements), -1)
    following = last + 1 if isinstance(last, int) and last + 1 == len(elements) else values.next_index(elements)
    for key, value in _list_items(shell, items, is_map=is_map):
        if key is not None:
            shell.spend(len(elements))
            if values.is_several(value):
                elements.clear()
            elif variables.forget_from(elements, key):
                continue
        place = following if key is None else key
        elements[place] = value
        following = place + 1 if isinstance(place, int) else following
    variable = replace(old, value=None, elements=elements, is_map=is_map, owner=shell.state.owner)
    shell.state.variables[node.name] = variable
    shell.state.unset.discard(node.name)


def _list_items(shell: Shell, items: Sequence[syntax.Element], *, is_map: bool) -> list[tuple[int | str | None, Value]]:
    """Values of a list in brackets, each with its key if given."""
    pairs: list[tuple[int | str | None, Value]] = []
    for item in items:
        if item.subscript is None:
            fields = expand_fields(shell, item.word, is_named=False)[0]
            shell.count_words(len(fields))
            pairs += [(None, values.as_element(field)) for field in fields]
            continue
        key = _subscript_key(shell, item.subscript, is_map=is_map)
        value = expand_value(shell, item.word.parts)
        pairs.append((0, values.several("an index")) if key is None else (key, value))
    return pairs


def _subscript_key(shell: Shell, parts: syntax.Parts, *, is_map: bool) -> int | str | None:
    return variables.element_key(shell, values.plain(expand_value(shell, parts)), is_map=is_map)


def _is_added(node: syntax.AssignmentNode) -> bool:
    """Whether the assigned index is the number of elements: `L[${#L[@]}]=x` adds one."""
    (part,) = node.subscript if node.subscript and len(node.subscript) == 1 else (None,)
    if not isinstance(part, syntax.ParameterNode) or not part.is_length:
        return False
    return part.name == node.name and bool(values.list_sign(part.subscript))


# Words


def expand_fields(
    shell: Shell, node: syntax.WordNode, *, assigns: bool = False, is_named: bool = True
) -> tuple[list[Field], frozenset[str]]:
    """Arguments of a word, and its expansions."""
    expands: set[str] = set()
    words = [node.parts]
    if expansion.has_braces(node.parts):
        words = expansion.expand_braces(node.parts, MOST_WORDS - shell.word_count)
        if words[0] is not node.parts:
            expands.add("brace")
    # The result of a brace expansion is an ordinary word, whatever it looks like.
    is_whole = not expands
    fields: list[Field] = []
    for parts in words:
        splitter = Splitter(shell.state.ifs, values.reason(variables.lookup(shell, "IFS") or ()), expands)
        _expand(shell, parts, splitter, assigns=assigns and is_whole, is_named=is_named and is_whole)
        fields += splitter.finished()
    if any(map(values.has_glob, fields)):
        expands.add("glob")
        if "nullglob" in shell.state.options and "f" not in shell.state.options:
            fields = [field for field in fields if not values.has_glob(field)]
    return fields, frozenset(expands)


def expand_value(shell: Shell, parts: syntax.Parts, *, assigns: bool = False) -> Value:
    """Value of a word that is not split."""
    pieces = expand_pieces(shell, parts, assigns=assigns)
    shell.doubt = next((piece.why for piece in pieces if piece.text is None), shell.doubt)
    return tuple(piece._replace(quoted=False) for piece in values.glued(pieces))


def expand_pieces(shell: Shell, parts: syntax.Parts, *, assigns: bool = False) -> list[ValuePiece]:
    """Pieces of a word that is not split: for patterns, with their quoting."""
    splitter = Splitter("", splits=False)
    _expand(shell, parts, splitter, assigns=assigns)
    return [piece for field in splitter.all_fields() for piece in field.pieces]


def expand_pattern(
    shell: Shell, parts: syntax.Parts, *, is_tested: bool = False, ignores_case: bool = True
) -> GlobPattern | None:
    """A pattern, None if unknown.

    It has groups in `[[ ]]` (`is_tested`), and ignores case if an option says so.
    """
    signs: list[tuple[str, bool]] = []
    for piece in expand_pieces(shell, parts):
        if piece.text is None:
            return None
        signs += [(sign, piece.quoted) for sign in piece.text]
    shell.spend(len(signs))
    takes_groups = is_tested or "extglob" in shell.state.options
    return GlobPattern(signs, ignores_case=shell.ignores_case and ignores_case, takes_groups=takes_groups)


def run_commands_in(shell: Shell, parts: syntax.Parts) -> None:
    """Run the commands within a word."""
    if any(isinstance(part, syntax.Substitution) for part in parts):
        expand_value(shell, parts)


def calculate(shell: Shell, parts: syntax.Parts, *, is_fatal: bool = True) -> tuple[int | None, bool]:
    """Value of an expression, and whether it depends on the outside. Raises Skip if invalid."""
    value = expand_value(shell, parts)
    text = values.plain(value)
    if text is None:
        shell.arithmetic_why = values.reason(value)
        return None, False
    number: int | None = None
    outside = values.is_outside(value)
    try:
        number = variables.calculator(shell, text).value()
    except Unreadable:
        shell.arithmetic_outside |= outside
        if not is_fatal or not shell.arithmetic_outside:
            raise Skip from None
        # Bash skips the rest of the line if a variable is missing: it is read all the same.
        shell.lost, shell.reached = shell.lost or shell.copied(), False
    shell.arithmetic_why = shell.arithmetic_why or values.reason(value)
    return number, outside or shell.arithmetic_outside


def _expand(shell: Shell, parts: syntax.Parts, out: Splitter, *, assigns: bool = False, is_named: bool = False) -> None:
    """Put the pieces of a word into the splitter."""
    for index, part in enumerate(parts):
        if not part.quoted and not isinstance(part, syntax.Literal):
            out.expands.add("command" if isinstance(part, syntax.Substitution) else "parameter")
        match part:
            case syntax.Literal(text, at, quoted):
                if shell.signs and not text.isascii() and not shell.signs.keys().isdisjoint(text):
                    _put_signs(shell, part, out)
                elif not quoted and "~" in text:
                    _put_tilde(shell, parts, index, out, assigns=assigns, is_named=is_named)
                else:
                    out.literal(ValuePiece(text, at, quoted=quoted))
                shell.spend(len(text) // 8)
            case syntax.ParameterNode():
                shell.is_alone = len(parts) == 1
                _put_parameter(shell, part, out)
            case syntax.Substitution():
                value = run_substitution(shell, part.script)
                if part.is_file:
                    out.literal(ValuePiece(None, None, "process substitution", quoted=True))
                elif values.reason(value):
                    piece = ValuePiece(None, None, "command substitution", quoted=part.quoted)
                    out.literal(piece, many=out.splits and not part.quoted)
                else:
                    _put_value(value, out, quoted=part.quoted)
            case syntax.Arithmetic():
                number, outside = calculate(shell, part.parts)
                piece = ValuePiece(None if number is None else str(number), None, shell.arithmetic_why, outside)
                _put_value((piece,), out, quoted=part.quoted)


def _put_value(value: Value, out: Splitter, *, quoted: bool) -> None:
    if quoted and not value:
        out.literal(ValuePiece("", quoted=True))
    for piece in value:
        if quoted or not out.splits:
            out.literal(piece._replace(quoted=quoted))
        else:
            out.expansion(piece)


def _put_signs(shell: Shell, part: syntax.Literal, out: Splitter) -> None:
    """Put text of a nested script in which characters represent its unknown parts."""
    place = 0
    for index, sign in enumerate(part.text):
        if sign not in shell.signs:
            continue
        if place < index:
            out.literal(ValuePiece(part.text[place:index], part.at[place:index], quoted=part.quoted))
        piece = shell.signs[sign]
        out.literal(piece._replace(quoted=True)) if part.quoted else out.expansion(piece)
        place = index + 1
    if place < len(part.text):
        out.literal(ValuePiece(part.text[place:], part.at[place:], quoted=part.quoted))


def _put_tilde(
    shell: Shell, parts: syntax.Parts, index: int, out: Splitter, *, assigns: bool = False, is_named: bool = False
) -> None:
    part, head = parts[index], parts[0]
    assert isinstance(part, syntax.Literal)  # noqa: S101 - for the type checker: the caller has seen a tilde in it
    text, at = part.text, part.at
    starts = {0} if index == 0 and text.startswith("~") else set()
    if is_named and not assigns and isinstance(head, syntax.Literal) and not head.quoted:
        named = re.match(r"[A-Za-z_]\w*\+?=", head.text, re.ASCII)
        if named and index == 0 and text.startswith("~", named.end()):
            starts.add(named.end())
        assigns = named is not None
    if assigns:
        starts |= {colon.start() + 1 for colon in re.finditer(r":~", text)}
    place = 0
    for start in sorted(starts):
        prefix = re.compile(r"~[^/:]*" if assigns or start else r"~[^/]*").match(text, start)
        end = prefix.end() if prefix else start
        reaches_on = end == len(text) and index + 1 < len(parts)
        if reaches_on or start < place:
            continue
        if place < start:
            out.literal(ValuePiece(text[place:start], at[place:start]))
        out.expands.add("tilde")
        home: Value | None = (ValuePiece(text[start:end], at[start:end]),)
        if text[start:end] == "~":
            home = variables.lookup(shell, "HOME")
        elif text[start:end] in ("~+", "~-"):
            home = values.unknowable("unset variable PWD")
        for piece in home or values.unknowable("unset variable HOME"):
            out.literal(piece._replace(quoted=True))
        place = end
    if place < len(text):
        out.literal(ValuePiece(text[place:], at[place:]))


# Parameters


def _put_parameter(shell: Shell, part: syntax.ParameterNode, out: Splitter) -> None:
    if part.operator == "bad":
        raise variables.refusal(shell)
    part = part._replace(name=variables.resolved_name(shell, part.name))
    if part.is_indirect:
        _put_indirect(shell, part, out)
        return
    elements = _list_elements(shell, part)
    if part.is_length:
        _put(shell, _length(shell, part, elements), part, out)
        return
    if elements is not None:
        _put_list(shell, part, elements, out)
        return
    key = None
    if part.subscript is not None:
        key = _subscript_key(shell, part.subscript, is_map=shell.variable(part.name).is_map)
        if key is None:
            _put(shell, values.unknowable("an index"), part, out)
            return
    old = _parameter_value(shell, part.name, key)
    if _put_default(shell, part, old, out):
        return
    value = _applied(shell, part, old)
    if part.operator and part.operator not in _DEFAULTS and (part.operator[0] not in "#%" or values.plain(old or ())):
        # An empty value adds no argument, even next to a list.
        part = part._replace(is_beside_list=False)
    _put(shell, value, part, out)


def _parameter_value(shell: Shell, name: str, key: int | str | None = None) -> Value | None:
    is_special = name[0].isdigit() or name in "#?$!-"
    return variables.special_value(shell, name) if is_special else variables.lookup(shell, name, key)


def _list_elements(shell: Shell, part: syntax.ParameterNode) -> list[Value] | None:
    """Elements of `$@`, `$*`, `${X[@]}` and `${X[*]}`; None for anything else."""
    if part.name in ("@", "*") and part.subscript is None:
        return list(shell.state.positional or ())
    if not values.list_sign(part.subscript):
        return None
    variable = shell.variable(part.name)
    if variable.elements is not None:
        return [variable.elements[key] for key in variable.keys]
    value = variables.lookup(shell, part.name)
    return [] if value is None or (values.is_unset(value) and not shell.state.sourced) else [value]


def _put(shell: Shell, value: Value, part: syntax.ParameterNode, out: Splitter) -> None:
    shell.spend(sum(len(piece.text or "") for piece in value) // 8 + len(value))
    many = values.is_several(value)
    pieces = [piece for piece in value if piece.why != "\0many"]
    if part.quoted or not out.splits:
        # An empty value is no argument next to a list, or if it represents elements that vanish.
        vanishes = values.is_unset(value) if part.is_beside_list else many and values.plain(value) == ""
        quoted = part.quoted and not vanishes
        for piece in pieces:
            out.literal(piece._replace(quoted=quoted), many=many)
        if part.quoted and not value and not part.is_beside_list:
            out.literal(ValuePiece("", quoted=True))
        return
    for piece in pieces:
        out.expansion(piece)


def _put_list(
    shell: Shell, part: syntax.ParameterNode, elements: list[Value], out: Splitter, *, joins_keys: bool = False
) -> None:
    is_star = part.name == "*" if part.subscript is None else values.list_sign(part.subscript) == "*"
    is_default = part.operator in _DEFAULTS
    if is_default:
        value: Value | None = None
        if elements:
            value = tuple(piece for element in elements for piece in element)
            sure = sum(not values.is_several(element) for element in elements)
            if not values.plain(value) and (sure > 1 or (sure and not out.splits and not part.quoted)):
                value = (ValuePiece(" "),)  # several empty ones are something
        elif part.subscript is None and shell.state.positional is None:
            value = values.unset_value(part.name)
        if _put_default(shell, part, value, out):
            return
    elif part.operator == ":":
        elements = _sliced(shell, part, elements)
    elif part.operator:
        elements = [_applied(shell, part, element) for element in elements]
    if any(map(values.is_several, elements)):
        out.expands.add("parameter")
        if not shell.is_alone:
            elements = _with_doubtful_ends(elements)
    is_joined = (is_star and part.quoted) or not out.splits
    # In an assignment only a cut or replacement makes a quoted `[@]` join like `[*]`.
    operates = part.operator and not is_default
    joins = is_star or part.operator[:1] in ("#", "%") or (part.quoted and (joins_keys or operates))
    ifs = shell.state.ifs
    glue = " " if ifs is None or not joins else ifs[:1] or " " * (not is_star)
    part = part._replace(is_beside_list=False)
    for index, element in enumerate(elements):
        if index and is_joined:
            out.literal(ValuePiece(glue, quoted=part.quoted))
        elif index and part.quoted:
            out.close()
        elif index:
            out.cut()
        _put(shell, element, part, out)
    if not elements and not out.splits and part.subscript is None and shell.state.positional is None and not is_default:
        for piece in values.unset_value(part.name):  # an assignment keeps what the script's arguments are
            out.literal(piece._replace(quoted=part.quoted))
    if is_joined and part.quoted and (not elements or not out.splits):
        out.literal(ValuePiece("", quoted=True))


def _with_doubtful_ends(elements: Sequence[Value]) -> list[Value]:
    """The elements of a list, where something else is glued to the first and the last, whichever these are."""
    made = list(elements)
    for end in (0, -1):
        kept: list[Value] = []
        doubt: Value = ()
        while made:
            element = made.pop(end)
            if values.is_several(element):
                doubt = (*doubt, *element[:-1])
                kept += [element] if values.plain(element) != "" else []
                continue
            kept.append((*element, *doubt))
            if values.plain(element) != "":
                break
        made = [*kept, *made] if end == 0 else [*made, *reversed(kept)]
    return made or [values.several(values.reason(elements[0]))]


def _sliced(shell: Shell, part: syntax.ParameterNode, elements: list[Value]) -> list[Value]:
    numbers = [calculate(shell, argument)[0] for argument in part.arguments]
    if None in numbers:
        return [values.several("an index")]
    doubt = next(filter(values.is_several, elements), None)
    certain = values.supposed(elements)
    if certain is None:
        return [values.several(values.reason(doubt or ()))]
    start, elements = numbers[0] or 0, certain
    if part.subscript is None:
        elements = [variables.special_value(shell, "0") or (), *elements]
    keys: Sequence[int | str] = range(len(elements))
    variable = shell.variable(part.name)
    if part.subscript is not None and not doubt and variable.elements and not variable.is_map:
        keys = variable.keys
    last = keys[-1] if keys else -1
    if start < 0:
        start += (last if isinstance(last, int) else len(keys) - 1) + 1
        if start < 0:
            return []
    start = sum(1 for key in keys if isinstance(key, int) and key < start)
    count = numbers[1] or 0 if len(numbers) > 1 else len(elements)
    if count < 0:
        raise Skip
    return elements[start : start + count]


def _length(shell: Shell, part: syntax.ParameterNode, elements: list[Value] | None) -> Value:
    if elements is not None:
        if doubt := next(filter(values.is_several, elements), None):
            return values.counted(elements, doubt)
        return values.text_value(str(len(elements)), outside=part.subscript is None and shell.state.positional is None)
    key = None
    if part.subscript is not None:
        key = _subscript_key(shell, part.subscript, is_map=shell.variable(part.name).is_map)
    value = _parameter_value(shell, part.name, key)
    if "u" in shell.state.options and (value is None or values.is_unset(value)):
        if value is None:
            raise Stop
        shell.reached = False
    value = value or ()
    text = values.plain(value)
    if text is None:
        return values.unknowable(values.reason(value))
    return (ValuePiece(str(len(text)), None, values.reason(value), values.is_outside(value)),)


def _put_indirect(shell: Shell, part: syntax.ParameterNode, out: Splitter) -> None:
    """Put `${!X}`, `${!X[@]}` and `${!X*}`."""
    direct = part._replace(is_indirect=False)
    if values.list_sign(part.subscript):
        variable = shell.variable(part.name)
        if any(map(values.is_several, (variable.elements or {}).values())):
            _put(shell, values.several("unset variable"), part, out)
            return
        keys = [0] if variable.elements is None and variable.value is not None else variable.keys
        _put_list(shell, direct, [values.text_value(str(key)) for key in keys], out, joins_keys=True)
        return
    if part.operator in ("*", "@"):
        names = sorted(name for name in shell.state.variables if name.startswith(part.name))
        listed = direct._replace(name=part.operator, operator="")
        _put_list(shell, listed, [values.text_value(name) for name in names], out)
        return
    value = _parameter_value(shell, part.name)
    name = values.plain(value or ())
    if value is None or name is None or values.reason(value):
        _put(shell, values.unknowable(values.reason(value or ()) or "an indirect variable"), part, out)
        return
    target = re.fullmatch(r"([A-Za-z_]\w*|[0-9]+|[@*])(?:\[(\w+|[@*])\])?", name, re.ASCII)
    if not target:
        raise Stop
    subscript = (syntax.Literal(target[2], [0] * len(target[2]), quoted=False),) if target[2] else None
    _put_parameter(shell, direct._replace(name=target[1], subscript=subscript), out)


# Operators of parameters


def _put_default(shell: Shell, part: syntax.ParameterNode, value: Value | None, out: Splitter) -> bool:
    """Put the default of `${X:-d}` or similar; returns whether it applies."""
    operator, is_quoted = part.operator, part.quoted and not part.is_beside_list
    if operator not in _DEFAULTS:
        return False
    outside = value is not None and values.is_outside(value)
    old = value or ()
    text = values.plain(old)
    if text is None and not any(piece.text for piece in old) and (operator[0] == ":" or values.is_several(old)):
        _read_untaken(shell, part)
        _put(
            shell,
            values.several(values.reason(old)) if values.is_several(old) else values.unknowable(values.reason(old)),
            part,
            out,
        )
        return True
    is_missing = value is None or values.is_unset(value) or (operator[0] == ":" and text == "")
    if operator[-1] == "+":
        if is_missing:
            if outside:
                _read_untaken(shell, part)
            if (is_quoted and not values.list_sign(part.subscript) and part.name != "@") or outside:
                piece = ValuePiece("", None, "", outside, quoted=is_quoted)
                out.literal(piece) if part.quoted else out.expansion(piece)
            return True
    elif not is_missing:
        return False
    if operator[-1] == "?":
        if outside and not shell.rounds:
            shell.reached = False
            _put(shell, values.unset_value(part.name), part, out)
            return True
        raise Stop
    (argument,) = part.arguments
    if operator[-1] == "=":
        assigned = expand_value(shell, argument)
        if outside:
            assigned = tuple(piece._replace(outside=True) for piece in assigned)
        variables.assign(shell, part.name, assigned)
        _put(shell, assigned, part, out)
        return True
    if is_quoted and not argument:
        out.literal(ValuePiece("", None, "", outside, quoted=True))
    _put_argument(shell, argument, part, out, outside=outside)
    return True


def _put_argument(
    shell: Shell, argument: syntax.Parts, part: syntax.ParameterNode, out: Splitter, *, outside: bool
) -> None:
    """Put the word of `${X:-word}`.

    Its literal text is split as well, unless the whole is quoted.
    """
    if outside:
        absent = ValuePiece("", None, "", True, quoted=part.quoted and not part.is_beside_list)
        out.literal(absent) if part.quoted else out.expansion(absent)
    is_beside = part.quoted and part.is_beside_list
    for index, piece in enumerate(argument):
        if isinstance(piece, syntax.ParameterNode) and is_beside:
            _expand(shell, (piece._replace(is_beside_list=True),), out)
        elif not isinstance(piece, syntax.Literal) or not out.splits or not shell.signs.keys().isdisjoint(piece.text):
            _expand(shell, (piece,), out)
        elif piece.quoted or part.quoted:
            # In the same quotes as a list, bash cuts a default at escaped separators.
            cuts = is_beside and _is_escape(argument, index - 1) and piece.text[:1] in (shell.state.ifs or " ")
            if cuts:
                out.close()
            if piece.text[cuts:]:
                out.literal(ValuePiece(piece.text[cuts:], piece.at[cuts:], quoted=True))
        elif index == 0 and piece.text.startswith("~"):
            _put_tilde(shell, argument, 0, out)
        else:
            out.expansion(ValuePiece(piece.text, piece.at, "", outside))


def _is_escape(parts: syntax.Parts, index: int) -> bool:
    """Whether a backslash here escapes the next character within double quotes.

    The backslash is kept.
    """
    part, before = parts[index] if index >= 0 else None, parts[index - 1] if index > 0 else None
    if not isinstance(part, syntax.Literal) or not part.quoted or part.text != "\\":
        return False
    return not (isinstance(before, syntax.Literal) and before.at and before.at[-1] + 1 != part.at[0])


def _read_untaken(shell: Shell, part: syntax.ParameterNode) -> None:
    for argument in part.arguments:
        if any(isinstance(piece, syntax.Substitution) for piece in argument):
            run_untaken(shell, partial(run_commands_in, shell, argument))


def _applied(shell: Shell, part: syntax.ParameterNode, value: Value | None) -> Value:
    """The value after an operator that cuts or replaces."""
    if part.operator in _DEFAULTS:
        return value or ()
    if value is None:
        if "u" in shell.state.options and part.name not in ("@", "*"):
            raise Stop
        return ()
    if "u" in shell.state.options and values.is_unset(value):
        shell.reached = False
    if not part.operator:
        return value
    text, why = values.plain(value), values.reason(value)
    if text is None or values.is_unset(value) or values.is_several(value):
        for argument in part.arguments:
            run_commands_in(shell, argument)
        if values.is_unset(value):
            return value
        return (*values.unknowable(why), *(value[-1:] if values.is_several(value) else ()))
    if why:
        # It depends on an unset variable: its value is used by conditions.
        cleared = tuple(piece._replace(why="") for piece in value)
        return (*_operated(shell, part, cleared, text), ValuePiece("", None, why, True))
    return _operated(shell, part, value, text)


def _operated(shell: Shell, part: syntax.ParameterNode, value: Value, text: str) -> Value:
    """A known value after an operator."""
    operator = part.operator
    if operator == ":":
        return _substring(shell, part, value, text)
    if operator in _TRANSFORMS:
        return _recased(shell, _TRANSFORMS[operator], None, value)
    if operator == "@Q":
        return values.text_value(expansion.single_quoted(text))
    if operator[0] in "@*":
        return values.unknowable(f"${{{part.name}{operator}}}")
    pattern = expand_pattern(shell, part.arguments[0], ignores_case=operator[0] == "/")
    if pattern is None:
        return values.unknowable("a pattern")
    if operator[0] in "^,":
        return _recased(shell, operator, pattern if part.arguments[0] else None, value)
    shell.spend(pattern.work(text))
    if operator[0] in "#%":
        lengths = pattern.prefixes(text, backwards=operator[0] == "%") or [0]
        size = lengths[-1 if len(operator) == 2 else 0]
        return (
            values.cut_value(value, size, len(text))
            if operator[0] == "#"
            else values.cut_value(value, 0, len(text) - size)
        )
    return _replaced(shell, part, pattern, value, text)


def _recased(shell: Shell, operator: str, pattern: GlobPattern | None, value: Value) -> Value:
    changed = str.upper if operator[0] == "^" else str.lower
    pieces, first = [], True
    for piece in value:
        signs = []
        for sign in piece.text or "":
            fits = (first or len(operator) == 2) and (pattern is None or pattern.matches(sign))
            signs.append(changed(sign) if fits and len(changed(sign)) == 1 else sign)
            first = False
        shell.spend(len(signs) * 4)
        pieces.append(piece._replace(text="".join(signs)))
    return tuple(pieces)


def _replaced(shell: Shell, part: syntax.ParameterNode, pattern: GlobPattern, value: Value, text: str) -> Value:
    template = expand_pieces(shell, part.arguments[1]) if len(part.arguments) > 1 else []
    if values.plain(tuple(template)) is None:
        return values.unknowable(values.reason(template))

    def replacement(start: int, end: int) -> Value:
        """Replacement of a range: an unquoted `&` refers to the range."""
        made: list[ValuePiece] = []
        for piece in template:
            place = 0
            for sign in () if piece.quoted else re.finditer(r"\\?&", piece.text or ""):
                made += values.cut_value((piece,), place, sign.start())
                made += values.cut_value(value, start, end) if len(sign[0]) == 1 else (ValuePiece("&"),)
                place = sign.end()
            made += values.cut_value((piece,), place, len(piece.text or "")) if place else (piece,)
        shell.spend(sum(1 + len(piece.text or "") for piece in made))
        return tuple(piece._replace(quoted=False) for piece in made)

    operator = part.operator
    if not part.arguments[0] and operator in ("/", "//"):
        return value
    if operator in ("/#", "/%"):
        lengths = pattern.prefixes(text, backwards=operator == "/%")
        if not lengths:
            return value
        start, end = (0, lengths[-1]) if operator == "/#" else (len(text) - lengths[-1], len(text))
        return (*values.cut_value(value, 0, start), *replacement(start, end), *values.cut_value(value, end, len(text)))
    pieces: list[ValuePiece] = []
    place = last = 0
    while place < len(text):
        if pattern.is_literal:
            place, length = text.find(pattern.text, place), len(pattern.text)
            if place < 0 or not length:
                break
        else:
            window = text[place:]
            shell.spend(pattern.work(window))
            length = (pattern.prefixes(window) or [0])[-1]
            if not length:
                place += 1
                continue
        pieces += [*values.cut_value(value, last, place), *replacement(place, place + length)]
        shell.spend(len(value))
        place = last = place + length
        if operator == "/":
            break
    return values.glued([*pieces, *values.cut_value(value, last, len(text))])


def _substring(shell: Shell, part: syntax.ParameterNode, value: Value, text: str) -> Value:
    numbers = [calculate(shell, argument)[0] for argument in part.arguments]
    if None in numbers:
        return values.unknowable("an index")
    start = numbers[0] or 0
    start = start + len(text) if start < 0 else start
    if start < 0 or start > len(text):
        return ()
    end = len(text)
    if len(numbers) > 1:
        length = numbers[1] or 0
        end = len(text) + length if length < 0 else start + length
        if end < start:
            raise Skip
    return values.cut_value(value, start, end)
