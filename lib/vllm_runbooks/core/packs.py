"""Records of an evidence pack: its members, and what was left out of them. Sizes are in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

KIND = "pack"
MANIFEST = "manifest.json"
INVENTORY = "inventory.json"
ISSUE = "issue.md"


class MemberRole(StrEnum):
    """What a member of a pack is."""

    LOG = "log"
    COMMAND = "command"
    INVENTORY = "inventory"
    DIAGNOSIS = "diagnosis"
    PLAN = "plan"
    LINT = "lint"
    ISSUE = "issue"


@dataclass(frozen=True)
class Gap:
    """The middle of a log that is longer than what is kept of one."""

    after_line: int
    """The last line that is kept in front of the gap; a line of the tool's own stands in the gap."""
    lines: int
    bytes: int


@dataclass(frozen=True)
class Member:
    """A file in the archive."""

    name: str
    """Its path in the archive."""
    role: MemberRole
    source: str | None
    """Base name of what it was made of, secrets replaced; None: it was made by this tool."""
    bytes: int
    sha256: str
    hidden: Mapping[str, int] = field(default_factory=dict)
    """What was replaced in it, kind to count; the values themselves are nowhere in the archive."""
    left_out: Gap | None = None


@dataclass(frozen=True)
class Manifest:
    """Manifest of a pack; the logs are in the order in which they were passed."""

    kind: str
    tool: str
    """Version of the program that made it."""
    catalog: str
    """Key of the catalog that it was diagnosed with."""
    vllm: str | None
    gpus: str | None
    """Cards of the start, as they were given by name; None: not given, or as a snapshot."""
    start: int | None
    """Which of several starts was described, as it was given."""
    is_inventory_of_start: bool | None
    """Whether the inventory is of the host of the start, as whoever packed it said; None: there is no inventory."""
    outcome: str | None
    root_cause: str | None
    members: tuple[Member, ...]
    """All but the manifest itself."""
    hidden: Mapping[str, int]
    notes: tuple[str, ...] = ()
