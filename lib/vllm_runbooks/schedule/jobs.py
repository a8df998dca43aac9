"""The jobs of this user: one file each, written atomically and read as untrusted."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm_runbooks.core import user_folders
from vllm_runbooks.core.errors import CatalogError, InputError, suggestion
from vllm_runbooks.core.files import store
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.schedule import cron, policy
from vllm_runbooks.schedule.records import Missed, Overlap, ScheduledJob

if TYPE_CHECKING:
    from vllm_runbooks.catalog.authored.located import Problem

OWN = ("check", "probe", "run")
"""Our commands that a job may run."""
PAPERMILL = "papermill"
_NAME = re.compile(r"[a-z0-9-]{1,40}", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,80}", re.ASCII)
"""Name of an environment variable."""
_LONGEST_S = 31 * 86400.0
_TOO_LARGE = 10**15
"""Limit of a number of seconds: larger ones may not fit a float."""
_MOST_WORDS, _LONGEST_WORD = 200, 4000


def config() -> Path:
    """The folder of jobs."""
    return user_folders.config() / "jobs"


def state() -> Path:
    """The folder of runs and locks."""
    return user_folders.state() / "jobs"


def out(job: ScheduledJob) -> Path:
    """The folder for the runs of a job."""
    return Path(job.folder, job.out) if job.out else state() / job.name


def path(name: str) -> Path:
    """The file of a job.

    Raises:
        InputError: the name is invalid.
    """
    if not _NAME.fullmatch(name) or name.startswith("-"):
        excerpt = "".join(c if c.isprintable() else "?" for c in name[:60]) or "(nothing)"
        raise InputError(f"{excerpt}: is not a job name; use lowercase letters, digits and hyphens, at most 40")
    return config() / f"{name}.yaml"


def environment(name: str) -> Path:
    """The file with a job's secret variables; it may be missing."""
    return path(name).with_suffix(".env")


def names() -> list[str]:
    """Names of all jobs."""
    try:
        return sorted(file.stem for file in config().glob("*.yaml") if _NAME.fullmatch(file.stem) and file.is_file())
    except OSError:
        return []


def load(name: str) -> ScheduledJob:
    """Read a job.

    Raises:
        InputError: There is none of this name, or its file is broken.
    """
    from vllm_runbooks.catalog.authored.located import read_record

    file = path(name)
    if not file.is_file():
        hint = suggestion(name, names(), "`vllm-runbooks schedule list` lists all jobs")
        raise InputError(f"{name}: no such job; {hint}")
    try:
        job: ScheduledJob = read_record(file, str(file), _parsed, problems)
    except CatalogError as error:
        raise InputError("; ".join(str(error).splitlines())) from None
    if job.name != name:
        raise InputError(f"{file}: name: is {job.name!r}, but the file's name is {name!r}")
    return job


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and not abs(value) >= _TOO_LARGE  # a NaN is a number, and out of range


_KINDS: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any], Any], str]] = {
    "str": (_is_text, str, "is not a string; write one, in quotes if it looks like another type"),
    "str | None": (lambda value: value is None or _is_text(value), lambda value: value, "is not a string; write one"),
    "float": (_is_number, float, "is not a number of seconds"),
    "tuple[str, ...]": (
        lambda value: isinstance(value, list) and all(map(_is_text, value)),
        tuple,
        "is not a list of strings; write one word per line, in quotes if it looks like another type",
    ),
    "Missed": (lambda value: value in list(Missed), Missed, f"must be one of {', '.join(Missed)}"),
    "Overlap": (lambda value: value in list(Overlap), Overlap, f"must be one of {', '.join(Overlap)}"),
}
"""Check of a field by its type, its conversion, and the message for an invalid value.

Written manually, because a wake-up every few minutes should not load the catalog's validation.
"""


def _parsed(data: Any) -> tuple[ScheduledJob | None, list[Problem]]:
    """The job in a file's data (None if broken), and the problems."""
    from vllm_runbooks.catalog.authored.located import plain

    try:
        names = plain(data)
    except ValueError as error:  # a key of thousands of digits
        return None, [((), str(error))]
    if not isinstance(names, dict):
        return None, [((), "has no fields; compare with the file of another job")]
    job_fields = {field.name: field for field in fields(ScheduledJob)}
    faults: list[Problem] = [((name,), "is not a known field") for name in names if name not in job_fields]
    values: dict[str, Any] = {}
    for name, field in job_fields.items():
        if name in names:
            is_right, made, expected = _KINDS[str(field.type)]
            if is_right(names[name]):
                values[name] = made(names[name])
            else:
                faults.append(((name,), expected))
        elif field.default is MISSING:
            faults.append(((name,), "is missing"))
    return (None, faults) if faults else (ScheduledJob(**values), [])


def problems(job: ScheduledJob) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Problems of a job, by field."""
    for field, check in (
        ("name", lambda: path(job.name)),
        ("at", lambda: cron.parse(job.at)),
        ("zone", lambda: cron.zone(job.zone)),
    ):
        try:
            check()
        except InputError as error:
            yield (field,), str(error)
    if not job.command or job.command[0] not in (*OWN, PAPERMILL):
        yield ("command",), f"must start with one of {', '.join((*OWN, PAPERMILL))} after --"
    elif job.command[0] == PAPERMILL and (len(job.command) < 3 or any(w.startswith("-") for w in job.command[1:3])):
        yield ("command",), "papermill needs an input and an output notebook, then its options"
    if len(job.command) > _MOST_WORDS or any(len(word) > _LONGEST_WORD for word in job.command):
        yield ("command",), f"is too long; at most {_MOST_WORDS} words of {_LONGEST_WORD} characters"
    if any(not word.isprintable() for word in (*job.command, job.folder, job.out or "", job.metrics or "")):
        yield ("command",), "contains a character that a systemd unit cannot have; rename the file"
    elif redact_text(shlex.join(job.command)) != shlex.join(job.command):
        yield ("command",), "contains a secret; use a variable instead, and set it in the job's .env file"
    if any(word in ("-h", "--help") for word in job.command):
        yield ("command",), "the command contains --help; use a complete command"
    if job.command[:1] != (PAPERMILL,) and any(word == "--out" or word.startswith("--out=") for word in job.command):
        yield ("command",), "every run has its own folder; put --out before the --"
    if not Path(job.folder).is_absolute():
        yield ("folder",), f"{job.folder!r} is not an absolute path"
    if policy.moment(job.added) is None:
        yield ("added",), f"{job.added!r} is not a time; write it as in 2026-11-21T13:37:18Z"
    for field, value, least in (("grace_s", job.grace_s, 0.0), ("timeout_s", job.timeout_s, 1.0)):
        if not math.isfinite(value) or not least <= value <= _LONGEST_S:
            yield (field,), f"{value:g} is out of range; give {least:g} to {_LONGEST_S:.0f} seconds"
    if job.webhook_env is not None and not VARIABLE.fullmatch(job.webhook_env):
        yield ("webhook_env",), "is not a variable name; the address is a secret and must not be in a file"
    if job.out is not None and os.path.lexists(runs := Path(job.folder, job.out)) and not runs.is_dir():
        yield ("out",), f"{job.out!r} is not a folder; use an existing or new folder"
    if job.metrics is not None and not job.metrics.endswith(".prom"):
        yield ("metrics",), f"{job.metrics!r} must end in .prom to be collected"
    mine = _place(job.folder, job.metrics)
    others = (name for name in names() if name != job.name) if mine is not None else ()
    for other in others:
        if _metrics(other) == mine:
            yield ("metrics",), f"{job.metrics!r} is also used by the job {other}; use one file per job"


def _metrics(name: str) -> str | None:
    """File for a job's metrics, if the job's file can be read."""
    from vllm_runbooks.catalog.authored.located import plain, read_yaml

    file = path(name)
    with contextlib.suppress(CatalogError, ValueError):
        job_data = plain(read_yaml(file, str(file)))
        return _place(job_data.get("folder"), job_data.get("metrics")) if isinstance(job_data, dict) else None
    return None


def _place(within: Any, metrics: Any) -> str | None:
    """The real file of a path."""
    if not all(isinstance(text, str) and text.isprintable() for text in (within, metrics)):
        return None
    return os.path.realpath(Path(within, metrics))


def save(job: ScheduledJob) -> Path:
    """Write a job's file atomically.

    Raises:
        InputError: the job has a problem.
    """
    import io

    from ruamel.yaml import YAML

    from vllm_runbooks.core.record_forms import document

    for place, message in problems(job):
        raise InputError(message if message.startswith("--") else f"{job.name}: {'.'.join(map(str, place))}: {message}")
    file = path(job.name)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"{file.parent}: cannot be created: {error.strerror}; check XDG_CONFIG_HOME") from None
    text = io.StringIO()
    writer = YAML()
    writer.width = 1000
    writer.dump({key: value for key, value in document(job).items() if value is not None}, text)
    store(file, text.getvalue())
    return file


def remove(name: str) -> Path:
    """Remove a job's file and its metrics; its runs and the history stay.

    Raises:
        InputError: There is none.
    """
    file = path(name)
    if not file.is_file():
        raise InputError(f"{name}: no such job; `vllm-runbooks schedule list` lists all jobs")
    with contextlib.suppress(InputError, OSError):
        job = load(name)
        if job.metrics is not None:
            Path(job.folder, job.metrics).unlink(missing_ok=True)
    file.unlink()
    return file
