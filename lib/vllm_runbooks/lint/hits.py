"""A rule that is broken at a place in a file, before it is told in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_runbooks.core.excerpt import Replacement


@dataclass(frozen=True)
class Hit:
    """A broken rule."""

    rule: str
    start: int
    """Offsets in the file."""
    end: int
    says: Mapping[str, str] = field(default_factory=dict)
    """What fills the sentences of the rule's message: names and figures, and phrases in words of the code's own."""
    edits: tuple[Replacement, ...] = ()
    """The changes that mend it, all of them or none; empty: nothing certain does."""
    is_loose: bool = False
    """Whether it stands in a comment or a table: nothing is run there, so it is a warning at most."""
    where: str = ""
    """Where else it stands, as the beginning of its message: in a file that the place only names."""
    is_call: bool = False
    """Whether it stands in a Python call, whose readers know keyword arguments and no options."""
