"""Load evidence and texts by name: a recorded case, a file, a pack, standard input."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vllm_runbooks.catalog import folders
from vllm_runbooks.core.errors import InputError, check_texts
from vllm_runbooks.core.evidence import Case, Evidence
from vllm_runbooks.core.extensions import CASE_READER, extension
from vllm_runbooks.core.files import JOB
from vllm_runbooks.reading import evidence as _evidence

MAX_SCRIPT, beginning = _evidence.MAX_SCRIPT, _evidence.beginning

_MAX_BESIDE = 1_000_000


def read_case(path: Path) -> Case:
    case: Case = extension(CASE_READER)(path, str(path))
    return case


def load(
    name: str,
    *,
    pasted: str = "",
    vllm: str | None = None,
    cases: str | Path | None = None,
    more: str = "",
    command: str = "",
) -> Evidence:
    """Load evidence: a recorded case's id, its folder, or a log file; a pasted log has precedence.

    `more` names further logs or cases, separated by commas; the expectations of a recorded case are
    then dropped. `command` names the script or manifest of the log.

    Raises:
        InputError: The file or case does not exist or cannot be read.
    """
    check_texts(evidence=name, pasted_log=pasted, vllm=vllm, more_logs=more, command=command)
    check_release(vllm)
    evidence = _checked(_loaded(name, pasted, vllm or None, cases, more))
    return replace(evidence, command=read_text(command)) if command.strip() else evidence


def _loaded(name: str, pasted: str, vllm: str | None, cases: str | Path | None, more: str) -> Evidence:
    if pasted.strip():
        return _evidence.pasted(pasted, vllm=vllm)
    named = [name, *(part.strip() for part in more.split(",") if part.strip())]
    parts = [_evidence.load(item, read_case=read_case, cases=cases_folder(cases), vllm=vllm) for item in named]
    if len(parts) == 1:
        return parts[0]
    return Evidence(tuple(document for item in parts for document in item.documents), vllm=vllm)


def check_release(vllm: str | None) -> None:
    """Reject an invalid release before a log is read."""
    if vllm:
        from vllm_runbooks.catalog import options

        options.nearest(vllm)


def is_job(name: str) -> bool:
    """Whether a folder has an edge job that is not a recorded case."""
    folder = Path(name)
    return (folder / JOB).is_file() and not (folder / "case.yaml").is_file()


def read_text(name: str, instead: str = _evidence.NAME_A_SCRIPT) -> str:
    """Text of a script, a recorded case, a pack's command, or `-`.

    `instead` is the hint if there is none.
    """
    if name != "-" and Path(name).is_file() and not Path(name).stat().st_size:
        return ""  # no launch, such as an empty __init__.py of a commit
    if _is_pack(name):
        return _evidence.packed_command(Path(name))
    if name != "-" and Path(name).is_dir() and not (Path(name) / "case.yaml").is_file():
        raise InputError(f"{name}: no case.yaml; {instead}")  # and logs in it are no scripts
    with _evidence.wanted_script(instead):
        documents = load_files([name]).documents
    if len(documents) != 1:
        raise InputError(f"{name}: contains {len(documents)} files; name one of them")
    return _evidence.script(documents[0], name)


def _is_pack(name: str) -> bool:
    return name != "-" and Path(name).is_file() and _evidence.is_pack(Path(name))


def read_rewritable(name: str, instead: str = _evidence.NAME_A_SCRIPT) -> str:
    """Like `read_text`, for a text that is rewritten: it must be UTF-8."""
    if _is_pack(name):
        return _evidence.packed_command(Path(name))
    where = "standard input" if name == "-" else name
    raw = _evidence.standard_input().read(4 * MAX_SCRIPT) if name == "-" else b""
    _evidence.check_rewritable(Path(name).read_bytes() if Path(name).is_file() else raw, where)
    if name != "-":
        return read_text(name, instead)
    if not raw.strip():
        raise InputError(f"{where}: is empty; {instead}")
    text = _evidence.decode(raw, where)
    if len(text) > MAX_SCRIPT:
        raise InputError(f"{where}: is larger than {MAX_SCRIPT} characters; use the part that launches vLLM")
    return text


def read_beside(folder: Path, name: str) -> str | None:
    """Text of a small plain config file in a script's folder, whose name may be untrusted.

    Else None.
    """
    relative = Path(name)
    if relative.drive or relative.root or ".." in relative.parts:
        return None
    path = folder / relative
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            return None  # by a folder that is a link
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BESIDE:
                return None
            return file.read(_MAX_BESIDE).decode("utf-8")
    except (OSError, ValueError, RuntimeError):  # the last where links lead in a circle
        return None


def load_files(names: Sequence[str], *, vllm: str | None = None) -> Evidence:
    """Load the arguments of a command line; `-` is standard input."""
    check_release(vllm)
    return _checked(_evidence.load_files(names, read_case=read_case, cases=cases_folder(None), vllm=vllm))


def _checked(evidence: Evidence) -> Evidence:
    """Check the release that a pack names."""
    if evidence.pack is not None:
        try:
            check_release(evidence.vllm)
        except InputError as error:
            raise InputError(f"{evidence.pack}: {error}") from None
    return evidence


def cases_folder(override: str | Path | None) -> Path:
    return folders.cases_dir(None if override is None else str(override))


def paste(text: str, *, vllm: str | None = None) -> Evidence:
    """Evidence of a pasted log."""
    return _evidence.pasted(text, vllm=vllm)
