"""Determine the commands that bash would run, from the syntax tree; nothing is executed.

Assumptions: the script has no arguments, no variables are set from outside, and the programs it
calls succeed. Values that depend on anything else (an outside variable, a program's output, a file)
are marked, and both branches of a condition on them are read. Loops, words and text are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from vllm_runbooks.reading.shell import control, syntax, values
from vllm_runbooks.reading.shell.builtins import BUILTINS, DECLARES, declare
from vllm_runbooks.reading.shell.conditions import run_condition
from vllm_runbooks.reading.shell.control import Run
from vllm_runbooks.reading.shell.expansion import TooMuch, expand_braces, has_braces
from vllm_runbooks.reading.shell.invocations import hide_assigned, note_invocation
from vllm_runbooks.reading.shell.printing import printed
from vllm_runbooks.reading.shell.state import FAILURE, MOST_NESTED, MOST_WORDS, SUCCESS, Shell, Signal, Skip, Status
from vllm_runbooks.reading.shell.values import Field, Input, ScriptRun, State, Value, ValuePiece, Variable, Word
from vllm_runbooks.reading.shell.variables import assign, export, make_local, restore
from vllm_runbooks.reading.shell.word_lists import word_list
from vllm_runbooks.reading.shell.words import (
    assign_node,
    assignable,
    calculate,
    expand_fields,
    expand_pattern,
    expand_value,
    run_commands_in,
)

MOST_ROUNDS = 1_000
"""Rounds of one loop that are followed."""
MOST_STEPS = 20_000
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash"})
_NOT_FOUND = 127


def run(tree: syntax.Syntax, inherited: Mapping[str, str]) -> ScriptRun:
    """All commands that bash runs of a script, and the text after the point where it stops."""
    shell = Shell(inherited, _run_items)
    try:
        _run_script(shell, tree.lines)
        if tree.rest:
            shell.reached = False
            shell.conditional += 1
            _run_script(shell, tree.rest)
    except TooMuch:
        shell.result.too_much = ("steps", shell.place)
    except RecursionError:
        shell.result.too_much = ("nesting", shell.place)
    if shell.signs:
        _replace_signs(shell.result, shell.signs)
    return shell.result


def _run_script(shell: Shell, lines: Sequence[Sequence[syntax.Item]]) -> None:
    control.run_lines(shell, lines)
    if not shell.reached:
        shell.status = shell.exit_status
    control.run_traps(shell, reached=True)
    if shell.is_trapped:
        shell.mark_waited()


def _replace_signs(result: ScriptRun, signs: Mapping[str, ValuePiece]) -> None:
    variable = re.compile(r"unset variable (\w+)\Z")
    table = {
        ord(sign): f"${{{match[1]}}}" if (match := variable.match(piece.why)) else "$(...)"
        for sign, piece in signs.items()
    }

    def readable(word: Word) -> Word:
        return word if word.raw.isascii() else replace(word, raw=word.raw.translate(table))

    for index, invocation in enumerate(result.invocations):
        result.invocations[index] = replace(invocation, words=tuple(map(readable, invocation.words)))
    for index, assignment in enumerate(result.assignments):
        result.assignments[index] = replace(assignment, value=readable(assignment.value))


# Lists and pipelines


def _run_items(shell: Shell, items: Sequence[syntax.Item]) -> Signal | None:
    shell.depth += 1
    if shell.depth > MOST_NESTED:
        raise TooMuch
    signal = None
    for item in items:
        shell.place = item.start
        if item.is_background:
            shell.background += 1
            control.run_subshell(shell, partial(_run_and_or, shell, item.pipelines))
            shell.background -= 1
            shell.status = SUCCESS
            continue
        signal = _run_and_or(shell, item.pipelines)
        if signal:
            break
    shell.depth -= 1
    return signal


def _run_and_or(shell: Shell, pipelines: Sequence[tuple[str, syntax.Pipeline]]) -> Signal | None:
    for index, (operator, pipeline) in enumerate(pipelines):
        go = partial(_run_pipeline, shell, pipeline, tested=index + 1 < len(pipelines))
        status, signal = shell.status, None
        if not operator:
            signal = go()
        elif status.code is None:
            control.run_maybe(shell, go, status.why)
            shell.status = status
        elif (status.code == 0) == (operator == "&&"):
            signal = _run_taken(shell, go, status)
        elif status.origin != "certain":
            control.run_untaken(shell, go)
        if signal:
            return signal
    return None


def _run_taken(shell: Shell, go: Run, status: Status) -> Signal | None:
    """Run the branch of a condition.

    If it ends the script because of a missing input, go on as if it existed.
    """
    if status.origin == "certain":
        return go()
    before = shell.copied()
    shell.conditional += 1
    signal = go()
    shell.conditional -= 1
    if signal and signal.kind in ("exit", "return"):
        ended = shell.status._replace(origin="given")
        if signal.kind == "return" and shell.reached:
            shell.returned = ended
        shell.state, shell.exit_status = before, ended
        shell.reached = False
        return None
    return signal


def _run_pipeline(shell: Shell, pipeline: syntax.Pipeline, *, tested: bool) -> Signal | None:
    is_tested = tested or pipeline.is_negated
    shell.tested += is_tested
    signal = None
    if len(pipeline.commands) == 1:
        signal = _run_command(shell, pipeline.commands[0])
    elif pipeline.commands:
        failed: Status | None = None
        outer = shell.input
        for command in pipeline.commands[:-1]:
            shell.input = Input(control.printed_by(shell, partial(_run_command, shell, command)))
            failed = shell.status if shell.status.code else failed
        control.run_subshell(shell, partial(_run_command, shell, pipeline.commands[-1]))
        failed = shell.status if shell.status.code else failed
        shell.input = outer
        if failed and "pipefail" in shell.state.options:
            shell.status = failed
    else:
        shell.status = SUCCESS
    shell.tested -= is_tested
    if shell.assigning:
        hide_assigned(shell)
        shell.assigning = {}
    if signal:
        return signal
    status = shell.status
    if pipeline.is_negated:
        shell.status = status._replace(code=None if status.code is None else int(not status.code))
    may_fail = len(pipeline.commands) != 1 or _may_fail(pipeline.commands[0])
    if not (shell.status.code and may_fail and not shell.tested and not is_tested):
        return None
    if shell.error_trap and not shell.calls and not shell.nested:
        trap, shell.error_trap = shell.error_trap, ()
        signal = control.run_text(shell, trap, shell.place)
        shell.error_trap, shell.status = trap, status
        if signal:
            return signal
    if "e" in shell.state.options:
        if status.origin == "certain":
            return Signal("exit")
        shell.reached = False
    return None


def _may_fail(command: syntax.Command) -> bool:
    """Whether `set -e` looks at the status of this command: of compound ones only at a subshell's."""
    if isinstance(command, syntax.Redirected):
        return _may_fail(command.command)
    if isinstance(command, syntax.GroupNode):
        return command.is_subshell
    return isinstance(command, syntax.Simple | syntax.Calculation | syntax.ConditionNode)


# Commands


def _run_command(shell: Shell, command: syntax.Command) -> Signal | None:
    shell.depth += 1
    if shell.depth > MOST_NESTED:
        raise TooMuch
    signal = _dispatch(shell, command)
    shell.depth -= 1
    return signal


def _dispatch(shell: Shell, command: syntax.Command) -> Signal | None:
    match command:
        case syntax.Simple():
            return _run_simple(shell, command)
        case syntax.Redirected():
            return _run_redirected(shell, command.redirections, partial(_dispatch, shell, command.command))
        case syntax.GroupNode(is_subshell=False):
            return _run_items(shell, command.items)
        case syntax.GroupNode():
            control.run_subshell(shell, partial(_run_items, shell, command.items))
        case syntax.If():
            return _run_if(shell, command)
        case syntax.While() | syntax.For() | syntax.ForArithmetic():
            return _run_loop(shell, command)
        case syntax.CaseNode():
            return _run_case(shell, command)
        case syntax.FunctionNode():
            shell.state.functions[command.name] = command.body
            shell.status = SUCCESS
        case syntax.Calculation():
            try:
                value, outside = calculate(shell, command.parts, is_fatal=False)
            except Skip:
                value, outside = 0, shell.arithmetic_outside
            code = None if value is None else int(not value)
            shell.status = Status(code, "given" if outside else "certain", shell.arithmetic_why)
        case syntax.ConditionNode():
            run_condition(shell, command)
    return None


def _run_redirected(shell: Shell, redirections: Iterable[syntax.Redirection], go: Run) -> Signal | None:
    outer = shell.input, shell.output
    hidden = hide_assigned(shell)
    for redirection in redirections:
        if redirection.operator in ("<", "<<", "<<-", "<<<"):
            source = _redirected_input(shell, redirection)
            if redirection.descriptor in ("", "0"):
                shell.input = source
            continue
        run_commands_in(shell, redirection.target.parts)
        if redirection.descriptor in ("", "1") and redirection.operator not in ("<&", "<>"):
            shell.output = None
    for name, variable in hidden.items():
        restore(shell, name, variable)
    try:
        return go()
    finally:
        shell.input, shell.output = outer


def _redirected_input(shell: Shell, redirection: syntax.Redirection) -> Input:
    parts, body = redirection.target.parts, redirection.body()
    if body is not None:
        is_literal = redirection.is_literal
        literal = syntax.Literal(body.text, body.at[: len(body.text)], quoted=True)
        return Input(expand_value(shell, (literal,) if is_literal else syntax.read_document(body)))
    if redirection.operator == "<<<":
        return Input((*expand_value(shell, parts), ValuePiece("\n")))
    if redirection.operator == "<" and len(parts) == 1:
        (part,) = parts
        if isinstance(part, syntax.Substitution) and part.is_file:
            return Input(control.printed_by(shell, partial(_run_items, shell, part.script)))
        if redirection.target.raw == "/dev/null":
            return Input(())
    run_commands_in(shell, parts)
    return Input(None)


# Branches


@dataclass
class _Branches:
    """Outcome of the branches of an `if` that may or may not run."""

    states: list[State] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    doubt: str = "the result of a command"
    likely: Status | None = None
    """Status after the branch that is taken if programs succeed."""
    ended: Status | None = None
    """The status with which that branch ends the script or the function."""
    is_sure: bool = True
    """Whether the choice of the branch only depends on the success of programs."""
    is_lost: bool = False
    """Whether bash gives up within the `if`."""


def _run_if(shell: Shell, command: syntax.If) -> Signal | None:
    ends = _Branches()
    reached, conditional = shell.reached, shell.conditional
    signal: Signal | None = None
    for index, (condition, body) in enumerate(command.clauses):
        now = shell.reached
        shell.tested += 1
        signal = _run_items(shell, condition)
        shell.tested -= 1
        ends.is_lost |= now and not shell.reached
        if signal:
            break
        status, now = shell.status, shell.reached
        if status.code is None or status.origin == "assumed":
            _run_perhaps(shell, body, status, ends)
        elif status.code == 0:
            if status.origin == "given":
                for other in (*(after for _, after in command.clauses[index + 1 :]), command.otherwise):
                    if other:
                        control.run_untaken(shell, partial(_run_items, shell, other))
            signal = _run_taken(shell, partial(_run_items, shell, body), status)
            break
        elif status.origin == "given":
            control.run_untaken(shell, partial(_run_items, shell, body))
            shell.conditional += 1
    else:
        now = shell.reached
        if command.otherwise:
            signal = _run_items(shell, command.otherwise)
        else:
            shell.status = SUCCESS
    ends.is_lost |= ends.is_sure and now and not shell.reached
    if (shell.conditional > conditional and ends.states) or ends.signals:
        shell.reached = reached and not ends.is_lost
    if ends.ended:
        shell.reached, shell.exit_status = False, ends.ended
    shell.conditional = conditional
    return _join_branches(shell, ends, signal)


def _run_perhaps(shell: Shell, body: Sequence[syntax.Item], status: Status, ends: _Branches) -> None:
    """Run a branch that may be taken, depending on an uncertain status."""
    before, ends.doubt, ends.is_sure = shell.copied(), status.why, ends.is_sure and status.code is not None
    reached, is_likely = shell.reached, shell.reached and not status.code
    shell.conditional += 1
    shell.reached = is_likely
    signal = _run_items(shell, body)
    if signal:
        ends.signals.append(signal)
    else:
        ends.states.append(shell.state)
        ends.is_lost |= ends.is_sure and is_likely and not shell.reached
    if status.code == 0 and not signal:
        ends.likely = ends.likely or shell.status
    elif status.code == 0 and signal and (shell.reached or not reached) and signal.kind in ("exit", "return"):
        ends.ended = shell.status._replace(origin="assumed")
        shell.returned = ends.ended if signal.kind == "return" else shell.returned
    shell.reached = reached and status.code != 0
    shell.state, shell.status = before, Status(None)


def _join_branches(shell: Shell, ends: _Branches, signal: Signal | None) -> Signal | None:
    """Continue after an `if`, whose last branch has ended in the present state or with a signal."""
    states, signals = ends.states, ends.signals
    if not states and not signals:
        return signal
    likely = ends.likely or shell.status
    if signal:
        signals.append(signal)
        if not states:
            return signals[0] if len({end.kind for end in signals}) == 1 else Signal("exit")
        shell.state = states.pop()
    shell.may_break |= any(end.kind in ("break", "continue") for end in signals)
    for state in states:
        control.merge(shell, state, ends.doubt)
    is_sure = ends.is_sure and likely.code is not None
    shell.status = Status(likely.code, "assumed", likely.why) if is_sure else Status(None, why=ends.doubt)
    return None


def _run_case(shell: Shell, command: syntax.CaseNode) -> Signal | None:
    word = expand_value(shell, command.word.parts)
    text, outside, why = values.plain(word), values.is_outside(word), values.reason(word)
    if text is None:
        before, ends = shell.copied(), []
        for _, body, _ in command.branches:
            shell.state = before.copy()
            control.run_maybe(shell, partial(_run_items, shell, body), why)
            ends.append(shell.state)
        shell.state = before
        for state in ends:
            control.merge(shell, state, why)
        shell.status = Status(None, why=why)
        return None
    goes_on = done = is_run = False
    for patterns, body, end in command.branches:
        go = partial(_run_items, shell, body)
        matched = goes_on or (not done and _matches_any(shell, patterns, text))
        if matched is None:
            control.run_maybe(shell, go, "a pattern")
            is_run = True
        elif matched:
            signal = _run_taken(shell, go, Status(0, "given" if outside else "certain"))
            if signal:
                return signal
            goes_on, done = end == ";&", end == ";;"
            is_run = bool(body)
        elif outside:
            control.run_untaken(shell, go)
    if not is_run:
        shell.status = SUCCESS
    return None


def _matches_any(shell: Shell, patterns: Iterable[syntax.WordNode], text: str) -> bool | None:
    for node in patterns:
        pattern = expand_pattern(shell, node.parts)
        if pattern is None:
            return None
        shell.spend(pattern.work(text))
        if pattern.matches(text):
            return True
    return False


# Loops


def _run_loop(shell: Shell, command: syntax.While | syntax.For | syntax.ForArithmetic) -> Signal | None:
    shell.loops += 1
    try:
        match command:
            case syntax.While():
                return _run_while(shell, command)
            case syntax.For():
                return _run_for(shell, command)
            case syntax.ForArithmetic():
                return _run_for_arithmetic(shell, command)
    finally:
        shell.loops -= 1


def _run_turn(shell: Shell, go: Callable[[], Signal | None]) -> tuple[bool, Signal | None, bool]:
    """Run a loop's body once.

    Returns whether it ends the loop, the signal for enclosing loops, and whether it may have ended.
    """
    may_break, shell.may_break = shell.may_break, False
    signal = go()
    may_be_over, shell.may_break = shell.may_break, may_break
    ended = _loop_signal(signal) if signal else None
    return signal is not None and (signal.kind != "continue" or ended is not None), ended, may_be_over


def _loop_signal(signal: Signal) -> Signal | None:
    """Signal of a loop's body as seen by the enclosing loops."""
    if signal.kind in ("break", "continue"):
        return Signal(signal.kind, signal.levels - 1) if signal.levels > 1 else None
    return signal


def _run_while(shell: Shell, command: syntax.While) -> Signal | None:
    ended = SUCCESS
    go = partial(_run_items, shell, command.body)
    for turn in range(MOST_ROUNDS + 1):
        before, unread, getopts_place = shell.copied(), shell.input.place, shell.getopts_place
        shell.tested += 1
        signal = _run_items(shell, command.condition)
        shell.tested -= 1
        if signal:
            return _loop_signal(signal)
        status = shell.status
        if status.code is None or status.origin == "assumed":
            likely = status.code is None or (status.code == 0) != command.is_until
            control.run_maybe(shell, go, status.why, likely=likely)
            break
        if (status.code == 0) == command.is_until:
            if status.origin == "given" and not turn:
                control.run_untaken(shell, go)
            break
        is_over, signal, may_be_over = _run_turn(shell, go)
        if is_over:
            shell.status = SUCCESS
            return signal
        if may_be_over:
            control.merge(shell, before, status.why)
            break
        ended = shell.status
        if (
            status.origin == "certain"
            and shell.state.variables == before.variables
            and shell.input.place == unread
            and shell.getopts_place == getopts_place
            and shell.state.positional == before.positional
        ):
            return Signal("skip" if shell.lost else "exit")
    else:
        raise TooMuch
    shell.status = ended
    return None


def _run_for(shell: Shell, command: syntax.For) -> Signal | None:
    if command.words is None:
        fields = [values.as_field(value) for value in shell.state.positional or ()]
        if shell.state.positional is None:
            control.run_untaken(shell, partial(_run_round, shell, command, values.unknowable("unset variable @")))
    else:
        fields = [made for word in command.words for made in expand_fields(shell, word)[0]]
    conditional = shell.conditional
    if not fields:
        shell.status = SUCCESS
    if command.is_select:
        control.run_maybe(shell, partial(_run_round, shell, command, values.unknowable("input")), "input")
        return None
    for turn, item in enumerate(fields):
        if turn >= MOST_ROUNDS:
            raise TooMuch
        value = tuple(piece._replace(quoted=False) for piece in item.pieces)
        go: Run = partial(_run_round, shell, command, value)
        if item.is_absent and item.pieces:
            control.run_untaken(shell, go)
            continue
        is_over, signal, may_be_over = _run_turn(
            shell, partial(control.run_maybe, shell, go, values.reason(item.pieces)) if item.is_many else go
        )
        if is_over:
            shell.conditional = conditional
            return signal
        shell.conditional += may_be_over
    shell.conditional = conditional
    return None


def _run_round(shell: Shell, command: syntax.For, value: Value) -> Signal | None:
    assign(shell, command.name, value)
    shell.rounds.append((command.name, values.plain(value) or ""))
    signal = _run_items(shell, command.body)
    shell.rounds.pop()
    return signal


def _run_for_arithmetic(shell: Shell, command: syntax.ForArithmetic) -> Signal | None:
    begin, test, step = command.steps
    go = partial(_run_items, shell, command.body)
    ended = SUCCESS
    _run_step(shell, begin)
    is_endless = not "".join(part.text if isinstance(part, syntax.Literal) else "x" for part in test).strip()
    for _ in range(MOST_ROUNDS + 1):
        value, outside = (1, False) if is_endless else _run_step(shell, test)
        if value is None:
            control.run_maybe(shell, go, shell.arithmetic_why)
            control.run_maybe(shell, partial(_calculate_only, shell, step), shell.arithmetic_why)
            break
        if not value:
            if outside:
                control.run_untaken(shell, go)
            break
        before = shell.copied()
        is_over, signal, may_be_over = _run_turn(shell, go)
        if is_over:
            shell.status = SUCCESS
            return signal
        if may_be_over:
            control.merge(shell, before, "the result of a command")
            break
        ended = shell.status
        _run_step(shell, step)
    else:
        raise TooMuch
    shell.status = ended
    return None


def _run_step(shell: Shell, parts: syntax.Parts) -> tuple[int | None, bool]:
    """Work out one of the three expressions of a loop; one that cannot be read ends it."""
    try:
        return calculate(shell, parts)
    except Skip:
        return 0, False


def _calculate_only(shell: Shell, parts: syntax.Parts) -> None:
    _run_step(shell, parts)


# Simple commands


def _run_simple(shell: Shell, command: syntax.Simple) -> Signal | None:
    shell.place = command.start
    shell.answer = None
    shell.steps += 1
    if shell.steps > MOST_STEPS:
        raise TooMuch
    fields: list[Field] = []
    words: list[Word] = []
    declared: list[syntax.AssignmentNode] = []
    for node in command.words:
        if isinstance(node, syntax.AssignmentNode):
            is_plain = node.elements is not None or node.subscript is not None or not has_braces(node.value.parts)
            if is_plain or expand_braces(node.value.parts, MOST_WORDS - shell.word_count)[0] is node.value.parts:
                declared.append(node)
                continue
            node = values.assignment_word(node)  # noqa: PLW2901 - braces make plain words of it: `export X={a,b}` assigns twice
        is_declaration = bool(declared) or (bool(words) and words[0].value in DECLARES)
        made, expands = expand_fields(shell, node, assigns=is_declaration)
        shell.count_words(len(made))
        fields += made
        words += [values.as_word(item, node, expands) for item in made]
    go = partial(_execute, shell, command, fields, words, declared)
    return _run_redirected(shell, command.redirections, go) if command.redirections else go()


def _execute(
    shell: Shell, command: syntax.Simple, fields: list[Field], words: list[Word],
    declared: list[syntax.AssignmentNode],
) -> Signal | None:  # fmt: skip
    if not words and not declared:
        shell.failed = False
        for assignment in command.assignments:
            assign_node(shell, assignment, is_listed=True)
        shell.status = FAILURE if shell.failed else shell.answer or SUCCESS
        return None
    name = words[0].value if words else None
    if name in ("command", "builtin") and len(words) > 1:
        inner = words[1].value
        if inner in BUILTINS or inner in DECLARES:
            fields, words, name = fields[1:], words[1:], inner
    if name in DECLARES:
        declare(shell, str(name), fields[1:], words[1:], declared)
        return None
    if name is not None and name in shell.state.functions:
        return _call(shell, shell.state.functions[name], fields, command)
    if name in BUILTINS:
        return _run_builtin(shell, command, lambda: BUILTINS[name](shell, fields, words, command))
    note_invocation(shell, words, command)
    if name == "exec" and len(words) > 1:
        shell.traps = []
        return Signal("exit")
    if name not in _SHELLS or not _run_inner_shell(shell, fields):
        shell.status = _outcome(name)
    shell.write(printed(shell, name, fields[1:]))
    return None


def _outcome(name: str | None) -> Status:
    """The exit status of a program: no program is called like an option, some answer a question, others succeed."""
    if name is None or name.rpartition("/")[2] in word_list("answers"):
        return Status(None)
    return Status(_NOT_FOUND) if name.startswith("-") or not name else Status(0, "assumed")


def _run_builtin(shell: Shell, command: syntax.Simple, go: Run) -> Signal | None:
    assignments = assignable(shell, command.assignments)
    saved = {node.name: shell.state.variables.get(node.name) for node in assignments}
    for node in assignments:
        assign_node(shell, node)
        export(shell, node.name)
    try:
        return go()
    finally:
        for name, variable in saved.items():
            restore(shell, name, variable)


def _call(shell: Shell, body: syntax.Command, fields: Sequence[Field], command: syntax.Simple) -> Signal | None:
    positional, loops, returned, reached = shell.state.positional, shell.loops, shell.returned, shell.reached
    shell.returned, shell.loops = None, 0
    # `main "$@"` gets the script's own arguments, which are unknown.
    handed = [word.raw for word in command.words[1:] if isinstance(word, syntax.WordNode)]
    if positional is not None or handed != ['"$@"']:
        shell.state.positional = [values.as_element(item) for item in fields[1:]]
    shell.calls.append({})
    for assignment in assignable(shell, command.assignments):
        make_local(shell, assignment.name)
        assign_node(shell, assignment)
        export(shell, assignment.name)
    try:
        signal = _run_command(shell, body)
    finally:
        for name, variable in shell.calls.pop().items():
            restore(shell, name, variable)
        shell.state.positional, shell.loops = positional, loops
    if signal and signal.kind == "return":
        signal = None
    if shell.returned and not signal:
        shell.reached, shell.status = reached, shell.returned
    shell.returned = returned
    return signal


def _run_inner_shell(shell: Shell, fields: Sequence[Field]) -> bool:
    """Run `bash -c 'script'`, or `bash` reading its input; returns whether the script is known."""
    texts = [values.plain(tuple(item.pieces)) or "" for item in fields]
    index = 1
    while index < len(texts) and re.fullmatch(r"[-+](?!-\Z)(?![A-Za-z]*c)\S*", texts[index]):
        index += 1
    words = [tuple(item.pieces) for item in fields]
    if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", "".join(texts[index : index + 1])) and index + 1 < len(texts):
        script, name, arguments = words[index + 1], (words[index + 2 :] or words)[0], words[index + 3 :]
    elif (index == len(texts) or any(text[:2] == "-s" for text in texts[1:index])) and (rest := shell.input.rest()):
        script, name, arguments = rest, words[0], words[index:]
    else:
        return False

    def go() -> Signal | None:
        state = shell.state
        state.variables = {
            name: Variable(values.unknowable(v.export_doubt), is_exported=True) if v.export_doubt else v
            for name, v in (state.variables | passed).items()
            if v.is_exported
        }
        letters = "".join(text[1:] for text in texts[1 : index + 1] if text[:1] == "-")
        state.functions, state.options, state.environment = {}, frozenset(letters), None
        state.positional, state.name = arguments, name
        shell.status = SUCCESS
        return control.run_text(shell, script, shell.place)

    passed = shell.passed
    tested, shell.tested = shell.tested, 0
    control.run_subshell(shell, go)
    shell.tested = tested
    return not values.reason(script) and values.plain(script) is not None
