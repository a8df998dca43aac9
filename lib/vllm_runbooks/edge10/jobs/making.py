"""Generate the files of a job from its description, check them like a user's own, and store them.

Generated files are recognized by their digest, so that generating again replaces them, and nothing
that a user wrote or changed is lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.catalog.toolchains import Toolchain
from vllm_runbooks.core.errors import InputError
from vllm_runbooks.core.files import store
from vllm_runbooks.core.records import IssueSeverity
from vllm_runbooks.core.redaction.redact import redact_text
from vllm_runbooks.edge10.jobs import job as jobs
from vllm_runbooks.edge10.jobs import names, steps
from vllm_runbooks.edge10.jobs import render as render_edge10_jobs
from vllm_runbooks.edge10.jobs.records import JobProblem, MadeFile, MadeIssue, MadeJob
from vllm_runbooks.edge10.scripts import checking as script_checking
from vllm_runbooks.reading import sources

_MARK = ".edge10-made.json"
"""Name of the file with the digests of generated files."""
_MAX_READ = 1_000_000
_EXECUTABLE = 0o111
_DIFFERS = "was written or changed by another program"
_NO_FILE = "is not a regular file"


def make(name: str, out: Path, *, is_replaced: bool = False) -> MadeJob:
    """Generate the files of a job in a folder.

    Args:
        name: The description's file, or `-` for standard input.
        out: The folder; created if missing.
        is_replaced: Whether files that a user wrote or changed are replaced, too.

    Raises:
        InputError: The description cannot be read, or a file would be lost.
    """
    description = jobs.read(sources.read_text(name, jobs.INSTEAD), catalog.toolchain)
    problems = tuple(map(_redacted, description.problems))
    if description.job is None:
        if not all(problem.is_read for problem in problems):
            raise InputError("\n".join(render_edge10_jobs.problem_line(name, problem) for problem in problems))
        return MadeJob("", None, problems, description.doubts, name, str(out), ())
    job, facts = description.job, catalog.toolchain(description.job.toolchain)
    made = steps.make_files(job, facts)
    written = store_made(made, out, is_replaced=is_replaced, description=None if name == "-" else Path(name))
    return MadeJob(
        toolchain=facts.id,
        job=job,
        problems=(),
        doubts=description.doubts,
        description=name,
        folder=str(out),
        files=made.files,
        written=tuple(written),
        issues=tuple(judged(made.texts, facts)),
        quantised_folder="" if job.calibration is None else names.quantised(job, facts),
        converted_folder=names.converted(job, facts),
        compiled_folder=names.compiled(job, facts),
        dies_folder=names.dies_folder(job.dies, facts),
    )


def _redacted(problem: JobProblem) -> JobProblem:
    return replace(problem, text=redact_text(problem.text), do=redact_text(problem.do))


def judged(texts: Mapping[str, str], facts: Toolchain) -> list[MadeIssue]:
    results = script_checking.lint_scripts(texts, toolchain=facts.version)
    return [
        MadeIssue(name, issue)
        for name, linted in results.items()
        for issue in linted.issues
        if issue.severity is not IssueSeverity.INFO
    ]


# ---- on the disk


class StoredFile(NamedTuple):
    """A file in a folder with the name of a generated file."""

    text: bytes | None
    """None if there is nothing."""
    is_plain: bool


def store_made(
    made: steps.JobFiles, out: Path, *, is_replaced: bool = False, description: Path | None = None
) -> list[str]:
    """Store the files that differ; returns the names that were written.

    Raises:
        InputError: A file would be lost. Nothing is written then.
    """
    before = _made_before(out)
    texts = {name: text.encode() for name, text in made.texts.items()}
    if description is not None and description.resolve() == (out / steps.JOB).resolve():
        texts.pop(steps.JOB)  # the description itself, which is its user's
    present = {name: _there(out / name) for name in texts}
    lost = {name: _NO_FILE for name, file in present.items() if not file.is_plain}
    for name, file in present.items():
        is_ours = file.text in (None, texts[name]) or (file.text and _digest(file.text) == before.get(name))
        if not is_ours and not is_replaced:
            lost.setdefault(name, _DIFFERS)
    if lost:
        listed = ", ".join(f"{name} {why}" for name, why in lost.items())
        how = "use another folder" if _NO_FILE in lost.values() else "use --replace, or another folder"
        raise InputError(f"{out}: {listed}; {how}")
    written = [name for name, file in present.items() if file.text != texts[name]]
    runs: Mapping[str, MadeFile] = {file.name: file for file in made.files}
    out.mkdir(parents=True, exist_ok=True)
    for name in written:
        store(out / name, texts[name])
        if runs[name].is_run:
            (out / name).chmod((out / name).stat().st_mode | _EXECUTABLE)
    digests = {name: _digest(text) for name, text in texts.items()}
    if digests != before:
        store(out / _MARK, json.dumps({"schema": 1, "files": digests}, indent=1) + "\n")
    return written


def _there(path: Path) -> StoredFile:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return StoredFile(None, is_plain=True)
    except OSError:
        return StoredFile(b"", is_plain=False)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return StoredFile(b"", is_plain=False)
        return StoredFile(file.read(_MAX_READ), is_plain=True)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _made_before(out: Path) -> dict[str, str]:
    """Digests of files generated earlier in a folder, by name; empty if they cannot be read."""
    text = _there(out / _MARK).text
    try:
        files = json.loads(text or b"{}").get("files", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    if not isinstance(files, dict):
        return {}
    return {name: digest for name, digest in files.items() if isinstance(digest, str) and Path(name).name == name}
