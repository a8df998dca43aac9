"""Which shared memory the processes of a start have opened, so that it can be told later whose it was."""

from __future__ import annotations

from collections.abc import Collection

from vllm_runbooks.host import leftovers

EVERY_S = 5.0
_LOOKS = 24
"""How often a segment is looked for in the start's processes: whoever makes one maps it at once, and the others within
minutes. After that it counts as somebody else's, and what other servers leave open costs nothing more."""


class Segments:
    """The segments of one start."""

    def __init__(self) -> None:
        self.own: dict[str, int] = {}
        """Names and inodes."""
        self._looked: dict[tuple[str, int], int] = {}
        """Of those that are nobody's here, how often they were looked for."""
        self._next = 0.0

    def look(self, processes: Collection[int], now: float) -> bool:
        """Look which segments these processes have mapped, where it is time to; says whether it was."""
        if now < self._next:
            return False
        self._next = now + EVERY_S
        new = [each for each in leftovers.segments().items() if self.own.get(each[0]) != each[1]]
        self._looked = {each: self._looked.get(each, 0) + 1 for each in new}
        young = {name: inode for name, inode in new if self._looked[name, inode] <= _LOOKS}
        if young:
            self.own.update({name: young[name] for name in leftovers.opened_by([*processes], young)})
        return True
