"""Parse Python in one thread at a time and without warnings."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ALONE = threading.RLock()
"""Supervisors of several servers read logs and commands concurrently, and parsing changes state of
the process: the warning filters, and before Python 3.11.8 and 3.12.2 the depth of the tree, so that
concurrent parsing ends in a SystemError (python/cpython#106905)."""


def parse(text: str) -> ast.Module:
    """Tree of a program; raises the exceptions of `ast.parse`."""
    with _alone():
        return ast.parse(text)


def literal(text: str) -> Any:
    """Value of a literal; raises the exceptions of `ast.literal_eval`."""
    with _alone():
        return ast.literal_eval(text)


@contextmanager
def _alone() -> Iterator[None]:
    with _ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the text are irrelevant for the user
        yield
