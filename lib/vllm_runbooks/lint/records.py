"""Records of linted commands: issues with their fixes, launches, and a migration; places as in `core.records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.core.record_forms import OMIT_NONE, UNPRINTED
from vllm_runbooks.core.records import IssueSeverity


@dataclass(frozen=True)
class Fix:
    """Edit of the file that fixes an issue: the text between two positions becomes `new_text`."""

    line: int
    column: int
    end_line: int
    end_column: int
    new_text: str


@dataclass(frozen=True)
class SourceLine:
    """The line of an issue, secrets replaced, with the range of its subject."""

    text: str
    start: int
    end: int
    """Offsets in the text; equal for a position between two characters."""


@dataclass(frozen=True)
class Issue:
    """Something that is wrong with a command, and where."""

    rule: str
    severity: IssueSeverity
    line: int
    column: int
    text: str
    """Text there, at most 400 characters, secrets replaced."""
    message: str
    fix: Fix | None
    file: str | None = field(default=None, metadata=OMIT_NONE)
    """File with the issue, if several are linted together."""
    notes: tuple[str, ...] = field(default=(), metadata=UNPRINTED)
    """Sentences of the message after the first."""
    restated: tuple[str, ...] = field(default=(), metadata=UNPRINTED)
    """Notes that name nothing but the fix's text."""
    source: SourceLine | None = field(default=None, metadata=UNPRINTED, compare=False)
    """None if the line is blank or very long."""


@dataclass(frozen=True)
class CommandRelease:
    """Release for which commands are linted, and how it was determined."""

    version: str
    source: str
    """"given", "image", "pin" (a pip pin in the file), "log", "newest", "unknown" (checked as the newest) or
    "toolchain" (the release that it evaluates with)."""
    data: str
    """Release whose generated data is used: the same, else the nearest."""
    file: str | None = field(default=None, metadata=UNPRINTED)
    """Name of the settings file with the release."""


@dataclass(frozen=True)
class Launch:
    """A vLLM launch as its parser reads it, secrets replaced."""

    model: str | None
    flags: Mapping[str, Any]
    """Explicitly given options: argparse destination to typed value."""
    env: Mapping[str, str | None]
    """None for a value that depends on running the script."""


@dataclass(frozen=True)
class VllmMention:
    """A word of vLLM in a text without a launch."""

    line: int
    text: str


@dataclass(frozen=True)
class Linted:
    """Output of `lint --format json`."""

    vllm: CommandRelease
    issues: tuple[Issue, ...]
    deployments: tuple[Launch, ...]
    fixed: str | None
    """The whole text with every fix, secrets replaced; None without fixes."""
    lang: str | None = field(default=None, metadata=OMIT_NONE)
    """Language of the messages if not English."""
    left_out: int = field(default=0, metadata=UNPRINTED)
    """Number of issues that are not among `issues`, which are the gravest of very many."""
    mention: VllmMention | None = field(default=None, metadata=OMIT_NONE)
    """First word of vLLM in a text in which no launch was found; None if there is none, or a launch."""
    other_releases: tuple[CommandRelease, ...] = field(default=(), metadata=UNPRINTED)
    """Releases of other launches, such as those with another image."""


@dataclass(frozen=True)
class ChangedDefault:
    """A setting that is left to its default, which another release has changed."""

    option: str
    from_: Any
    to: Any
    explicit: bool
    """Whether the rewritten script sets the former value."""
    note: str = ""
    """Effect of the change."""


@dataclass(frozen=True)
class Migrated:
    """Output of `migrate --format json`: the lint for the target release, and the changes."""

    vllm: CommandRelease
    issues: tuple[Issue, ...]
    deployments: tuple[Launch, ...]
    fixed: str | None
    changed_defaults: tuple[ChangedDefault, ...]
    diff: str
    lang: str | None = field(default=None, metadata=OMIT_NONE)
    """Language of the messages if not English."""
