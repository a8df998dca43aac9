"""Run parts of a script in a subshell, or conditionally, with their effects on the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.shell import syntax, values
from vllm_runbooks.reading.shell.state import FAILURE, SUCCESS, WANTING, Shell, Signal, Skip, Status, Stop
from vllm_runbooks.reading.shell.values import State, Value, ValuePiece, Variable

Run = Callable[[], Signal | None]

_FIRST_SIGN, _MOST_SIGNS = 0xF0000, 0xFFF0
"""Characters for private use, and how many there are."""


def caught(shell: Shell, run: Run) -> Signal | None:
    """Run something; an error of expansion in it becomes a signal."""
    counts = shell.depth, shell.tested, shell.background, shell.nested, shell.conditional, len(shell.rounds)
    try:
        return run()
    except (Skip, Stop) as error:
        shell.depth, shell.tested, shell.background, shell.nested, shell.conditional, rounds = counts
        del shell.rounds[rounds:]
        shell.status = FAILURE
        return Signal("skip" if isinstance(error, Skip) else "exit")


def run_untaken(shell: Shell, run: Run) -> None:
    """Read the commands of a branch that is not taken, without effect."""
    before, status, reached, may_break = shell.copied(), shell.status, shell.reached, shell.may_break
    output, shell.output = shell.output, None
    shell.conditional += 1
    shell.reached = False
    caught(shell, run)
    shell.conditional -= 1
    shell.state, shell.status, shell.reached, shell.may_break = before, status, reached, may_break
    shell.output = output


def run_maybe(shell: Shell, run: Run, why: str, *, likely: bool = True) -> None:
    """Run commands that may or may not run: state that differs afterwards is unknown."""
    before, reached = shell.copied(), shell.reached
    shell.conditional += 1
    shell.reached = reached and likely
    signal = caught(shell, run)
    shell.conditional -= 1
    shell.reached = reached
    if signal:
        shell.may_break |= signal.kind in ("break", "continue")
        shell.state = before
    else:
        merge(shell, before, why)


def merge(shell: Shell, other: State, why: str) -> None:
    """Keep the part of the state on which both states agree."""

    def of_absent(name: str) -> Variable:
        return Variable(() if name in state.unset else values.unset_value(name))

    state = shell.state
    shell.spend(len(state.variables) + len(other.variables))
    for name in {*state.variables, *other.variables}:
        variable, another = state.variables.get(name), other.variables.get(name)
        if variable is not another:
            state.variables[name] = values.merged(variable or of_absent(name), another or of_absent(name), why)
    state.unset &= other.unset
    state.functions = {**other.functions, **state.functions}
    if [values.plain(value) for value in state.positional or ()] != [
        values.plain(value) for value in other.positional or ()
    ]:
        state.positional = [values.several(why)]
    state.options &= other.options
    state.sourced |= other.sourced
    state.environment = None
    state.ifs = state.ifs if state.ifs == other.ifs else None


def run_subshell(shell: Shell, run: Run) -> None:
    """Run something in a copy of the shell."""
    before, reached, traps, calls, loops = shell.copied(), shell.reached, shell.traps, shell.calls, shell.loops
    error_trap, assigning, lost = shell.error_trap, shell.assigning, shell.lost
    shell.traps, shell.calls, shell.loops, shell.error_trap = [], [dict(saved) for saved in calls], 0, ()
    shell.exit_status = WANTING
    caught(shell, run)
    shell.assigning, shell.lost = assigning, lost
    if shell.traps:
        status, was_reached = shell.status, shell.reached
        run_traps(shell, reached=reached)
        shell.status, shell.reached = status, was_reached
    if reached and not shell.reached:
        shell.status = shell.exit_status
    shell.state, shell.reached, shell.traps, shell.calls, shell.loops = before, reached, traps, calls, loops
    shell.error_trap = error_trap


def run_traps(shell: Shell, *, reached: bool) -> None:
    """Run the EXIT trap of a shell."""
    for trap, is_set in shell.traps[-1:]:
        shell.traps, shell.reached = [], reached and is_set
        caught(shell, partial(run_text, shell, trap, shell.place))


def printed_by(shell: Shell, run: Run) -> Value:
    """Output of commands in a subshell."""
    output, shell.output = shell.output, []
    sure, shell.sure = shell.sure, (shell.conditional, shell.background)
    run_subshell(shell, run)
    printed, shell.output, shell.sure = shell.output, output, sure
    return tuple(printed)


def run_substitution(shell: Shell, items: Sequence[syntax.Item]) -> Value:
    """Output of the commands of a substitution, without trailing line ends."""
    shell.nested += 1
    printed = printed_by(shell, partial(shell.run_items, shell, items))
    shell.nested -= 1
    if not items:
        shell.status = SUCCESS
    shell.answer = shell.status
    if values.plain(printed) is None:
        return values.unknowable("command substitution")
    pieces = list(printed)
    for index in range(len(pieces) - 1, -1, -1):
        text = pieces[index].text or ""
        cut = text.rstrip("\n")
        pieces[index : index + 1] = values.cut_value((pieces[index],), 0, len(cut)) if text else (pieces[index],)
        if cut:
            break
    return tuple(pieces)


def run_lines(shell: Shell, lines: Sequence[Sequence[syntax.Item]]) -> Signal | None:
    """Run lines as bash reads them: an error of expansion skips the rest of its line."""
    for line in lines:
        reached = shell.reached
        signal = caught(shell, partial(shell.run_items, shell, line))
        if shell.lost:
            shell.state, shell.lost, shell.reached = shell.lost, None, reached
        if signal and signal.kind != "skip":
            return signal
    return None


def run_text(shell: Shell, value: Value, place: int) -> Signal | None:
    """Run a value as commands; `place` is the offset of commands that are not in the file."""
    if not any(not piece.why and (piece.text or "").strip() for piece in value):
        return None
    text = ""
    at: list[int] = []
    for piece in value:
        if piece.why == "\0many":
            continue
        if piece.text is None or piece.why:  # a character replaces the unknown part
            sign = chr(_FIRST_SIGN + len(shell.signs) % _MOST_SIGNS)
            shell.signs[sign] = piece
            piece = ValuePiece(sign)  # noqa: PLW2901
        text += piece.text or ""
        at.extend(piece.at if piece.at is not None else [at[-1] + 1 if at else place] * len(piece.text or ""))
    shell.spend(len(text) * 4)
    tree = syntax.read(Excerpt(text, [*at, at[-1] + 1]), takes_groups="extglob" in shell.state.options)
    signal = run_lines(shell, tree.lines)
    if tree.faults and not signal:
        shell.status = Status(2)
    return signal
