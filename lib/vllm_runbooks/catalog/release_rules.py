"""Release-dependent rules, from tables of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from vllm_runbooks.catalog.eras import NEVER, Key
from vllm_runbooks.catalog.tables import load_table
from vllm_runbooks.core.record_forms import AUTHORED, record

T = TypeVar("T")
_OLDEST = "0.6"
"""Values of this release apply to older ones as well."""


@dataclass(frozen=True)
class ValueHistory:
    """The values of a rule over the releases."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    values: Mapping[str, Any] = field(default_factory=dict)
    """Each value by the first release with it, oldest first."""
    until: str = ""
    """The first release without the rule."""

    def value_in(self, release: Key, default: Any = None) -> Any:
        """Value in a release; `default` if the release does not have the rule."""
        if self.until and release >= numbers(self.until):
            return default
        begun = [value for since, value in self.values.items() if since == _OLDEST or release >= numbers(since)]
        return begun[-1] if begun else default


@dataclass(frozen=True)
class SinceRelease:
    """Something that releases have from one on."""

    __pydantic_config__: ClassVar[dict[str, Any]] = AUTHORED

    since: Key = NEVER


def numbers(release: str) -> Key:
    """The numbers of a release, comparable."""
    return tuple(map(int, release.split(".")))


def rules_in(table: str, kind: type[T], release: Key) -> T:
    """Build the record of a release's rules; fields without a value keep their defaults."""
    missing = object()
    values = {name: history.value_in(release, missing) for name, history in load_table(table, ValueHistory).items()}
    return record(kind, {name: value for name, value in values.items() if value is not missing})
