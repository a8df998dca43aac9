"""Reads a shell script: the commands that bash would run, with positions, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vllm_runbooks.core.excerpt import Excerpt
from vllm_runbooks.reading.shell import run, syntax, troubles
from vllm_runbooks.reading.shell.troubles import Trouble
from vllm_runbooks.reading.shell.values import Assignment, Invocation, Word

__all__ = ["Assignment", "Invocation", "Script", "Trouble", "Word", "read"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Script:
    """The result of reading a script."""

    invocations: tuple[Invocation, ...]
    """Every program and builtin that bash runs, or would run under other circumstances, in order."""
    assignments: tuple[Assignment, ...]
    troubles: tuple[Trouble, ...]


def read(source: Excerpt, *, known: Mapping[str, str] = _NOTHING) -> Script:
    """Read a script; `known` are variables that are set from outside. Nothing is executed, nothing raised."""
    tree = syntax.read(source)
    done = run.run(tree, known)
    return Script(tuple(done.invocations), tuple(done.assignments), tuple(troubles.find(source, tree, done)))
