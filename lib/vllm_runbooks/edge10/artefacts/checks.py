"""What `edge10 check` is given, read and judged: a folder of this host, or a listing of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core import errors
from vllm_runbooks.core.errors import InputError, WrongFileError
from vllm_runbooks.core.redaction.redact import redact_name, redact_record, redact_text
from vllm_runbooks.edge10.artefacts import folders, listings
from vllm_runbooks.edge10.artefacts import kinds as artefacts
from vllm_runbooks.edge10.artefacts.kinds import Asked, Given
from vllm_runbooks.edge10.artefacts.records import CheckedFolder, Contents, Listing
from vllm_runbooks.edge10.jobs import job as jobs
from vllm_runbooks.edge10.jobs.records import Job
from vllm_runbooks.reading import sources

_INSTEAD = "name a folder of artefacts, or what `tree -s` or `ls -lR` printed of one"


def check(
    name: str,
    *,
    job: str | None = None,
    float_name: str | None = None,
    dies: int | None = None,
    lengths: Sequence[int] | None = None,
    step: str | None = None,
    version: str | None = None,
) -> CheckedFolder:
    """Judge a folder, or a listing of one.

    Args:
        name: Of the folder or of the listing; `-` is a listing on standard input.
        job: File of the job that it belongs to.
        float_name: The float model's folder, or a listing of it.
        dies: How many dies it should be of.
        lengths: Which lengths it should be of.
        step: Of `STEPS`, the one that wrote it.
        version: Of the toolchain.

    Raises:
        InputError: something that is named cannot be read, or is no artefact.
    """
    known = read_job(job) if job else None
    facts = catalog.toolchain(version or (known.toolchain if known else None))
    given = read(name)
    float_ = read(float_name) if float_name else None
    is_same = float_name is not None and is_folder(name) and is_folder(float_name) and Path(name).samefile(float_name)
    asked = Asked(known, dies, tuple(lengths) if lengths else None, step)
    return artefacts.check(given, facts, asked, float_=float_, is_same=is_same)


def is_folder(name: str) -> bool:
    """Whether a name is that of a folder of this host."""
    return name != "-" and "\0" not in name and Path(name).is_dir()


def read(name: str) -> Given:
    """Read a folder, or a listing of one, which tells nothing of what stands in the files.

    Raises:
        InputError: it is neither.
    """
    errors.check_texts(name=name)
    if not name.strip():
        raise InputError(f"(nothing): is no name; {_INSTEAD}")
    if is_folder(name):
        listing = folders.list_folder(Path(name))
        return Given(listing, folders.read_contents(Path(name), listing))
    try:
        documents = sources.load_files([name]).documents
    except WrongFileError as error:
        raise InputError(f"{error.wrong}; {_INSTEAD}") from None
    if len(documents) != 1:
        raise InputError(f"{name}: holds {len(documents)} files; {_INSTEAD}")
    text, size = [], 0
    for piece in documents[0].pieces():
        text.append(piece)
        size += len(piece)
        if size > listings.MAX_TEXT:
            break
    return Given(listings.read("".join(text), "standard input" if name == "-" else name), Contents())


def read_job(name: str) -> Job:
    """Read the description of a job.

    Raises:
        InputError: it cannot be read, or contradicts itself; the first problem is told.
    """
    found = jobs.read(sources.read_text(name, jobs.INSTEAD), catalog.toolchain)
    if found.job is None:
        first = found.problems[0]
        more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
        raise InputError(f"{name}:{first.line}: {first.text}{more}; `vllm-runbooks edge10 make` tells all")
    return found.job


def without_secrets(found: CheckedFolder) -> CheckedFolder:
    """The answer as it may be shown; what is done with it needs the names as they are."""
    for each in found.listing.files:
        if "@" in each.path:
            redact_name(each.path)  # a login in front of a host: it is known from here on
    shown = redact_record(replace(found, listing=Listing(found.listing.name, ())))
    paths = "\n".join(each.path for each in found.listing.files)
    files = found.listing.files
    if redact_text(paths) != paths:
        files = tuple(replace(each, path=redact_name(each.path)) for each in files)
    return replace(shown, listing=replace(redact_record(replace(found.listing, files=())), files=files))
