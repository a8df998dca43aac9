"""Records of folders between the steps to an edge chip: what lies there, and what is wrong."""

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
    """None: the listing does not tell it."""
    kind: str = "file"
    """Of `FILE_KINDS`."""


FILE_KINDS = ("file", "folder", "broken link", "linked folder", "other")
"""A link to a file is the file; one to a folder is not followed; the last is neither, as a socket."""


@dataclass(frozen=True)
class Listing:
    """What lies in a folder."""

    name: str
    """Of the folder; empty: it is not told."""
    files: tuple[ListedFile, ...]
    unread: Mapping[str, str] = field(default_factory=dict)
    """By path of a folder in it why it could not be listed."""
    is_truncated: bool = False
    """Whether there is more than is listed."""
    tool: str = ""
    """What listed it."""


@dataclass(frozen=True)
class Contents:
    """What stands in the files of a folder, as far as it is judged; all by path."""

    texts: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Bytes of each tensor, by file and name."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with a file that could not be read."""


@dataclass(frozen=True)
class CheckedFolder:
    """What a folder between two steps is, and what is wrong with it: what `edge10 check --format json` prints."""

    toolchain: str
    """Id of the facts."""
    name: str
    """Of the folder; empty: it is not told."""
    artefact: str
    """Of `ARTEFACTS`."""
    kind: str | None
    """Of `KINDS`; None: it is not told."""
    dies: int | None
    dies_source: str
    lengths: tuple[int, ...] | None
    lengths_source: str
    listing: Listing
    findings: tuple[RuleFinding, ...]
    unchecked: tuple[str, ...] = ()
    """What was asked for, and could not be established."""
    notes: tuple[str, ...] = ()
    """What the answer does not cover, or takes from the files themselves."""
    ok: bool | None = None
    """None: nothing was found, and something that was asked for could not be established."""


ARTEFACTS = ("compiled", "checkpoint")
