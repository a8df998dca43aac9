"""Records of linted commands: issues with their fixes, launches, and a migration; places as in `core.records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_runbooks.core.record_forms import OMIT_NONE, UNPRINTED
from vllm_runbooks.core.records import IssueSeverity


@dataclass(frozen=True)
class Fix:
    """A change of the file that mends an issue: what stands from one place up to another becomes `new_text`."""

    line: int
    column: int
    end_line: int
    end_column: int
    new_text: str


@dataclass(frozen=True)
class SourceLine:
    """The line of an issue, secrets replaced, and what the issue is about in it."""

    text: str
    start: int
    end: int
    """Offsets in the text; the same for a place between two characters."""


@dataclass(frozen=True)
class Issue:
    """Something that is wrong with a command, and where."""

    rule: str
    severity: IssueSeverity
    line: int
    column: int
    text: str
    """What stands there, at most 400 characters, secrets replaced."""
    message: str
    fix: Fix | None
    file: str | None = field(default=None, metadata=OMIT_NONE)
    """Where several files are judged together: the one that it is in."""
    notes: tuple[str, ...] = field(default=(), metadata=UNPRINTED)
    """Sentences of the message after the first."""
    restated: tuple[str, ...] = field(default=(), metadata=UNPRINTED)
    """Notes that name nothing but the fix's text."""
    source: SourceLine | None = field(default=None, metadata=UNPRINTED, compare=False)
    """None if the line is blank or very long."""


@dataclass(frozen=True)
class CommandRelease:
    """The release that commands are judged by, and how it is known."""

    version: str
    source: str
    """"given", "image", "log", "newest" or "toolchain" (which evaluates with it)."""
    data: str
    """The release whose generated data is used: the same, else the nearest."""
    file: str | None = field(default=None, metadata=UNPRINTED)
    """Name of the settings file with the release."""


@dataclass(frozen=True)
class Launch:
    """One start of vLLM as its parser understands it, secrets replaced."""

    model: str | None
    flags: Mapping[str, Any]
    """Argparse destination to typed value, of what is given explicitly."""
    env: Mapping[str, str | None]
    """None: a value that cannot be known without running the script."""


@dataclass(frozen=True)
class Linted:
    """What `lint --format json` prints."""

    vllm: CommandRelease
    issues: tuple[Issue, ...]
    deployments: tuple[Launch, ...]
    fixed: str | None
    """The whole text with every fix made, secrets replaced; None where nothing is to be fixed."""
    lang: str | None = field(default=None, metadata=OMIT_NONE)
    """Language of the messages where it is not English."""
    left_out: int = field(default=0, metadata=UNPRINTED)
    """Number of issues that are not among `issues`, which are the gravest of very many."""


@dataclass(frozen=True)
class ChangedDefault:
    """A setting that is left to its default, which another release has changed."""

    option: str
    from_: Any
    to: Any
    explicit: bool
    """Whether the rewritten script sets the former value."""
    note: str = ""
    """What the change does."""


@dataclass(frozen=True)
class Migrated:
    """What `migrate --format json` prints: the lint for the target, and what moves."""

    vllm: CommandRelease
    issues: tuple[Issue, ...]
    deployments: tuple[Launch, ...]
    fixed: str | None
    changed_defaults: tuple[ChangedDefault, ...]
    diff: str
    lang: str | None = field(default=None, metadata=OMIT_NONE)
    """Language of the messages where it is not English."""
