"""Load and check the input of `edge10 check`: a folder of this host, or a listing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import errors
from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.core.redaction.redact import redact_name, redact_record
from vllm_runbooks.edge10.artefacts import folders, listings
from vllm_runbooks.edge10.artefacts import kinds as artefacts
from vllm_runbooks.edge10.artefacts.kinds import ExpectedArtefact, ScannedFolder
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Contents
from vllm_runbooks.edge10.jobs import job as jobs
from vllm_runbooks.edge10.jobs.records import EdgeJob
from vllm_runbooks.reading import sources

_INSTEAD = "use a folder of artefacts, or its listing by `tree -s` or `ls -lR`"


def check(
    name: str, *, job: str | None = None, float_name: str | None = None, dies: int | None = None,
    lengths: Sequence[int] | None = None, step: str | None = None, version: str | None = None,
) -> CheckedFolder:  # fmt: skip
    """Check a folder or a listing; raises InputError."""
    description = _read_job(job) if job else None
    facts = catalog.toolchain(version or (description.toolchain if description else None))
    folder = read(name)
    float_model = read(float_name) if float_name else None
    is_same = float_name is not None and is_folder(name) and is_folder(float_name) and Path(name).samefile(float_name)
    request = ExpectedArtefact(description, dies, tuple(lengths) if lengths else None, step)
    return artefacts.check(folder, facts, request, float_=float_model, is_same=is_same)


def is_folder(name: str) -> bool:
    """Whether a name is that of a folder of this host."""
    return name != "-" and "\0" not in name and Path(name).is_dir()


def read(name: str) -> ScannedFolder:
    """Read a folder, or a listing without the contents of the files; raises InputError."""
    errors.check_texts(name=name)
    if not name.strip():
        raise InputError(f"(nothing): empty name; {_INSTEAD}")
    if is_folder(name):
        listing = folders.list_folder(Path(name))
        return ScannedFolder(listing, folders.read_contents(Path(name), listing))
    try:
        documents = sources.load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {_INSTEAD}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: contains {len(documents)} files; {_INSTEAD}")
    text = sources.beginning(documents[0], listings.MAX_TEXT)
    return ScannedFolder(listings.read(text, "standard input" if name == "-" else name), Contents())


def _read_job(name: str) -> EdgeJob:
    description = jobs.read(sources.read_text(name, jobs.INSTEAD), catalog.toolchain)
    if description.job is None:
        first = description.problems[0]
        more = f" (and {len(description.problems) - 1} more)" if len(description.problems) > 1 else ""
        raise InputError(f"{name}:{first.line}: {first.text}{more}; `vllm-runbooks edge10 make` lists all problems")
    return description.job


def without_secrets(checked: CheckedFolder) -> CheckedFolder:
    """Redact an answer for printing; a password in the name of a file is replaced everywhere."""
    listing = checked.listing
    files = tuple(replace(file, path=redact_name(file.path)) for file in listing.files)
    return redact_record(replace(checked, listing=replace(listing, files=files)))
