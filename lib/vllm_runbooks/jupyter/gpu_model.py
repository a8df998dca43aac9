"""What the panel GPUs shows of a host: one look, or several while it is watched."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from vllm_runbooks.catalog import folders
from vllm_runbooks.catalog import load as catalog
from vllm_runbooks.core.display import Shown
from vllm_runbooks.core.errors import InputError, RunbooksError
from vllm_runbooks.core.evidence import SNAPSHOT
from vllm_runbooks.host import inventory
from vllm_runbooks.host import loading as host_loading
from vllm_runbooks.host import render as inventories
from vllm_runbooks.host.gpu_memory import Nvml, Source
from vllm_runbooks.host.records import Inspected

_LOOKS = 30
"""Looks that are kept: by them it is told whether a card's memory moves."""


@dataclass(frozen=True)
class Told:
    """What the panel shows."""

    error: str = ""
    cards: Shown | None = None
    chosen: Shown | None = None
    findings: Shown | None = None


def told(snapshot: str, *, need_gib: float | None = None) -> Told:
    """A host by its snapshot, a recorded case, or for an empty name this host at one look, limits included."""
    try:
        return _shown(host_loading.inventory(snapshot.strip(), need_gib=need_gib))
    except RunbooksError as error:
        return Told(error=str(error))


class Watch:
    """This host's cards, looked at whenever it is asked."""

    def __init__(self, source: Source | None = None, *, need_gib: float | None = None) -> None:
        """Begin to look.

        Args:
            source: Where readings come from; None: this host's driver.
            need_gib: Memory that the start needs.

        Raises:
            InputError: no driver answers.
        """
        self._source: Source = Nvml() if source is None else source
        self._need_gib = need_gib
        self._readings = deque([self._source.read()], maxlen=_LOOKS)

    def look(self) -> Told:
        """The cards now, and what their memory did over the last looks."""
        self._readings.append(self._source.read())
        try:
            found = inventory.seen(list(self._readings), "the driver", catalog.specs(), self._need_gib)
        except InputError as error:
            return Told(error=str(error))
        return _shown(found)

    def close(self) -> None:
        """Let go of the driver."""
        if isinstance(self._source, Nvml):
            self._source.close()


def _shown(found: Inspected) -> Told:
    return Told("", inventories.host(found), inventories.chosen(found), inventories.findings(found))


def recorded() -> list[str]:
    """Ids of the recorded hosts."""
    return sorted(path.parent.name for path in folders.cases_dir().glob(f"*/{SNAPSHOT}"))
