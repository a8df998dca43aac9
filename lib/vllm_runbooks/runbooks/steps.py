"""Resumable steps of a run: each stores its result as JSON, which is read instead of repeating it.

    started = steps.do("start", lambda: live.start(command), Guarded, timeout_s=900)

A resumed run executes every cell in a new kernel; completed steps return their records.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from vllm_runbooks.core.display import SCHEMA
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.record_forms import document, record
from vllm_runbooks.core.redaction.redact import redact_text

FOLDER = "RUNBOOKS_STEPS"
"""Variable with the folder of a run's steps; without it no results are stored."""
AGAIN = "RUNBOOKS_STEP"
"""Variable with a step to do again."""
TRIES, TIMEOUT_S = "RUNBOOKS_STEP_TRIES", "RUNBOOKS_STEP_TIMEOUT"
"""Variables that override tries and timeout of each step."""
_KEPT = "kept.txt"
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
T = TypeVar("T")
N = TypeVar("N")


class StepTimeoutError(RunbooksError):
    """A step took longer than it may."""


def folder() -> Path | None:
    path = os.environ.get(FOLDER)
    return Path(path) if path else None


def do(
    name: str,
    action: Callable[[], T],
    kind: type[T],
    *,
    asked: object = None,
    is_done: Callable[[T], bool] = lambda _: True,
    timeout_s: float | None = None,
    tries: int = 1,
    pause_s: float = 1.0,
) -> T:
    """Run a step, or return its stored result for the same inputs.

    A result that is not `is_done` is stored, and repeated by a resumed run. Only the main thread
    has `timeout_s`; our own errors and those of the system are retried.
    """
    if not name or not set(name) <= _NAME:
        raise InputError(f"{name!r}: is not a step name; use lowercase letters, digits and hyphens")
    digest = hashlib.sha256(redact_text(repr(asked)).encode()).hexdigest()
    left = _read(name, kind, digest)
    if left is not None:
        with suppress(OSError), (Path(os.environ[FOLDER]) / _KEPT).open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
        return left
    tries, timeout_s = _given(TRIES, int, tries), _given(TIMEOUT_S, float, timeout_s)
    began = time.monotonic()
    for number in range(1, tries + 1):
        try:
            with _within(timeout_s, name):
                result = action()
        except BaseException as error:
            is_told = isinstance(error, (RunbooksError, OSError))
            if is_told and number < tries:
                time.sleep(pause_s)
                continue
            why = redact_text(f"{error}") if is_told else type(error).__name__
            _keep(name, {"status": "failed", "request": digest, "tries": number, "error": why}, began)
            raise
        status = "done" if is_done(result) else "open"
        _keep(name, {"status": status, "request": digest, "tries": number, "result": document(result)}, began)
        return result
    raise InputError(f"{name}: invalid number of tries {tries}; use 1 or more")


def _given(variable: str, kind: Callable[[str], N], otherwise: N) -> N:
    text = os.environ.get(variable)
    if not text:
        return otherwise
    with suppress(ValueError):
        if float(number := kind(text)) > 0:  # type: ignore[arg-type]
            return number
    raise InputError(f"{variable}: {text[:40]!r} is not a number above 0")


def _read(name: str, kind: type[T], asked: str) -> T | None:
    """The result of a step; None if it is not done, is to be done again, or was done for other inputs."""
    place = folder()
    if place is None or os.environ.get(AGAIN) == name:
        return None
    path = place / f"{name}.json"
    try:
        kept = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); remove it to run the step again") from None
    if not isinstance(kept, dict) or (kept.get("status"), kept.get("request")) != ("done", asked):
        return None
    try:
        return record(kind, kept["result"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path}: is not a {kind.__name__}; remove it to run the step again") from None


def kept(place: Path) -> list[str]:
    """Steps of a folder whose earlier results the last run used."""
    with suppress(OSError):
        return list(dict.fromkeys((place / _KEPT).read_text("utf-8").split()))
    return []


def _keep(name: str, state: Mapping[str, Any], began: float) -> None:
    place = folder()
    if place is None:
        return
    place.mkdir(parents=True, exist_ok=True)
    kept = {"schema": SCHEMA, "step": name, **state, "seconds": round(time.monotonic() - began, 4)}
    store(place / f"{name}.json", json.dumps(kept, ensure_ascii=False, indent=1) + "\n")


@contextmanager
def _within(timeout_s: float | None, name: str) -> Iterator[None]:
    if timeout_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_number: int, _frame: object) -> None:
        raise StepTimeoutError(
            f"step {name}: timed out after {timeout_s:g} s; increase its timeout, or find the reason"
        )

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def clear(place: Path, *, all_of_them: bool) -> None:
    """Remove results of steps: all, or those that are not done."""
    (place / _KEPT).unlink(missing_ok=True)
    for path in place.glob("*.json") if place.is_dir() else ():
        if all_of_them or not is_done(path):
            path.unlink(missing_ok=True)


def stamp(path: Path) -> tuple[int, int] | None:
    """Identify a file's version; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def is_done(path: Path) -> bool:
    try:
        state = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(state, dict) and state.get("status") == "done"
