"""A broken rule at a location in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vllm_runbooks.core.excerpt import Replacement

Edits = tuple[Replacement, ...]


@dataclass(frozen=True)
class Hit:
    rule: str
    start: int
    end: int
    says: Mapping[str, str] = field(default_factory=dict)
    """Arguments of the rule's message."""
    edits: Edits = ()
    """Edits that fix it together; empty if no fix is certain."""
    is_loose: bool = False
    """Whether it is a warning at most: in a comment or table, which does not run, or of a name that may be another."""
    where: str = ""
    """Prefix of the message if it is in another file."""
    is_call: bool = False
    """Whether it is in a Python call, with keyword arguments instead of options."""
    is_information: bool = False
    """Whether it is information at most: of a launch that may run another vLLM, or in a comment."""


class ParserVerdict(NamedTuple):
    """Verdict of an installed vLLM on a command."""

    vllm: str
    stage: str | None
    """"parse", "validate" or "config" if it is rejected there, else None."""
    says: str
