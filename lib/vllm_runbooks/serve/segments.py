"""Which shared memory the processes of a start have opened, so that it can be told later whose it was."""

from __future__ import annotations

from collections.abc import Collection

from vllm_runbooks.host import leftovers

EVERY_S = 5.0
_LOOKS = 24
"""Looks at a segment until it counts as another process's: launches map theirs within minutes."""


class Segments:
    """The segments of one start."""

    def __init__(self) -> None:
        self.own: dict[str, int] = {}
        """Names and inodes."""
        self._looked: dict[tuple[str, int], int] = {}
        """Looks at segments without an owner."""
        self._next = 0.0

    def look(self, processes: Collection[int], now: float) -> bool:
        """Look for segments that these processes have mapped; return False if it is too early."""
        if now < self._next:
            return False
        self._next = now + EVERY_S
        new = [segment for segment in leftovers.segments().items() if self.own.get(segment[0]) != segment[1]]
        self._looked = {segment: self._looked.get(segment, 0) + 1 for segment in new}
        young = {name: inode for name, inode in new if self._looked[name, inode] <= _LOOKS}
        if young:
            self.own.update({name: young[name] for name in leftovers.opened_by([*processes], young)})
        return True
