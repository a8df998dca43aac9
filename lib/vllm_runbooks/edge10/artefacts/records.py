"""Records of the folders between the steps for an edge chip: contents and problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.catalog.tables import RuleFinding


@dataclass(frozen=True)
class ListedFile:
    """A file, a folder or a link of a listing."""

    path: str
    """Below the folder that was listed, with `/` between its parts."""
    bytes: int | None = None
    """Size; None if the listing does not have it."""
    kind: str = "file"
    """One of `FILE_KINDS`."""


FILE_KINDS = ("file", "folder", "broken link", "linked folder", "other")
"""A link to a file is the file; one to a folder is not followed; the last is neither, as a socket."""


@dataclass(frozen=True)
class Listing:
    """Files of a folder."""

    name: str
    """Folder name; empty if unknown."""
    files: tuple[ListedFile, ...]
    unread: Mapping[str, str] = field(default_factory=dict)
    """By path of a folder in it why it could not be listed."""
    is_truncated: bool = False
    """Whether there is more than is listed."""
    tool: str = ""
    """Tool that wrote the listing."""


@dataclass(frozen=True)
class Contents:
    """Contents of the checked files of a folder, by path."""

    texts: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Bytes of each tensor, by file and name."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Problems of unreadable files."""


@dataclass(frozen=True)
class CheckedFolder:
    """Kind and problems of a folder between two steps: output of `edge10 check --format json`."""

    toolchain: str
    """Id of the facts."""
    name: str
    """Folder name; empty if unknown."""
    artefact: str
    """One of `ARTEFACTS`."""
    kind: str | None
    """One of `KINDS`; None if unknown."""
    dies: int | None
    dies_source: str
    lengths: tuple[int, ...] | None
    lengths_source: str
    listing: Listing
    findings: tuple[RuleFinding, ...]
    unchecked: tuple[str, ...] = ()
    """Requested checks without a result."""
    notes: tuple[str, ...] = ()
    """Limits of the answer, and values taken from the files themselves."""
    ok: bool | None = None
    """None if no problem was found, but a requested check has no result."""


ARTEFACTS = ("compiled", "checkpoint")
