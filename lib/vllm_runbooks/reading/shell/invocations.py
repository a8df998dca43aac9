"""Record the programs that a script runs, each with its words and its environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vllm_runbooks.reading.shell import syntax, values
from vllm_runbooks.reading.shell.state import Shell
from vllm_runbooks.reading.shell.values import Assignment, Invocation, Variable, Word
from vllm_runbooks.reading.shell.variables import appended, exported_environment, restore
from vllm_runbooks.reading.shell.words import assignable, expand_value


def note_invocation(shell: Shell, words: list[Word], command: syntax.Simple) -> None:
    """Note a program that runs."""
    environment = exported_environment(shell)
    assigned: list[Assignment] = []
    shell.passed = {}
    if command.assignments:
        prefix = _assign_before(shell, command, assigned)
        environment = exported_environment(shell)
        shell.spend(len(environment))
        environment = MappingProxyType({**environment, **prefix})
    if shell.background:
        shell.waiting.append(len(shell.result.invocations))
    shell.result.invocations.append(
        Invocation(
            tuple(words), tuple(assigned), environment, command.start, command.end,
            is_background=bool(shell.background), is_conditional=bool(shell.conditional), is_reached=shell.reached,
            is_nested=bool(shell.nested), round=tuple(shell.rounds),
            documents=tuple(body for redirection in command.redirections if (body := redirection.body()) is not None),
        )
    )  # fmt: skip


def _assign_before(shell: Shell, command: syntax.Simple, assigned: list[Assignment]) -> Mapping[str, str | None]:
    """Evaluate the assignments before a program, which only apply to it."""
    prefix: dict[str, str | None] = {}
    saved: dict[str, Variable | None] = {}
    outer, shell.assigning = shell.assigning, dict(shell.assigning)
    try:
        for node in assignable(shell, command.assignments):
            saved.setdefault(node.name, shell.state.variables.get(node.name))
            value = values.unknowable("a list")
            if node.elements is None:
                value = expand_value(shell, node.value.parts, assigns=True)
            if node.is_appended:
                value = appended(shell, node.name, value)
            assigned.append(
                Assignment(node.name, values.as_whole_word(value, node.value), node.start, node.end, exported=True)
            )
            new = Variable(value, is_exported=True)
            shell.state.variables[node.name] = new
            shell.assigning[node.name] = saved[node.name], new
            shell.state.environment = None
        # Read at the end: `${A:=x}` in one of them may set another.
        for name in saved:
            value = shell.state.variables[name].value or ()
            prefix[name] = None if values.reason(value) else values.plain(value)
            shell.passed[name] = shell.state.variables[name]
    finally:
        shell.assigning = outer
        for name, variable in saved.items():
            restore(shell, name, variable)
        if shell.lost:
            shell.lost = shell.copied()
    return prefix


def hide_assigned(shell: Shell) -> dict[str, Variable | None]:
    """Hide assignments before the command from all but the first command of a substitution."""
    hidden: dict[str, Variable | None] = {}
    for name, (before, assigned) in shell.assigning.items():
        if shell.state.variables.get(name) is assigned:
            hidden[name] = assigned
            restore(shell, name, before)
    return hidden
