"""Try mutants in forks of a process with imported code and collected tests.

python tests/mutant_screen.py ORDERS PYTEST_ARGUMENT ...     run by `mutants`, in its copy of the project

Each line of ORDERS is a mutant: its number, the module's path, the module's changed source and the changed lines. A
line of JSON is printed for each killed one; the others are undecided, as a filled cache may hide
them, and code that runs at import cannot be changed here. The first line has the number of tests, and
those excluded because they fail under tracing.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import pickle
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol

_Place = tuple[str, int, str]
"""A function: its file, first line and qualified name."""
_IS_FUNCTION = 0x2
"""The flag that a function's code has, and a class' or a module's has not (inspect.CO_NEWLOCALS)."""
_PATIENCE, _LEAST_S = 5, 5
"""A test that exceeds this multiple of its usual time, plus some seconds, has failed."""


def _place(code: CodeType) -> _Place:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (each for each in code.co_consts if isinstance(each, CodeType))


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The outermost functions of a module's code, including those of classes."""
    for each in _inner(code):
        if each.co_flags & _IS_FUNCTION:
            yield each
        else:
            yield from _functions(each)


def _around(code: CodeType) -> Any:
    """A module's code without the bodies of its functions."""
    rest = [
        (_around(each) if not each.co_flags & _IS_FUNCTION else None) if isinstance(each, CodeType) else repr(each)
        for each in code.co_consts
    ]
    return code.co_code, code.co_names, rest


def changed_functions(path: str, before: str, after: str) -> list[tuple[CodeType, CodeType]]:
    """The changed functions, before and after; none if other code differs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a mutant may compare with `is`
        old, new = compile(before, path, "exec"), compile(after, path, "exec")
    if _around(old) != _around(new):
        return []
    return [(a, b) for a, b in zip(_functions(old), _functions(new), strict=True) if a != b]


def _in_fork(work: Callable[[], int]) -> int:
    """The exit status of this work in a forked process."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (1, 2):
                os.dup2(silent, stream)
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Screen:
    """A plugin that, instead of running the tests once, runs them once for each mutant."""

    def __init__(self, orders: Sequence[dict[str, Any]], told: Any) -> None:
        self.orders, self.told = orders, told
        self.reached: dict[str, dict[int, list[str]]] = {}
        """By file and line the tests that run it."""
        self.seconds: dict[str, float] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Trace the tests in a fork, then try each mutant in a separate one."""
        gc.collect()
        gc.freeze()
        with tempfile.NamedTemporaryFile() as kept:
            _in_fork(lambda: self._traced(session.items, kept.name))
            self.reached, self.seconds = pickle.loads(Path(kept.name).read_bytes())  # noqa: S301 - our own
        failing = [item.nodeid for item in session.items if item.nodeid not in self.seconds]
        self._tell({"ran": len(self.seconds), "left_out": failing})
        for order in self.orders:
            if self._is_killed(session.items, order):
                self._tell({"number": order["number"]})
        return True

    def _tell(self, line: dict[str, Any]) -> None:
        self.told.write(json.dumps(line) + "\n")
        self.told.flush()

    def _traced(self, items: Sequence[pytest.Item], kept: str) -> int:
        seconds: dict[str, float] = {}
        measured = coverage.Coverage(data_file=None, config_file=False, include=[f"{Path.cwd()}/lib/*"])
        measured.start()
        for item, following in zip(items, [*items[1:], None], strict=True):
            measured.switch_context(item.nodeid)
            begun = time.monotonic()
            if not _fails(item, following):
                seconds[item.nodeid] = time.monotonic() - begun
        measured.stop()
        data = measured.get_data()
        reached = {name: data.contexts_by_lineno(name) for name in data.measured_files()}
        Path(kept).write_bytes(pickle.dumps((reached, seconds)))
        return 0

    def _is_killed(self, items: Sequence[pytest.Item], order: dict[str, Any]) -> bool:
        path = Path(order["path"])
        pairs = changed_functions(str(path), path.read_text("utf-8"), order["source"])
        if not pairs:
            return False
        reached = self.reached.get(str(path), {})
        names = {name for line in range(*order["lines"]) for name in reached.get(line, ())} & self.seconds.keys()
        chosen = sorted((item for item in items if item.nodeid in names), key=lambda item: self.seconds[item.nodeid])
        if not chosen:
            return False

        def run() -> int:
            _swap({_place(before): after for before, after in pairs})
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                signal.setitimer(signal.ITIMER_REAL, _LEAST_S + _PATIENCE * self.seconds[item.nodeid])
                if _fails(item, following):
                    return 1
            return 0

        return _in_fork(run) in (1, -signal.SIGALRM)


def _fails(item: pytest.Item, following: pytest.Item | None) -> bool:
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def _swap(new: dict[_Place, CodeType]) -> None:
    """Replace the code of functions, and clear their caches.

    Raises:
        LookupError: None of them exists.
    """
    gc.unfreeze()
    found = 0
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and _place(each.__code__) in new:
            each.__code__ = new[_place(each.__code__)]
            found += 1
        elif isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()
    if not found:
        raise LookupError("no such function")


def main() -> None:
    """Run the command line."""
    orders = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    pytest.main(["-q", "-s", "-n", "0", *sys.argv[2:]], plugins=[Screen(orders, told)])


if __name__ == "__main__":
    main()
