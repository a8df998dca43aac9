"""Records of an evidence pack: its members, and the omitted parts. Sizes are in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

KIND = "pack"
MANIFEST = "manifest.json"
INVENTORY = "inventory.json"
ISSUE = "issue.md"


class MemberRole(StrEnum):
    """Role of a member of a pack."""

    LOG = "log"
    COMMAND = "command"
    INVENTORY = "inventory"
    DIAGNOSIS = "diagnosis"
    PLAN = "plan"
    LINT = "lint"
    ISSUE = "issue"


@dataclass(frozen=True)
class Gap:
    """The omitted middle of a log that exceeds the limit."""

    after_line: int
    """Last line before the gap; the gap contains a line written by the tool."""
    lines: int
    bytes: int


@dataclass(frozen=True)
class Member:
    """A file in the archive."""

    name: str
    """Path in the archive."""
    role: MemberRole
    source: str | None
    """Base name of the source file, secrets replaced; None if this tool created it."""
    bytes: int
    sha256: str
    hidden: Mapping[str, int] = field(default_factory=dict)
    """Number of replacements by kind; the values are not in the archive."""
    left_out: Gap | None = None


@dataclass(frozen=True)
class Manifest:
    """Manifest of a pack; the logs are in the order in which they were passed."""

    kind: str
    tool: str
    """Version of the program that created it."""
    catalog: str
    """Key of the catalog that it was diagnosed with."""
    vllm: str | None
    gpus: str | None
    """GPUs of the launch as given by name; None if not given, or given as a snapshot."""
    start: int | None
    """Number of the described launch, as given."""
    is_inventory_of_start: bool | None
    """Whether the inventory is of the launch's host, according to the user; None without an
    inventory."""
    outcome: str | None
    root_cause: str | None
    members: tuple[Member, ...]
    """All but the manifest itself."""
    hidden: Mapping[str, int]
    notes: tuple[str, ...] = ()
