"""Options and types of values that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhdw]?)", re.ASCII)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def span(text: str, *, is_bare: bool = True) -> float | None:
    """Seconds of a duration such as 90s, 1.5h or 2w; None if invalid.

    Without a unit it is valid only if `is_bare`.
    """
    match = _SPAN.fullmatch(text)
    return None if match is None or not (match[2] or is_bare) else float(match[1]) * _UNITS[match[2]]


class Span(click.ParamType[float]):
    """A duration such as 90s, 15m, 1h, 2d or 2w; a number without a unit is in seconds."""

    name = "time"

    def __init__(self, least: str = "0s", most: str | None = None) -> None:
        """Accept durations between `least` and `most`, written as on the command line.

        None means no limit.
        """
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = span(str(value).strip())
        bounds = (span(self.least) or 0.0, math.inf if self.most is None else span(self.most) or math.inf)
        if seconds is None or not bounds[0] <= seconds <= bounds[1]:
            within = f" from {self.least} to {self.most}" if self.most is not None else ""
            example = "30s or 2m" if bounds[1] <= _UNITS["h"] else "90s, 15m, 1h or 2d"
            self.fail(f"{str(value)[:40]!r} is not a duration{within}; use one such as {example}.", param, ctx)
        return seconds


class _Target(click.Path):
    """Path to write to.

    Rejects an empty name, as of an unset variable, and the problems that `fault` finds.
    """

    def __init__(self, what: str, fault: Callable[[Path], str] = lambda _: "") -> None:
        super().__init__(path_type=Path)
        self.what, self._fault = what, fault

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail(f"the name is empty; use a {self.what}.", param, ctx)
        path: Any = super().convert(value, param, ctx)
        if fault := self._fault(path):
            self.fail(fault, param, ctx)
        return path


def _fault_of_folder(path: Path) -> str:
    return f"{path} is not a folder; use an existing or a new folder." if path.exists() and not path.is_dir() else ""


def _fault_of_file(path: Path) -> str:
    """Why a file may not be written: a folder or a device is never replaced."""
    if path.is_dir():
        return f"{path} is a folder; use a file in it."
    if path.exists() and not path.is_file():
        return f"{path} is not a regular file; use a writable file."
    return "" if path.parent.is_dir() else f"{path.parent} is not a folder; create it first, or use another."


FILE = _Target("file", _fault_of_file)
FOLDER = _Target("folder", _fault_of_folder)
FILE_OR_FOLDER = _Target("file", lambda path: "" if path.is_dir() else _fault_of_file(path))
NEW_FOLDER = _Target("new folder")
EXPLAIN = click.option("--explain", is_flag=True, help="Show everything: figures, tables, all findings, unknown facts.")

FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)


_NUMBERS = {
    "S": "number of seconds; pass one, such as 600",
    "GIB": "number of GiB; pass one, such as 40",
    "MIB": "number of MiB; pass one, such as 64",
}


def number(_context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Reject `nan`, which passes every bound."""
    if value is not None and math.isnan(value):
        raise click.BadParameter(f"nan is not a {_NUMBERS[parameter.metavar or 'S']}.")
    return value


def value(form: str, says: str, kind: click.ParamType[Any] | type | None = None, **more: Any) -> Callable[[_F], _F]:
    """An option with a value; a default is shown, and `nan` is rejected unless it has a callback.

    Args:
        form: Its names, optionally its parameter, and its metavar, as in "-o --output out
            FILE".
        says: Its help.
        kind: Its type; by default text.
        more: Further arguments of `click.option`.
    """
    *names, metavar = form.split()
    more = {"callback": number if isinstance(kind, click.FloatRange) else None, **more}
    return click.option(*names, metavar=metavar, type=kind, show_default="default" in more, help=says, **more)


def choice(names: str, says: str, words: Iterable[str], **more: Any) -> Callable[[_F], _F]:
    """An option with one of several words; a default is shown."""
    return click.option(
        *names.split(), type=click.Choice(list(words)), show_default="default" in more, help=says, **more
    )


def examples(*calls: str) -> str:
    """The end of a command's help: how it is called, line by line as written."""
    lines = "".join(f"\n  {line}" for call in calls for line in _broken(f"vllm-runbooks {call}"))
    return f"\b\nExample{'s' * (len(calls) > 1)}:{lines}"


_MOST = 72


def _broken(call: str) -> Iterator[str]:
    """Split a command line into shell-continued lines, before an option or `--`."""
    while len(call) > _MOST and (at := call.rfind(" -", 4, _MOST - 1)) > 0:
        yield f"{call[:at]} \\"
        call = f"  {call[at + 1 :]}"
    yield call
