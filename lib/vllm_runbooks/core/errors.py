"""Exceptions of the library: one line, `where: problem; what to do`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def suggestion(name: str, names: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """Hint for an unknown name: "did you mean …?" with the most similar name, or `otherwise`."""
    from difflib import get_close_matches

    near = get_close_matches(name, sorted(names), n=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else otherwise


class RunbooksError(Exception):
    """Base of all errors raised on purpose; its text is one line that a person can act on."""

    def _render_traceback_(self) -> list[str]:
        """Render one line in IPython in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class InputError(RunbooksError):
    """The request could not be read; nothing was checked."""


class WrongFileError(InputError):
    """The named file is not of the expected kind.

    `wrong` is the problem; `instead` is the hint, which callers that expect another kind replace.
    """

    def __init__(self, wrong: str, instead: str) -> None:
        super().__init__(f"{wrong}; {instead}")
        self.wrong = wrong


class CatalogError(InputError):
    """A catalog file is broken; the text names file, line and field."""


class VerdictFailed(RunbooksError):  # noqa: N818 - what a notebook's reader sees: the verdict is "fail"
    """A runbook found a problem, or its answer differs from the case's expectation."""


def check_texts(**values: object) -> None:
    """Raise InputError if a parameter is a number: a scheduler turns 0.10 into another release."""
    for name, value in values.items():
        if value is not None and not isinstance(value, (str, Path)):
            raise InputError(
                f"{name}: {value!r} is not a string; quote it, or pass it as a string (papermill -r {name} …)"
            )
