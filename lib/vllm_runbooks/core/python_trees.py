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
    """The tree of a program; it raises what `ast.parse` does."""
    with _alone():
        return ast.parse(text)


def literal(text: str) -> Any:
    """The value of a literal; it raises what `ast.literal_eval` does."""
    with _alone():
        return ast.literal_eval(text)


@contextmanager
def _alone() -> Iterator[None]:
    with _ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in the text is no concern of whoever runs this
        yield
