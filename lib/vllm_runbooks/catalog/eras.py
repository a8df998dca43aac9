"""Facts by release of vLLM: eras, and values by era."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Key = tuple[int, ...]
"""Numbers of a release, as many as needed."""
NEVER: Key = (10**6,)


class Era(NamedTuple):
    """From one release to before another."""

    since: Key = ()
    until: Key = NEVER

    def holds(self, release: Key | None) -> bool:
        """Whether a release is in the era; an unknown one counts as the newest."""
        return self.until == NEVER if release is None else self.since <= release < self.until


AT_NO_TIME = Era(NEVER)


class EraValue(NamedTuple):
    """A value with the release that it begins in; the next one of a table ends it."""

    value: Any
    since: Key = ()


def in_release(rules: Sequence[EraValue], release: Key | None) -> Any:
    """Value of the last rule that applies in a release; the last of all for an unknown release."""
    return next(rule.value for rule in reversed(rules) if release is None or rule.since <= release)
